import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { ContestantName } from "../contestants/index.ts";
import type { Suite } from "../lib/suite.ts";
import { checkAnswer, headersOf, type McpVariant, messageOf } from "../mcp/messages.ts";
import { reportCpu } from "../mcp/report-cpu.ts";
import { loadFor, type McpSample, type Running, startServer, stopServer } from "../mcp/server-process.ts";

const goal = 1.7;
const milliseconds = Number(process.env.BENCH_MCP_MILLISECONDS ?? 4_000);
/**
 * Before that V8 still compiles, which takes more than the calls themselves. The same for every contestant: many
 * requests at once, then some as they are measured.
 */
const warmUp = { requests: 20_000, connections: 16 };
const lastWarmUp = 5_000;
const variants: Record<string, number> = { "1 connection": 1, "16 connections": 16 };
const pathOf = (place: string) => fileURLToPath(new URL(place, import.meta.url));
const called: McpVariant = { method: "tools/call", era: "legacy", tools: 10, transport: "http" };

/** `tools/call` over HTTP on the way to a server on stdio, the same hand-written one behind every gateway. */
export const gateway: Suite<McpSample> = {
  title: "MCP, HTTP to stdio",
  floor: "node-bridge",
  contestants: ["node-bridge", "ours-gateway", "supergateway-gateway", "mcp-proxy-gateway"],
  variants: Object.keys(variants),

  async sample({ contestant, variant: name }) {
    if (process.platform !== "linux")
      throw new Error("CPU time of the gateway is read from /proc: Linux only");
    const connections = variants[name]!;
    const isOurs = contestant === "ours-gateway";
    const variant = isOurs ? { ...called, tool: "mcp_floor_tool_0" } : called;
    const directory = await mkdtemp(join(tmpdir(), "toolrack-bench-"));
    try {
      const server = await startServer(await wordsOf(contestant, directory), directory);
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
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  },

  report: (measured) =>
    reportCpu(measured, {
      title: "tools/call through a gateway",
      floor: gateway.floor,
      columns: ["load", "CPU of all processes, µs"],
      // Ours checks a token and has every call on disk before it is answered, which the floor does not.
      limitOf: ({ contestant }) => (contestant === "ours-gateway" ? goal : undefined),
    }),
};

async function wordsOf(contestant: ContestantName, directory: string): Promise<string[]> {
  if (contestant === "node-bridge") return [pathOf("../mcp/bridge.ts")];
  if (contestant !== "ours-gateway")
    return [pathOf("../mcp/gateway.ts"), contestant.replace(/-gateway$/, "")];
  const floor = { command: process.execPath, args: [pathOf("../mcp/floor.ts"), "stdio", "10"] };
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
