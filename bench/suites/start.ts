import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { type ContestantName, contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import { packedProgram } from "../lib/packed.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";
import { headersOf, initialize, initialized, type McpVariant, messageOf } from "../mcp/messages.ts";
import { legacyOnly, pathOf, programs, workspaceTools } from "./mcp.ts";

interface StartSample {
  /** Milliseconds from the start of the program to the whole list of tools, by the clock. */
  readonly time: number;
  /** Milliseconds of CPU up to then, of all threads. */
  readonly cpu?: number;
  /** MB that the process has when it has come to rest. */
  readonly memory?: number;
}

interface StartVariant extends McpVariant {
  /** The most times the floor's time. */
  readonly goal?: number;
  /** The most MB at rest. */
  readonly memory?: number;
  /** The most milliseconds. */
  readonly limit?: number;
  /** Each tool is a file of its own. Default: thousands come from one. */
  readonly isApart?: true;
}

/** A command that ends by itself, beside a Node that does nothing. */
interface CommandVariant {
  readonly words: readonly string[];
  readonly goal?: number;
  readonly limit?: number;
  /** A server runs on the workspace. */
  readonly isServed?: boolean;
}

const list = { method: "tools/list" } as const;
const variants: Record<string, StartVariant> = {
  "stdio, 10 tools": { ...list, era: "legacy", tools: 10, transport: "stdio", goal: 2.2, memory: 90 },
  "HTTP, 10 tools": { ...list, era: "modern", tools: 10, transport: "http", goal: 2.5, memory: 90 },
  "HTTP, 5,000 tools": { ...list, era: "modern", tools: 5000, transport: "http", memory: 160, limit: 2_000 },
  "HTTP, 5,000 files": {
    ...{ ...list, era: "modern", tools: 5000, transport: "http", memory: 160, limit: 2_000, isApart: true },
  },
};
const commands: Record<string, CommandVariant> = {
  "toolrack --version": { words: ["--version"], limit: 60 },
  "toolrack list, 10 tools": { words: ["list"], goal: 1.6 },
  "toolrack list, a server runs": { words: ["list"], isServed: true },
};
/** Milliseconds in which a program that has started comes to rest. */
const SETTLED = 5_000;
const ours: ContestantName = "ours-mcp";

/** From the start of a server to the first list of its tools, and what it keeps of the memory then. */
export const start: Suite<StartSample> = {
  title: "start to the first list",
  floor: "node-mcp",
  contestants: ["node-mcp", ours, "sdk-2-mcp", "fastmcp-mcp"],
  variants: [...Object.keys(variants), ...Object.keys(commands)],
  // Peers have no such commands, and one file for all tools.
  takesPart: ({ contestant, variant }) =>
    [start.floor, ours].includes(contestant) ||
    (variants[variant]?.isApart ?? commands[variant]) === undefined,

  async sample({ contestant, variant: name }) {
    if (process.platform !== "linux") throw new Error("CPU time and memory are read from /proc: Linux only");
    const command = commands[name];
    if (command !== undefined) return { time: await timeOf(command, contestant === ours) };
    const wanted = variants[name]!;
    const variant = legacyOnly.includes(contestant) ? { ...wanted, era: "legacy" as const } : wanted;
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    try {
      const words = await wordsOf(contestant, variant, directory);
      // The first start finds no caches: neither the machine's nor, for ours, those of compiled files.
      await startOnce(words, variant, directory, 0);
      return await startOnce(words, variant, directory, SETTLED);
    } finally {
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const besides = (entry: Measured<StartSample>, contestant: ContestantName) =>
      measured.find((one) => one.contestant === contestant && one.variant === entry.variant);
    const rows = measured.map((entry) => {
      const { goal, limit, memory }: Partial<StartVariant> =
        variants[entry.variant] ?? commands[entry.variant]!;
      const ratioOf = (key: keyof StartSample, to: ContestantName) =>
        medianOf(entry, key) / medianOf(besides(entry, to), key);
      const own =
        entry.contestant !== ours
          ? []
          : [
              ...(goal === undefined ? [] : [judgeGoal(entry.variant, goal, ratioOf("time", start.floor))]),
              ...(memory === undefined
                ? []
                : [judgeGoal(`${entry.variant}, of ${memory} MB`, 1, medianOf(entry, "memory") / memory)]),
              ...(limit === undefined
                ? []
                : [judgeGoal(`${entry.variant}, of ${limit} ms`, 1, medianOf(entry, "time") / limit)]),
            ];
      goals.push(...own);
      const place = ratioOf("time", ours) > 1 ? "ours is ahead" : "ours is behind";
      return [
        entry.variant,
        contestants[entry.contestant].title,
        formatNumber(medianOf(entry, "time")),
        formatRatio(ratioOf("time", start.floor)),
        formatNumber(medianOf(entry, "cpu")),
        formatRatio(ratioOf("cpu", start.floor)),
        formatNumber(medianOf(entry, "memory")),
        entry.contestant === ours ? own.map((one) => describeGoal(one)).join("; ") : place,
      ];
    });
    const columns = ["start", "contestant", "ms", "to floor", "CPU, ms", "to floor", "MB at rest", "goal"];
    return { tables: [{ title: "to the first list of tools", columns, rows }], goals };
  },
};

async function wordsOf(contestant: ContestantName, variant: StartVariant, directory: string) {
  const { transport, tools, isApart = false } = variant;
  const program = programs[contestant];
  if (program !== undefined) return [pathOf(program), transport, String(tools)];
  // A file for each of ten tools, as people write them; thousands come from one place.
  await writeWorkspace(directory, tools, tools > 10 && !isApart ? 1 : tools);
  const serving = transport === "stdio" ? ["mcp"] : ["serve", "--port", "0", "--json"];
  return [packedProgram(), ...serving, "--no-watch"];
}

async function writeWorkspace(directory: string, tools: number, files: number): Promise<void> {
  await mkdir(join(directory, "tools"));
  await writeFile(
    join(directory, "toolrack.config.js"),
    "export default { builtins: false, mcp: { metaTools: 'off' } };",
  );
  for (let at = 0; at < files; at++)
    await writeFile(join(directory, `tools/part${at}.ts`), workspaceTools(tools / files, at));
}

/** Milliseconds of the command's whole process, the median of nine; of a Node that does nothing where it is not ours. */
async function timeOf({ words, isServed = false }: CommandVariant, isOurs: boolean): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
  const run = (more: readonly string[]) =>
    spawn(process.execPath, more, { cwd: directory, stdio: ["pipe", "pipe", "ignore"] });
  await writeFile(join(directory, "nothing.mjs"), "0");
  await writeWorkspace(directory, 10, 10);
  const server =
    isOurs && isServed ? run([packedProgram(), "serve", "--port", "0", "--json", "--no-watch"]) : undefined;
  try {
    if (server !== undefined) await firstJson(createInterface(server.stdout));
    const times: number[] = [];
    // The first ones fill the caches, as with the servers.
    for (let round = -3; round < 9; round++) {
      const begun = performance.now();
      const command = run(isOurs ? [packedProgram(), ...words] : ["nothing.mjs"]);
      command.stdout.resume();
      const [code] = await once(command, "close");
      if (code !== 0) throw new Error(`toolrack ${words.join(" ")} ended with ${code}`);
      if (round >= 0) times.push(performance.now() - begun);
    }
    return median(times);
  } finally {
    if (server !== undefined) {
      const closed = once(server, "close");
      server.kill("SIGKILL");
      await closed;
    }
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function startOnce(words: readonly string[], variant: McpVariant, cwd: string, rest: number) {
  const begun = performance.now();
  const server = spawn(process.execPath, words, { cwd, stdio: ["pipe", "pipe", "ignore"] });
  const closed = once(server, "close");
  const lines = createInterface(server.stdout);
  try {
    if (variant.transport === "stdio") {
      const id = 1;
      server.stdin.write(`${[initialize, initialized, messageOf(variant, id)].join("\n")}\n`);
      for await (const line of lines) {
        if (JSON.parse(line).id !== id) continue;
        checkList(variant, line);
        break;
      }
    } else {
      const ready = await firstJson(lines);
      checkList(variant, await ask(ready.url, variant, cwd));
    }
    const time = performance.now() - begun;
    const cpu = cpuOf(server.pid!);
    server.stdout.resume();
    await sleep(rest);
    return { time, cpu, memory: memoryOf(server.pid!) };
  } finally {
    server.kill("SIGTERM");
    server.stdin.destroy();
    server.stdout.resume();
    await closed;
  }
}

/** Throws when tools are missing from the list. Ours has some of its own beside them, and gives thousands in pages. */
function checkList({ tools }: McpVariant, text: string): void {
  const { result } = JSON.parse(text.slice(text.indexOf("{")));
  if (!(result?.tools.length >= Math.min(tools, 1000)))
    throw new Error(`a wrong answer: ${text.slice(0, 200)}`);
}

async function firstJson(lines: AsyncIterable<string>): Promise<{ url: string }> {
  for await (const line of lines) if (line.startsWith("{")) return JSON.parse(line);
  throw new Error("the server ended before it was ready");
}

async function ask(url: string, variant: McpVariant, directory: string): Promise<string> {
  let token: string | undefined;
  try {
    token = readFileSync(join(directory, ".toolrack/token"), "utf8").trim();
  } catch {
    // Only ours asks for one.
  }
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const asked = request(`${url}/mcp`, { method: "POST", headers: headersOf(variant, token) }, (answer) =>
    text(answer).then(resolve, reject),
  );
  asked.on("error", reject).end(messageOf(variant, 1));
  return promise;
}

/** Milliseconds of CPU of all threads, more exact than the ticks of `/proc/PID/stat`. */
function cpuOf(id: number): number {
  const threads = readdirSync(`/proc/${id}/task`);
  const nanoseconds = threads.map((thread) =>
    Number(readFileSync(`/proc/${id}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
  );
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6;
}

function memoryOf(id: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1]) / 1024;
}
