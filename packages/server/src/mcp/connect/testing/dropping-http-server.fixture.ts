import { randomUUID } from "node:crypto";
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import {
  type EventStore,
  StreamableHTTPServerTransport,
} from "@modelcontextprotocol/sdk/server/streamableHttp.js";

/**
 * A server made with the old SDK whose streams break in the middle of a call, as they do behind proxies: over Streamable
 * HTTP at `/mcp` with or without events that can be sent again, and over SSE at `/sse`.
 */
export class DroppingHttpServer {
  readonly #http: HttpServer;
  readonly #sessions = new Map<string, StreamableHTTPServerTransport>();
  readonly #streams = new Map<string, SSEServerTransport>();
  readonly #canReplay: boolean;
  /** The streams that are open for calls. */
  readonly #open = new Set<ServerResponse>();
  /** The ids of the events after which clients asked to continue a stream. */
  readonly resumed: string[] = [];
  calls = 0;

  private constructor(canReplay: boolean) {
    this.#canReplay = canReplay;
    this.#http = createServer((incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  static async start({ canReplay = true } = {}): Promise<DroppingHttpServer> {
    const server = new DroppingHttpServer(canReplay);
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    return server;
  }

  url(path: string): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    await closed;
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(incoming.url ?? "", "http://localhost");
    const last = incoming.headers["last-event-id"];
    if (typeof last === "string") this.resumed.push(last);
    this.#open.add(outgoing);
    outgoing.on("close", () => this.#open.delete(outgoing));
    if (pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", outgoing);
      this.#streams.set(transport.sessionId, transport);
      // The old SDK's transport does not fit its own type: the two differ about missing members.
      await this.#make().connect(transport as never);
      return;
    }
    const stream = this.#streams.get(searchParams.get("sessionId") ?? "");
    if (stream !== undefined) return stream.handlePostMessage(incoming, outgoing);
    const known = this.#sessions.get(String(incoming.headers["mcp-session-id"]));
    if (known !== undefined) return known.handleRequest(incoming, outgoing);
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void this.#sessions.set(session, transport),
      ...(this.#canReplay ? { eventStore: new Events(), retryInterval: 20 } : {}),
    });
    await this.#make().connect(transport as never);
    await transport.handleRequest(incoming, outgoing);
  }

  #make(): McpServer {
    const server = new McpServer({ name: "dropping", version: "1.0.0" });
    const text = (value: unknown) => ({ content: [{ type: "text" as const, text: String(value) }] });
    server.registerTool("plain", {}, async () => text("plain"));
    server.registerTool("drop", {}, async ({ sendNotification, _meta }) => {
      this.calls++;
      const { progressToken = 0 } = _meta ?? {};
      await sendNotification({ method: "notifications/progress", params: { progressToken, progress: 1 } });
      await delay(50);
      for (const outgoing of this.#open) outgoing.destroy();
      await delay(200);
      return text("came through");
    });
    return server;
  }
}

/** Stores the events of one session, so that they can be sent again. */
class Events implements EventStore {
  readonly #events: { readonly id: string; readonly stream: string; readonly message: never }[] = [];

  async storeEvent(stream: string, message: unknown): Promise<string> {
    const id = `${this.#events.length + 1}`;
    // The SDK gets the same message back, so its type does not matter.
    this.#events.push({ id, stream, message: message as never });
    return id;
  }

  async replayEventsAfter(
    last: string,
    { send }: { send: (id: string, message: never) => Promise<void> },
  ): Promise<string> {
    const from = this.#events.findIndex(({ id }) => id === last);
    const stream = this.#events[from]?.stream ?? "";
    for (const event of this.#events.slice(from + 1)) {
      // The first event of a stream has an id but no message.
      const isMessage = Object.keys(event.message).length > 0;
      if (event.stream === stream && isMessage) await send(event.id, event.message);
    }
    return stream;
  }
}
