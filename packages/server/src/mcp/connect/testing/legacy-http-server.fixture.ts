import { randomUUID } from "node:crypto";
import { createServer, type Server as HttpServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

/** A server made with the old SDK, with sessions, over Streamable HTTP at `/mcp` and over SSE at `/sse`. */
export class LegacyHttpServer {
  readonly #http: HttpServer;
  readonly #sessions = new Map<string, StreamableHTTPServerTransport>();
  readonly #streams = new Map<string, SSEServerTransport>();
  /** The token that clients must send, if one is needed. */
  readonly #token: string | undefined;
  readonly cancelled: unknown[] = [];

  private constructor(token: string | undefined) {
    this.#token = token;
    this.#http = createServer((incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch((error) => {
        if (!outgoing.headersSent) outgoing.writeHead(500);
        outgoing.end(String(error));
      });
    });
  }

  static async start({ token, port = 0 }: { token?: string; port?: number } = {}): Promise<LegacyHttpServer> {
    const server = new LegacyHttpServer(token);
    await new Promise<void>((resolve) => server.#http.listen(port, "127.0.0.1", resolve));
    return server;
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  /** How many sessions over Streamable HTTP have begun and not ended. */
  get sessions(): number {
    return this.#sessions.size;
  }

  /** Forgets all sessions, as a restart of the server would. */
  forgetSessions(): void {
    this.#sessions.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    await closed;
  }

  async #serve(
    incoming: IncomingMessage,
    outgoing: Parameters<StreamableHTTPServerTransport["handleRequest"]>[1],
  ) {
    if (this.#token !== undefined && incoming.headers.authorization !== `Bearer ${this.#token}`) {
      outgoing.writeHead(401).end();
      return;
    }
    const { pathname, searchParams } = new URL(incoming.url ?? "", "http://localhost");
    if (pathname === "/mcp") return this.#serveStreamable(incoming, outgoing);
    if (pathname === "/sse" && incoming.method === "GET") {
      const transport = new SSEServerTransport("/messages", outgoing);
      this.#streams.set(transport.sessionId, transport);
      // The old SDK's transport does not fit its own type: the two differ about missing members.
      await this.#make().connect(transport as never);
      return;
    }
    const stream = this.#streams.get(searchParams.get("sessionId") ?? "");
    if (pathname === "/messages" && stream !== undefined) return stream.handlePostMessage(incoming, outgoing);
    outgoing.writeHead(pathname === "/sse" ? 405 : 404).end();
  }

  async #serveStreamable(
    incoming: IncomingMessage,
    outgoing: Parameters<StreamableHTTPServerTransport["handleRequest"]>[1],
  ) {
    const id = incoming.headers["mcp-session-id"];
    const known = typeof id === "string" ? this.#sessions.get(id) : undefined;
    if (known !== undefined) return known.handleRequest(incoming, outgoing);
    if (id !== undefined) {
      outgoing.writeHead(404).end("Session not found");
      return;
    }
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void this.#sessions.set(session, transport),
      onsessionclosed: (session) => void this.#sessions.delete(session),
    });
    await this.#make().connect(transport as never);
    await transport.handleRequest(incoming, outgoing);
  }

  #make(): McpServer {
    const server = new McpServer(
      { name: "legacy", version: "1.0.0" },
      { capabilities: { tools: { listChanged: true } } },
    );
    const text = (value: unknown) => ({ content: [{ type: "text" as const, text: String(value) }] });
    server.registerTool("echo", { inputSchema: { text: z.string() } as never }, (async (input: {
      text: string;
    }) => text(input.text)) as never);
    const question = {
      message: "Your name?",
      requestedSchema: { type: "object" as const, properties: { name: { type: "string" as const } } },
    };
    // Asks like most servers: the question does not say which call it belongs to.
    server.registerTool("ask", {}, async () =>
      text(JSON.stringify(await server.server.elicitInput(question))),
    );
    server.registerTool("ask_here", {}, async ({ requestId }) =>
      text(JSON.stringify(await server.server.elicitInput(question, { relatedRequestId: requestId }))),
    );
    server.registerTool("hang", {}, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      this.cancelled.push(signal.reason);
      return text("never read");
    });
    server.registerTool("big", {}, async () => text("x".repeat(65 * 1024 * 1024)));
    server.registerTool("grow", {}, async () => {
      server.registerTool("grown", {}, async () => text("new"));
      return text("grew");
    });
    return server;
  }
}
