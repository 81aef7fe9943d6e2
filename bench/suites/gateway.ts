import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { ContestantName } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import type { Suite } from "../lib/suite.ts";
import { formatRatio } from "../lib/table.ts";
import { checkAnswer, headersOf, type McpVariant, messageOf } from "../mcp/messages.ts";
import { reportCpu } from "../mcp/report-cpu.ts";
import { loadFor, type McpSample, type Running, startServer, stopServer } from "../mcp/server-process.ts";

/** How often the floor's CPU ours may take. */
const cpuGoal = 1.7;
/** How often the time of the server itself half of the calls may take, with an SDK's HTTP server behind and one client. */
const timeGoal = 1.7;
/** The share of the bridge's calls a second that ours should make, with stdio behind and 16 clients. */
const rateGoal = 0.9;
const milliseconds = Number(process.env.BENCH_MCP_MILLISECONDS ?? 4_000);
/**
 * Before that V8 still compiles, which takes more than the calls themselves. The same for every contestant: many
 * requests at once, then some as they are measured.
 */
const warmUp = { requests: 20_000, connections: 16 };
const lastWarmUp = 5_000;
/** `isSdk`: the server behind is written with the official SDK, as most are; over HTTP it takes three times as long for a call. */
interface Variant {
  readonly behind: "stdio" | "http";
  readonly connections: number;
  readonly isSdk?: boolean;
}

const variants: Record<string, Variant> = {
  "stdio behind, 1 connection": { behind: "stdio", connections: 1 },
  "stdio behind, 16 connections": { behind: "stdio", connections: 16 },
  "an SDK's stdio server behind, 16 connections": { behind: "stdio", connections: 16, isSdk: true },
  "HTTP behind, 1 connection": { behind: "http", connections: 1 },
  "HTTP behind, 16 connections": { behind: "http", connections: 16 },
  "an SDK's HTTP server behind, 1 connection": { behind: "http", connections: 1, isSdk: true },
};
const busySdk = "an SDK's stdio server behind, 16 connections";
const pathOf = (place: string) => fileURLToPath(new URL(place, import.meta.url));
const called: McpVariant = { method: "tools/call", era: "legacy", tools: 10, transport: "http" };

/**
 * `tools/call` over HTTP on the way to another server, on stdio or over HTTP: the same one behind every gateway, written by
 * hand, or with an SDK where that is said.
 */
export const gateway: Suite<McpSample> = {
  title: "MCP, gateways",
  floor: "node-bridge",
  references: ["node-direct"],
  contestants: [
    ...(["node-direct", "node-bridge", "ours-gateway", "supergateway-gateway", "mcp-proxy-gateway"] as const),
  ],
  variants: Object.keys(variants),
  // A server on stdio cannot be asked over HTTP, and the two peers are for servers on stdio.
  takesPart: ({ contestant, variant }) =>
    variants[variant]!.behind !== "stdio"
      ? !["supergateway-gateway", "mcp-proxy-gateway"].includes(contestant)
      : contestant !== "node-direct",

  async sample({ contestant, variant: name }) {
    if (process.platform !== "linux")
      throw new Error("CPU time of the gateway is read from /proc: Linux only");
    const { behind, connections, isSdk = false } = variants[name]!;
    const isOurs = contestant === "ours-gateway";
    const variant = isOurs ? { ...called, tool: "mcp_floor_tool_0" } : called;
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    const floor = [pathOf(`../mcp/${isSdk ? "sdk-1" : "floor"}.ts`), behind, "10"];
    const upstream = behind === "stdio" ? undefined : await startServer(floor, directory);
    try {
      const isDirect = contestant === "node-direct";
      const words = isDirect ? floor : await wordsOf(contestant, directory, upstream?.url ?? floor);
      const server = await startServer(words, directory);
      try {
        const token = isOurs ? readFileSync(join(directory, ".toolrack/token"), "utf8").trim() : undefined;
        // It serves before the servers behind it are there.
        if (isOurs) await untilAnswered(server, variant, token);
        const inSession = contestant === "supergateway-gateway" || contestant === "mcp-proxy-gateway";
        const options = { ...(token === undefined ? {} : { token }), inSession };
        await loadFor(server, variant, { ...options, ...warmUp });
        await loadFor(server, variant, { ...options, connections, requests: lastWarmUp });
        return await loadFor(server, variant, { ...options, connections, milliseconds });
      } finally {
        stopServer(server);
      }
    } finally {
      if (upstream !== undefined) stopServer(upstream);
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },

  report(measured) {
    const { tables, goals } = reportCpu(measured, {
      title: "tools/call through a gateway",
      floor: gateway.floor,
      columns: ["load", "CPU of all its processes, µs"],
      // Ours checks a token and has every call on disk before it is answered, which the floor does not. Where the
      // SDK's server is among the processes of the gateway, it takes most of their time, and the goal would say little.
      limitOf: ({ contestant, variant }) =>
        contestant === "ours-gateway" && variant !== busySdk ? cpuGoal : undefined,
    });
    const find = (contestant: ContestantName, variant: string) =>
      measured.find((one) => one.contestant === contestant && one.variant === variant);
    const near = "an SDK's HTTP server behind, 1 connection";
    const time = medianOf(find("ours-gateway", near), "p50") / medianOf(find("node-direct", near), "p50");
    const inTime = judgeGoal(`${near}: p50 to the server itself`, timeGoal, time);
    const inRate = [busySdk, "stdio behind, 16 connections"].map((busy): GoalOutcome => {
      const ratio =
        medianOf(find("ours-gateway", busy), "perSecond") / medianOf(find("node-bridge", busy), "perSecond");
      const what = `${busy}: requests/s to the bridge`;
      return { what, limit: rateGoal, ratio, met: ratio >= rateGoal };
    });
    const rows = [
      [inTime.what, formatRatio(time), describeGoal(inTime)],
      ...inRate.map(({ what, ratio, met }) => [
        ...[what, formatRatio(ratio), `goal ≥ ${formatRatio(rateGoal)}: ${met ? "met" : "not met"}`],
      ]),
    ];
    const clock = { title: "by the clock", columns: ["what", "ours", "goal"], rows };
    return { tables: [...tables, clock], goals: [...goals, inTime, ...inRate] };
  },
};

/** `behind`: the address of the server behind, or what Node is to run on stdio. */
async function wordsOf(
  contestant: ContestantName,
  directory: string,
  behind: string | readonly string[],
): Promise<string[]> {
  if (contestant === "node-bridge") return [pathOf("../mcp/bridge.ts"), ...[behind].flat()];
  if (contestant !== "ours-gateway")
    return [pathOf("../mcp/gateway.ts"), contestant.replace(/-gateway$/, ""), ...[behind].flat()];
  const floor =
    typeof behind === "string" ? { url: `${behind}/mcp` } : { command: process.execPath, args: behind };
  await writeFile(join(directory, "mcp.json"), JSON.stringify({ mcpServers: { floor } }));
  const source = "--conditions=toolrack-source";
  await writeFile(
    join(directory, "toolrack.config.js"),
    "export default { builtins: false, mcp: { metaTools: 'off' } };",
  );
  const main = pathOf("../../packages/server/src/main.ts");
  return [source, main, "serve", "--port", "0", "--json", "--no-watch"];
}

async function untilAnswered(
  { url }: Running,
  variant: McpVariant,
  token: string | undefined,
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`${url}/mcp`, {
      method: "POST",
      headers: headersOf(variant, token),
      body: messageOf(variant, 1),
    });
    const text = await response.text();
    try {
      return checkAnswer(variant, 1, text);
    } catch (thrown) {
      if (attempt === 100) throw thrown;
    }
    await sleep(100);
  }
}
