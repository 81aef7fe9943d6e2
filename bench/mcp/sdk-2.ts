import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, fromJsonSchema, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { definitions } from "./messages.ts";

/** The official SDK, as its documentation writes a server. `node sdk-2.ts http|stdio COUNT`. */
const [transport, count] = process.argv.slice(2);
const list = definitions(Number(count));

function factory(): McpServer {
  const server = new McpServer({ name: "bench", version: "1" });
  for (const { name, description, inputSchema } of list) {
    const schema = fromJsonSchema<{ n: number }>(inputSchema as never);
    server.registerTool(name, { description, inputSchema: schema }, async ({ n }) => ({
      content: [{ type: "text", text: String(n + 1) }],
    }));
  }
  return server;
}

if (transport === "stdio") {
  serveStdio(factory);
} else {
  const handle = toNodeHandler(createMcpHandler(factory));
  const server = createServer((incoming, outgoing) => void handle(incoming, outgoing));
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}
