import { randomUUID } from "node:crypto";
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text as textOf } from "node:stream/consumers";

/** One call of a tool, which the test answers in any way it likes. */
export interface ScriptedCall {
  readonly id: number;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  answer(text: string): void;
  send(status: number, body: object | string, headers?: Readonly<Record<string, string>>): void;
}

export interface Script {
  readonly era?: "legacy" | "modern";
  /** Whether a server of the old protocol gives clients no session. */
  readonly withoutSessions?: boolean;
  readonly tools: Readonly<Record<string, (call: ScriptedCall) => void>>;
  /** The input schemas, by the name of the tool. Default: a schema that accepts every object. */
  readonly schemas?: Readonly<Record<string, object>>;
  /**
   * Answers the question whether the server speaks the new protocol. Default for a server of the old protocol:
   * an error that says that there is no session.
   */
  readonly onDiscover?: (call: Omit<ScriptedCall, "answer">) => void;
  /** Answers the handshake of the old protocol, to refuse it. Default: the handshake is accepted. */
  readonly onInitialize?: (call: Omit<ScriptedCall, "answer">) => void;
  /** Answers a request over an unknown session. Default: 404, with an error without an id. */
  readonly onUnknownSession?: (call: Omit<ScriptedCall, "answer">) => void;
  /** Returns the result of `tools/list` for a cursor. Default: all tools. */
  readonly list?: (cursor: string | undefined) => object;
  /** Default: tools, whose changes a server of the old protocol announces. */
  readonly capabilities?: object;
  /** Answers the GET that opens a stream for the own messages of a server of the old protocol. Default: 405. */
  readonly onListen?: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
  /** Answers the GET that continues a stream. Default: 405. */
  readonly onResume?: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
}

const TEXT = { "content-type": "application/json" };

/** An MCP server over HTTP, written by hand, whose tools answer as the test says. */
export class ScriptedHttpServer {
  readonly #http: HttpServer;
  readonly #script: Script;
  readonly #sessions = new Set<string>();
  /** The names of the tools that were called, in order. */
  readonly calls: string[] = [];
  handshakes = 0;
  /** How often a client asked whether the server speaks the new protocol. */
  discoveries = 0;
  /** Called before a handshake of the old protocol is answered, and awaited. */
  beforeHandshake: () => Promise<void> | void = () => {};
  /** If set, every request is answered with this status, as while a server is deployed. */
  status: number | undefined;
  /** The headers of the answers with `status`. */
  statusHeaders: Readonly<Record<string, string>> = {};
  /** When each request arrived that was answered with `status`, in milliseconds since the epoch. */
  readonly refusedAt: number[] = [];
  /** The value that every request must have in the header Authorization, if set. */
  authorization: string | undefined;

  private constructor(script: Script) {
    this.#script = script;
    this.#http = createServer((incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  static async start(script: Script, port = 0): Promise<ScriptedHttpServer> {
    const server = new ScriptedHttpServer(script);
    await new Promise<void>((resolve) => server.#http.listen(port, "127.0.0.1", resolve));
    return server;
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`;
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

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const send: ScriptedCall["send"] = (status, body, headers = {}) => {
      const isText = typeof body === "string";
      outgoing.writeHead(status, { ...(isText ? {} : TEXT), ...headers });
      outgoing.end(isText ? body : JSON.stringify(body));
    };
    if (this.status !== undefined) {
      this.refusedAt.push(Date.now());
      return send(this.status, "down", this.statusHeaders);
    }
    const { authorization } = incoming.headers;
    if (this.authorization !== undefined && authorization !== this.authorization)
      return send(401, "no entrance");
    if (incoming.method === "GET" && incoming.headers["last-event-id"] !== undefined) {
      if (this.#script.onResume !== undefined) return this.#script.onResume(incoming, outgoing);
    } else if (incoming.method === "GET" && this.#script.onListen !== undefined)
      return this.#script.onListen(incoming, outgoing);
    if (incoming.method !== "POST") return send(405, "");
    const { id, method, params } = JSON.parse(await textOf(incoming));
    const isModern = this.#script.era === "modern";
    const result = (value: object, headers = {}) =>
      send(
        200,
        { jsonrpc: "2.0", id, result: { ...(isModern ? { resultType: "complete" } : {}), ...value } },
        headers,
      );
    const serverInfo = { name: "scripted", version: "1.0.0" };
    const call = { id, incoming, outgoing, send };
    if (method === "server/discover") this.discoveries++;
    if (method === "server/discover" && this.#script.onDiscover !== undefined)
      return this.#script.onDiscover(call);
    if (method === "initialize" && this.#script.onInitialize !== undefined)
      return this.#script.onInitialize(call);
    if (method === "server/discover" && isModern) {
      return result({
        supportedVersions: ["2026-07-28"],
        capabilities: this.#script.capabilities ?? { tools: {} },
        serverInfo,
        ttlMs: 1000,
        cacheScope: "public",
      });
    }
    if (method === "initialize" && !isModern) return this.#shakeHands(params, serverInfo, result);
    const session = String(incoming.headers["mcp-session-id"]);
    const isStateless = isModern || this.#script.withoutSessions === true;
    if (!isStateless && !this.#sessions.has(session)) {
      const isUnknown = incoming.headers["mcp-session-id"] !== undefined;
      if (isUnknown && this.#script.onUnknownSession !== undefined)
        return this.#script.onUnknownSession(call);
      const error = { code: -32_001, message: isUnknown ? "Session not found" : "No session" };
      return send(isUnknown ? 404 : 400, { jsonrpc: "2.0", id: null, error });
    }
    if (id === undefined) return send(202, "");
    if (method === "tools/list") {
      const tools = Object.keys(this.#script.tools).map((name) => ({
        name,
        inputSchema: new Map(Object.entries(this.#script.schemas ?? {})).get(name) ?? { type: "object" },
      }));
      if (this.#script.list !== undefined) return result(this.#script.list(params?.cursor));
      return result({ tools, ...(isModern ? { ttlMs: 1000, cacheScope: "public" } : {}) });
    }
    const act = method === "tools/call" ? this.#script.tools[params.name] : undefined;
    if (act === undefined) {
      return send(isModern ? 404 : 200, {
        jsonrpc: "2.0",
        id,
        error: { code: -32_601, message: "Method not found" },
      });
    }
    this.calls.push(params.name);
    act({ ...call, answer: (text) => result({ content: [{ type: "text", text }] }) });
  }

  async #shakeHands(
    { protocolVersion }: { readonly protocolVersion: string },
    serverInfo: object,
    result: (value: object, headers?: object) => void,
  ): Promise<void> {
    this.handshakes++;
    await this.beforeHandshake();
    const session = randomUUID();
    this.#sessions.add(session);
    const headers = this.#script.withoutSessions === true ? {} : { "mcp-session-id": session };
    const { capabilities = { tools: { listChanged: true } } } = this.#script;
    result({ protocolVersion, capabilities, serverInfo }, headers);
  }
}
