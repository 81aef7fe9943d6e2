import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { definitions } from "./messages.ts";

/**
 * The first official SDK as its documentation writes it: without sessions, or with `session` in sessions, which cost
 * it less. `node sdk-1.ts http|stdio COUNT [session]`.
 */
const [transport, count, session] = process.argv.slice(2);
const list = definitions(Number(count));

function makeServer(): McpServer {
  const server = new McpServer({ name: "bench", version: "1" });
  for (const { name, description } of list) {
    server.registerTool(name, { description, inputSchema: { n: z.int() } }, async ({ n }) => ({
      content: [{ type: "text", text: String(n + 1) }],
    }));
  }
  return server;
}

if (transport === "stdio") {
  await makeServer().connect(new StdioServerTransport());
} else {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  /** The carrier of the session that a request names, or a new one. */
  const carrierOf = async (id: string | string[] | undefined) => {
    const known = sessions.get(String(id));
    if (known !== undefined) return known;
    const carrier: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      enableJsonResponse: true,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (made) => void sessions.set(made, carrier),
    });
    await makeServer().connect(carrier as never); // Its own types disagree, as below.
    return carrier;
  };
  const server = createServer(async (incoming, outgoing) => {
    if (session !== undefined) {
      const carrier = await carrierOf(incoming.headers["mcp-session-id"]);
      return carrier.handleRequest(incoming, outgoing);
    }
    const one = makeServer();
    const carrier = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    outgoing.on("close", () => {
      void carrier.close();
      void one.close();
    });
    await one.connect(carrier as never); // Its own types disagree under exactOptionalPropertyTypes.
    await carrier.handleRequest(incoming, outgoing);
  });
  server.listen(0, "127.0.0.1", () => {
    // A server that listens on a port has such an address.
    console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
  });
}
