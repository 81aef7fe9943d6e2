import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { notingTools, ServerProcess } from "./testing/server-process.ts";

const MEGABYTE = 1024 * 1024;
/** More than any of the servers may make the rack hold. */
const MOST_MEMORY = 250 * MEGABYTE;

/**
 * An MCP server of the old protocol, over stdio or, given a port, over HTTP. Each of its tools but `echo` makes it
 * misbehave; over HTTP it does so in the answer to the call.
 */
const misbehaving = `
import { createServer } from "node:http";
import { createInterface } from "node:readline";
const port = Number(process.argv[2] ?? 0);
const names = ["echo", "pid", "die", "hang", "freeze", "flood_text", "flood_messages", "flood_errors"];
const line = "x".repeat(65_536);
const forever = (write) => { const go = () => { while (write()); setTimeout(go, 1); }; go(); };
function act(name, args, out) {
  if (name === "die") process.kill(process.pid, "SIGKILL");
  if (name === "freeze") process.kill(process.pid, "SIGSTOP");
  if (name === "flood_text") forever(() => out.write(line));
  if (name === "flood_messages") forever(() => out.write(
    port === 0 ? '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\\n' : 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\\n\\n'));
  if (name === "flood_errors") forever(() => process.stderr.write(line + "\\n"));
  if (name === "echo" || name === "pid") return { content: [{ type: "text", text: name === "pid" ? String(process.pid) : String(args?.text) }] };
}
function answer({ id, method, params }, out) {
  if (method === "initialize") return { protocolVersion: "2025-06-18", capabilities: { tools: { listChanged: true } }, serverInfo: { name: "bad", version: "1" } };
  if (method === "tools/list") return { tools: names.map((name) => ({ name, inputSchema: { type: "object" } })) };
  if (method === "ping") return {};
  if (method === "tools/call") return act(params.name, params.arguments, out);
}
if (port === 0) {
  createInterface(process.stdin).on("line", (text) => {
    const request = JSON.parse(text);
    if (request.id === undefined) return;
    const result = answer(request, process.stdout);
    if (result !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }) + "\\n");
    else if (request.method !== "tools/call") process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id: request.id, error: { code: -32601, message: "no" } }) + "\\n");
  }).on("close", () => process.exit(0));
} else createServer((incoming, outgoing) => {
  if (incoming.method !== "POST") return outgoing.writeHead(405).end();
  let body = "";
  incoming.on("data", (chunk) => { body += chunk; }).on("end", () => {
    const request = JSON.parse(body);
    const name = request.params?.name ?? "";
    if (request.id === undefined) return outgoing.writeHead(202).end();
    if (request.method === "server/discover") return outgoing.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id: request.id, error: { code: -32600, message: "no session" } }));
    if (name.startsWith("flood")) outgoing.writeHead(200, { "content-type": name === "flood_text" ? "application/json" : "text/event-stream" });
    const result = answer(request, outgoing);
    if (result !== undefined) outgoing.writeHead(200, { "content-type": "application/json", "mcp-session-id": "s" }).end(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }));
  });
}).listen(port, "127.0.0.1", () => console.log("listening"));
`;

describe.for(["stdio", "http"] as const)("an upstream over %s that", (kind) => {
  let workspace: TemporaryWorkspace;
  let server: ServerProcess;
  let upstream: ChildProcess | undefined;
  const port = 20_000 + (process.pid % 20_000);

  /** Over HTTP somebody else starts the server, and starts it again. */
  async function startUpstream(): Promise<void> {
    if (kind === "stdio") return;
    upstream?.kill("SIGKILL");
    if (upstream !== undefined && upstream.exitCode === null && upstream.signalCode === null)
      await once(upstream, "exit");
    upstream = spawn(process.execPath, [join(workspace.directory, "bad.mjs"), String(port)], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    await once(upstream.stdout!, "data");
  }
  const call = (tool: string, timeout: number) =>
    server.call(`mcp_bad_${tool}`, { text: "still here" }, { timeout });
  const echoes = async () => (await call("echo", 5_000)).body.result?.content;

  beforeAll(async () => {
    const entry =
      kind === "stdio"
        ? { command: process.execPath, args: ["bad.mjs"] }
        : { url: `http://127.0.0.1:${port}/mcp` };
    workspace = await TemporaryWorkspace.create({
      "toolrack.config.js": "export default { builtins: false };",
      "tools/all.ts": notingTools,
      "mcp.json": JSON.stringify({ mcpServers: { bad: entry } }),
      "bad.mjs": misbehaving,
    });
    await startUpstream();
    server = await ServerProcess.start(workspace.directory);
    await vi.waitUntil(async () => (await echoes()) === "still here", { timeout: 60_000, interval: 200 });
  });
  afterAll(async () => {
    await server?.end("SIGTERM");
    upstream?.kill("SIGKILL");
    await workspace?.[Symbol.asyncDispose]();
  });

  const faults = [
    "die",
    "hang",
    "freeze",
    "flood_text",
    "flood_messages",
    ...(kind === "stdio" ? ["flood_errors"] : []),
  ];
  test.for(faults)("does “%s” harms nobody else, and is back", async (fault, { task }) => {
    const memory = server.memory;
    let peak = memory;
    let slowest = 0;
    let others = 0;
    let unanswered = 0;
    let isOver = false;
    // Somebody else uses the rack meanwhile.
    const beside = (async () => {
      // A server that died may be back before a few calls were made.
      while (!isOver || others < 8) {
        const begun = performance.now();
        // A server that is held up closes connections that seemed idle to it: the call is made again by the next round.
        const answer = await server.call("count", { n: others++ }).catch(() => undefined);
        if (answer?.status !== 200) unanswered++;
        slowest = Math.max(slowest, performance.now() - begun);
        peak = Math.max(peak, server.memory);
        await sleep(20);
      }
    })();
    const begun = performance.now();
    let ended = 0;
    let back = 0;
    try {
      const { status, body } = await call(fault, 3_000);
      ended = performance.now() - begun;
      expect(
        [status, body.result?.type ?? body.error?.code],
        JSON.stringify(body).slice(0, 500),
      ).not.toContain("text");
      // Over stdio it is the rack that starts it again; a flood goes on until it is killed.
      if (fault.startsWith("flood") && kind === "stdio") await call("die", 3_000);
      if (fault !== "hang") await startUpstream();
      await expect.poll(echoes, { timeout: 120_000, interval: 500 }).toBe("still here");
      back = performance.now() - begun;
    } finally {
      isOver = true;
      await beside;
    }
    task.meta.figures = {
      "the call ended after": `${(ended / 1_000).toFixed(1)} s`,
      "back after": `${(back / 1_000).toFixed(1)} s`,
      "other calls": `${others}, ${unanswered} unanswered`,
      "slowest of them": `${Math.round(slowest)} ms`,
      "most memory more": `${Math.round((peak - memory) / MEGABYTE)} MB`,
    };
    expect(others - unanswered).toBeGreaterThan(3);
    expect(peak - memory).toBeLessThan(MOST_MEMORY);
    expect(server.isAlive).toBe(true);
  });
});
