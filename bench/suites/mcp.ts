import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { ContestantName } from "../contestants/index.ts";
import type { Suite } from "../lib/suite.ts";
import { checkAnswer, initialize, initialized, type McpVariant, messageOf } from "../mcp/messages.ts";
import { reportCpu } from "../mcp/report-cpu.ts";
import { cpuOf, loadFor, type McpSample, startServer, stopServer } from "../mcp/server-process.ts";

interface Measured extends McpVariant {
  /** Connections over HTTP, requests in flight over stdio. */
  readonly load: number;
  readonly goal: number;
}

const call = {
  method: "tools/call",
  era: "modern",
  tools: 10,
  transport: "http",
  load: 32,
  goal: 2.5,
} as const;
const variants: Record<string, Measured> = {
  "tools/call, 32 connections": call,
  "tools/call, 1 connection": { ...call, load: 1, goal: 2 },
  "tools/call, 32 connections, 2025-11-25": { ...call, era: "legacy" },
  "tools/call, 32 connections, 1,000 tools": { ...call, tools: 1000 },
  "tools/call, 32 connections, 5,000 tools": { ...call, tools: 5000 },
  "tools/list, 32 connections, 1,000 tools": { ...call, method: "tools/list", tools: 1000, goal: 0.5 },
  "stdio tools/call, 1 in flight": { ...call, era: "legacy", transport: "stdio", load: 1, goal: 2.2 },
  "stdio tools/call, 32 in flight": { ...call, era: "legacy", transport: "stdio", goal: 3.3 },
};
/** Each is run with the transport and the number of tools. */
export const programs: Partial<Record<ContestantName, string>> = {
  "node-mcp": "../mcp/floor.ts",
  "sdk-2-mcp": "../mcp/sdk-2.ts",
  "sdk-1-mcp": "../mcp/sdk-1.ts",
  "sdk-1-session-mcp": "../mcp/sdk-1.ts",
  "fastmcp-mcp": "../mcp/fastmcp.ts",
  "mcp-framework-mcp": "../mcp/mcp-framework.ts",
};
/** These know the older versions of the protocol only. */
export const legacyOnly: readonly ContestantName[] = [
  ...(["sdk-1-mcp", "sdk-1-session-mcp", "fastmcp-mcp", "mcp-framework-mcp"] as const),
];
/** And these answer in sessions only. */
const withSessions: readonly ContestantName[] = ["sdk-1-session-mcp", "mcp-framework-mcp"];
const milliseconds = Number(process.env.BENCH_MCP_MILLISECONDS ?? 4_000);
/** Before that V8 still compiles. By count, the same for every contestant; only the slowest ones come to the end of the time. */
const warmUp = { requests: 15_000, milliseconds: 10_000 };
/** As they are measured: at the change to one connection V8 compiles 200 functions of ours anew, for 30 µs of a call. */
const lastWarmUp = { requests: 5_000, milliseconds: 4_000 };
const stdioWarmUp = 1_500;
export const pathOf = (place: string) => fileURLToPath(new URL(place, import.meta.url));

/** The two requests that MCP clients make all the time, on real servers in processes of their own. */
export const mcp: Suite<McpSample> = {
  title: "MCP",
  floor: "node-mcp",
  contestants: [
    ...(["node-mcp", "ours-mcp", "sdk-2-mcp", "sdk-1-mcp", "sdk-1-session-mcp"] as const),
    ...(["fastmcp-mcp", "mcp-framework-mcp"] as const),
  ],
  variants: Object.keys(variants),
  // Over stdio there are no sessions.
  takesPart: ({ contestant, variant }) =>
    contestant !== "sdk-1-session-mcp" || variants[variant]!.transport === "http",

  async sample({ contestant, variant: name }) {
    if (process.platform !== "linux")
      throw new Error("CPU time of the server is read from /proc: Linux only");
    const wanted = variants[name]!;
    const variant = legacyOnly.includes(contestant) ? { ...wanted, era: "legacy" as const } : wanted;
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    try {
      if (variant.transport === "stdio") return await sampleStdio(contestant, variant, directory);
      const server = await startServer(
        await wordsOf(contestant, "http", variant.tools, directory),
        directory,
      );
      const file = join(directory, ".toolrack/token");
      const token = contestant === "ours-mcp" ? { token: readFileSync(file, "utf8").trim() } : {};
      const options = { ...token, inSession: withSessions.includes(contestant), connections: variant.load };
      try {
        await loadFor(server, variant, { ...options, connections: 16, ...warmUp });
        await loadFor(server, variant, { ...options, ...lastWarmUp });
        return await loadFor(server, variant, { ...options, milliseconds });
      } finally {
        stopServer(server);
      }
    } finally {
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },

  report: (measured) =>
    reportCpu(measured, {
      title: "requests of MCP clients",
      floor: mcp.floor,
      columns: ["request", "server CPU, µs"],
      // Ours checks a token and has every call on disk before it is answered, which the floor does not.
      limitOf: ({ contestant, variant }) => (contestant === "ours-mcp" ? variants[variant]!.goal : undefined),
    }),
};

async function wordsOf(
  contestant: ContestantName,
  transport: McpVariant["transport"],
  tools: number,
  directory: string,
): Promise<string[]> {
  const program = programs[contestant];
  const session = contestant === "sdk-1-session-mcp" ? ["session"] : [];
  if (program !== undefined) return [pathOf(program), transport, String(tools), ...session];
  const source = "--conditions=toolrack-source";
  await mkdir(join(directory, "tools"));
  await writeFile(
    join(directory, "toolrack.config.js"),
    "export default { builtins: false, mcp: { metaTools: 'off' } };",
  );
  await writeFile(join(directory, "tools/all.ts"), workspaceTools(tools));
  const main = [source, pathOf("../../packages/server/src/main.ts")];
  return transport === "stdio"
    ? [...main, "mcp", "--no-watch"]
    : [...main, "serve", "--port", "0", "--json", "--no-watch"];
}

/** A tool file with so many tools, of which the first has this number. */
export function workspaceTools(count: number, first = 0): string {
  return `import { Tool } from "@toolrack/core";
export const tools = Array.from({ length: ${count} }, (_, at) => at + ${first}).map((index) => Tool.define({
  name: "tool_" + index,
  description: "Adds one to a number, as tool " + index + ".",
  parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  execute: async ({ input }) => String(input.n + 1),
}));
`;
}

async function sampleStdio(
  contestant: ContestantName,
  variant: Measured,
  directory: string,
): Promise<McpSample> {
  const words = await wordsOf(contestant, "stdio", variant.tools, directory);
  const server = spawn(process.execPath, words, { cwd: directory, stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface(server.stdout);
  server.stdin.write(`${initialize}\n`);
  await once(lines, "line");
  server.stdin.write(`${initialized}\n`);
  let next = 0;
  const send = () => void server.stdin.write(`${messageOf(variant, next++)}\n`);
  const exchange = async (time: number) => {
    const before = cpuOf(server.pid!);
    const begun = performance.now();
    const first = next;
    let answered = 0;
    await new Promise<void>((resolve, reject) => {
      const onLine = (line: string) => {
        try {
          checkAnswer(variant, JSON.parse(line).id, line);
        } catch (error) {
          reject(error);
        }
        answered++;
        if (performance.now() - begun < time) send();
        else if (answered === next - first) {
          lines.off("line", onLine);
          resolve();
        }
      };
      lines.on("line", onLine);
      for (let index = 0; index < variant.load; index++) send();
    });
    const seconds = (performance.now() - begun) / 1_000;
    return { cpu: ((cpuOf(server.pid!) - before) * 1e6) / answered, perSecond: answered / seconds };
  };
  try {
    await exchange(stdioWarmUp);
    return await exchange(milliseconds);
  } finally {
    server.kill("SIGKILL");
  }
}
