import { type ChildProcessByStdio, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { installedProgram } from "../../packages/server/src/mcp/connect/process/server-files.ts";
import { npmServers, packages } from "../../packages/server/src/mcp/connect/testing/npm-servers.fixture.ts";
import { contestants } from "../contestants/index.ts";
import { describeGoal, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber } from "../lib/table.ts";
import { cpuOf, startServer, stopServer } from "../mcp/server-process.ts";

interface RestSample {
  readonly processes: number;
  /** MB of all processes; what several share is counted once. */
  readonly memory: number;
  /** MB of the process that has the tools. The floor has none. */
  readonly rack?: number;
  /** MB of one client's `toolrack mcp`. */
  readonly client?: number;
  /** From the start of `toolrack mcp` to the whole list of tools: milliseconds by the clock, and of CPU. */
  readonly firstList?: number;
  readonly firstListCpu?: number;
}

type Entries = Readonly<Record<string, { readonly command: string; readonly args: readonly string[] }>>;
type Client = ChildProcessByStdio<Writable, Readable, null>;

/** Each of the six real servers that the tests use, three times. */
const copies = 3;
const clients = 5;
const firstListGoal = 400;
const main = fileURLToPath(new URL("../../packages/server/src/main.ts", import.meta.url));
/** `BENCH_TOOLRACK=…/bin/toolrack.js` measures an installed product instead of the sources. */
const program = process.env.BENCH_TOOLRACK?.split(" ") ?? ["--conditions=toolrack-source", main];

/** What 18 MCP servers and 5 stdio clients cost while nobody calls anything. */
export const rest: Suite<RestSample> = {
  title: "18 MCP servers and 5 stdio clients at rest",
  floor: "node-servers",
  contestants: ["node-servers", "ours-joined", "ours-alone"],
  variants: ["at rest"],

  async sample({ contestant }) {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const entries = await entriesIn(directory);
    await writeFile(join(directory, "mcp.json"), JSON.stringify({ mcpServers: entries }));
    await writeFile(
      join(directory, "toolrack.config.js"),
      "export default { builtins: false, mcp: { metaTools: 'off', listWait: 120_000 } };",
    );
    const before = new Set(treeBelow(process.pid));
    try {
      if (contestant === "node-servers") return await restOfServers(entries);
      return contestant === "ours-joined" ? await restJoined(directory) : await restAlone(directory);
    } finally {
      for (const id of treeBelow(process.pid)) if (!before.has(id)) endProcess(id);
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },

  report(measured) {
    const goals = measured
      .filter(({ contestant }) => contestant === "ours-joined")
      .map((entry) =>
        judgeGoal(
          "first list of a joined client, of 400 ms",
          1,
          medianOf(entry, "firstList") / firstListGoal,
        ),
      );
    const keys = ["processes", "memory", "rack", "client", "firstList", "firstListCpu"] as const;
    const rows = measured.map((entry) => [
      contestants[entry.contestant].title,
      ...keys.map((key) => formatNumber(medianOf(entry, key))),
      entry.contestant === "ours-joined" ? goals.map((goal) => describeGoal(goal)).join() : "",
    ]);
    const columns = [
      "contestant",
      "processes",
      "all, MB",
      "rack, MB",
      "a client, MB",
      "first list, ms",
      "of CPU, ms",
      "goal",
    ];
    return { tables: [{ title: "at rest", columns, rows }], goals };
  },
};

async function entriesIn(directory: string): Promise<Entries> {
  const found: [string, Entries[string]][] = [];
  for (const [name, spec] of Object.entries(npmServers)) {
    const file = await installedProgram(packages, spec, "bench");
    const args = name === "filesystem" ? [file, directory] : name === "everything" ? [file, "stdio"] : [file];
    for (let copy = 1; copy <= copies; copy++)
      found.push([`${name}${copy}`, { command: process.execPath, args }]);
  }
  return Object.fromEntries(found);
}

/** The servers alone, each with the one client that it could have. */
async function restOfServers(entries: Entries): Promise<RestSample> {
  for (const { command, args } of Object.values(entries)) await listTools(startClient([command, ...args]));
  await sleep(SETTLED);
  const ids = treeBelow(process.pid);
  return { processes: ids.length, memory: sumOf(ids) };
}

async function restJoined(directory: string): Promise<RestSample> {
  const server = await startServer([...program, "serve", "--port", "0", "--json", "--no-watch"], directory);
  try {
    const token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
    const tools = await untilReady(server.url, token);
    const served: { client: Client; milliseconds: number; cpu: number }[] = [];
    for (let at = 0; at < clients; at++) {
      const begun = performance.now();
      const client = startClient([process.execPath, ...program, "mcp"], directory);
      const listed = await listTools(client);
      const milliseconds = performance.now() - begun;
      if (listed < tools) throw new Error(`the first list has ${listed} of ${tools} tools`);
      served.push({
        client,
        milliseconds,
        cpu: treeOf(client.pid!).reduce((sum, id) => sum + cpuOf(id), 0) * 1_000,
      });
    }
    await sleep(SETTLED);
    const ids = treeBelow(process.pid);
    return {
      processes: ids.length,
      memory: sumOf(ids),
      rack: memoryOf(server.process.pid!),
      client: median(served.map(({ client }) => sumOf(treeOf(client.pid!)))),
      firstList: median(served.map(({ milliseconds }) => milliseconds)),
      firstListCpu: median(served.map(({ cpu }) => cpu)),
    };
  } finally {
    stopServer(server);
  }
}

/** One client without a server: what each of the five would cost. */
async function restAlone(directory: string): Promise<RestSample> {
  const begun = performance.now();
  const client = startClient([process.execPath, ...program, "mcp", "--no-join", "--no-watch"], directory);
  await listTools(client);
  const firstList = performance.now() - begun;
  await sleep(SETTLED);
  const ids = treeBelow(process.pid);
  return { processes: ids.length, memory: sumOf(ids), rack: memoryOf(client.pid!), firstList };
}

/** Milliseconds in which a process that has started comes to rest. */
const SETTLED = 5_000;

function startClient([command = "", ...args]: readonly string[], cwd?: string): Client {
  return spawn(command, args, { cwd, stdio: ["pipe", "pipe", "ignore"] });
}

/** Begins the session of a client. Returns how many tools its first list has. */
async function listTools({ stdin, stdout }: Client): Promise<number> {
  const clientInfo = { name: "bench", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const messages = [
    { id: 1, method: "initialize", params },
    { method: "notifications/initialized" },
    { id: 2, method: "tools/list", params: {} },
  ];
  for (const message of messages) stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  for await (const line of createInterface(stdout)) {
    const answer = JSON.parse(line);
    if (answer.id !== 2) continue;
    // What it says from now on is read by nobody, and must not hold it up.
    stdout.resume();
    return answer.result.tools.length;
  }
  throw new Error("it ended before it listed its tools");
}

/** Waits until every server is ready. Returns how many tools they have. */
async function untilReady(url: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  for (;;) {
    const response = await fetch(`${url}/api/mcp-servers`, { headers });
    // The API has this shape.
    const { items } = (await response.json()) as { items: { state: string; tools: number }[] };
    if (items.every(({ state }) => state === "ready"))
      return items.reduce((sum, { tools }) => sum + tools, 0);
    await sleep(200);
  }
}

function treeOf(id: number): number[] {
  return [id, ...treeBelow(id)];
}

function treeBelow(id: number): number[] {
  try {
    const children = readFileSync(`/proc/${id}/task/${id}/children`, "utf8").trim();
    return children === "" ? [] : children.split(" ").flatMap((child) => treeOf(Number(child)));
  } catch {
    return []; // It has ended.
  }
}

function sumOf(ids: readonly number[]): number {
  return ids.reduce((sum, id) => sum + memoryOf(id), 0);
}

/** MB of a process. Of what it shares with others, its part. */
function memoryOf(id: number): number {
  const [, kilobytes] = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8")) ?? [];
  return Number(kilobytes) / 1024;
}

function endProcess(id: number): void {
  try {
    process.kill(id, "SIGKILL");
  } catch {
    // It has ended.
  }
}
