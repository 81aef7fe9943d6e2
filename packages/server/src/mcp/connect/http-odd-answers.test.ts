import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { UpstreamRack } from "./testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const tools = [
  "echo",
  "html",
  "half",
  "cut",
  "huge",
  "hang",
  "another",
  "text",
  "accepted",
  "nothing",
  "notice",
].map((name) => ({
  name,
  inputSchema: { type: "object" },
}));

/** A server of the old protocol whose tools answer as no server should. */
const server = createServer(async (incoming, outgoing) => {
  if (incoming.method !== "POST") return void outgoing.writeHead(405).end();
  let body = "";
  for await (const piece of incoming) body += piece;
  const { id, method, params = {} } = JSON.parse(body);
  const send = (type: string, text: string) =>
    void outgoing.writeHead(200, { "content-type": type }).end(text);
  const answer = (result: object) => send("application/json", JSON.stringify({ jsonrpc: "2.0", id, result }));
  if (id === undefined) return void outgoing.writeHead(202).end();
  if (method === "initialize") {
    const { protocolVersion } = params;
    const serverInfo = { name: "odd", version: "1.0.0" };
    return answer({ protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo });
  }
  if (method === "tools/list") return answer({ tools });
  switch (params.name) {
    case "html":
      return send("text/html", "<h1>Bad gateway</h1>");
    case "half":
      return send("application/json", '{"jsonrpc":"2.0","id":');
    case "cut":
      return send("text/event-stream", "data: {}\n\n");
    case "huge": {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write("data: ");
      const piece = "x".repeat(1024 * 1024);
      for (let count = 0; count < 66 && !outgoing.destroyed; count++) outgoing.write(piece);
      return void outgoing.end("\n\n");
    }
    case "another":
      return send("application/json", JSON.stringify({ jsonrpc: "2.0", id: 7, result: { content: [] } }));
    case "text":
      return send("application/json", JSON.stringify({ jsonrpc: "2.0", id: String(id), result: {} }));
    case "accepted":
      return void outgoing.writeHead(202).end();
    case "nothing":
      return send("application/json", "[]");
    case "notice":
      return send("application/json", JSON.stringify({ jsonrpc: "2.0", method: "notifications/odd" }));
    case "echo":
      return answer({ content: [{ type: "text", text: "here" }] });
    case "hang":
      setTimeout(() => answer({ content: [{ type: "text", text: "at last" }] }), 300);
      return;
    default:
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_601, message: "Not found" } }));
  }
});

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

it.each([
  ["html", /gave no usable answer: It answered with something that is no message of MCP.*text\/html/],
  ["half", /gave no usable answer/],
  ["cut", /ended its answer before it was complete/],
  ["another", /not the answer to this request: none with its id/],
  ["text", /not the answer to this request: none with its id/],
  ["nothing", /not the answer to this request: none with its id/],
  ["notice", /not the answer to this request: none with its id/],
  ["accepted", /It answered with 202 Accepted, after which no result comes any more/],
  ["huge", /larger than 64 MB.*Ask for less/],
])("an answer that is %s fails its call alone", async (name, message) => {
  await using rack = await UpstreamRack.create();
  await rack.open({ odd: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` } });
  await rack.until("odd", "ready");
  const other = rack.call("mcp_odd_hang");
  expect((await rack.call(`mcp_odd_${name}`)).content).toMatch(message);
  expect(rack.servers.get("odd")).toMatchObject({ state: "ready", failures: 0, circuit: "closed" });
  expect(await rack.call("mcp_odd_echo")).toMatchObject({ content: "here" });
  expect(await other).toMatchObject({ content: "at last" });
});
