import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { createMcpHandler, inputRequired, type McpHttpHandler, Server } from "@modelcontextprotocol/server";

/** A server of the stateless protocol, made with the SDK, over HTTP. It refuses clients of the old protocol. */
export class ModernHttpServer {
  readonly #http: HttpServer;
  readonly #handler: McpHttpHandler;
  readonly cancelled: string[] = [];
  /** How many streams for announcements are open. */
  listeners = 0;
  readonly #tools = [
    tool("echo", { text: { type: "string", "x-mcp-header": "Text" } }),
    tool("ask"),
    tool("hang"),
    tool("grow"),
  ];

  private constructor() {
    this.#handler = createMcpHandler(() => this.#make(), { legacy: "reject" });
    this.#http = createServer(async (incoming, outgoing) => {
      const gone = new AbortController();
      const isListener = incoming.headers["mcp-method"] === "subscriptions/listen";
      if (isListener) this.listeners++;
      outgoing.on("close", () => {
        gone.abort();
        if (isListener) this.listeners--;
      });
      const request = new Request(`http://127.0.0.1${incoming.url}`, {
        method: incoming.method ?? "GET",
        headers: incoming.headers as Record<string, string>,
        signal: gone.signal,
        ...(incoming.method === "POST"
          ? { body: Readable.toWeb(incoming) as ReadableStream, duplex: "half" }
          : {}),
      } as RequestInit);
      const response = await this.#handler.fetch(request);
      outgoing.writeHead(response.status, Object.fromEntries(response.headers));
      if (response.body === null) return void outgoing.end();
      Readable.fromWeb(response.body as never)
        .on("error", () => outgoing.destroy())
        .pipe(outgoing);
    });
  }

  static async start(): Promise<ModernHttpServer> {
    const server = new ModernHttpServer();
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}/mcp`;
  }

  /** Announces that the resources `clock` and `calendar` have changed. */
  tick(): void {
    this.#handler.notify.resourceUpdated("new://clock");
    this.#handler.notify.resourceUpdated("new://calendar");
  }

  /** Closes all connections, as a proxy does with streams that last too long. */
  dropConnections(): void {
    this.#http.closeAllConnections();
  }

  /** Adds a tool without announcing the change. */
  addTool(name: string): void {
    this.#tools.push(tool(name));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handler.close();
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    await closed;
  }

  #make(): Server {
    const server = new Server(
      { name: "modern", version: "1.0.0" },
      { capabilities: { tools: { listChanged: true }, resources: { subscribe: true } } },
    );
    server.setRequestHandler("resources/list", () => ({
      resources: [
        { uri: "new://calendar", name: "calendar" },
        { uri: "new://clock", name: "clock" },
      ],
    }));
    server.setRequestHandler("tools/list", () => ({ tools: this.#tools }));
    server.setRequestHandler("tools/call", async ({ params: { name, arguments: input = {} } }, context) => {
      const text = (value: unknown) => ({ content: [{ type: "text" as const, text: String(value) }] });
      const { mcpReq } = context;
      switch (name) {
        case "echo":
          return text(input.text);
        case "ask": {
          const answer = mcpReq.inputResponses?.who;
          if (answer !== undefined) return text(JSON.stringify([answer, mcpReq.requestState()]));
          return inputRequired({
            inputRequests: {
              who: inputRequired.elicit({
                message: "Your name?",
                requestedSchema: { type: "object", properties: { name: { type: "string" } } },
              }),
            },
            requestState: "half-way",
          });
        }
        case "hang":
          await mcpReq.notify({
            method: "notifications/progress",
            params: { progressToken: mcpReq._meta?.progressToken ?? 0, progress: 1 },
          });
          await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve));
          this.cancelled.push(name);
          return text("never read");
        case "grow":
          this.#tools.push(tool("grown"));
          this.#handler.notify.toolsChanged();
          return text("grew");
        default:
          return text(`called ${name}`);
      }
    });
    return server;
  }
}

function tool(name: string, properties: Record<string, Record<string, string>> = {}) {
  return { name, inputSchema: { type: "object" as const, properties } };
}
