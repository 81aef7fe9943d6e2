import {
  type AuthInfo,
  createMcpHandler,
  type LegacyHttpHandler,
  legacyStatelessFallback,
  type McpHttpHandler,
  type McpRequestContext,
} from "@modelcontextprotocol/server";
import type { EndedCall } from "../../calls/call-desk.ts";
import type { Audience } from "./audience.ts";
import { createMcpServer } from "./create-mcp-server.ts";
import type { Exchange } from "./exchange.ts";
import { modernVersion } from "./hot/hot-request.ts";
import { ListenBus } from "./listen-bus.ts";
import type { McpParts } from "./mcp-parts.ts";
import type { Outlet } from "./outlet.ts";
import { Viewer } from "./viewer.ts";

/** The SDK as it answers single requests: all of the newer version, and those of the older ones without a session. */
export class SdkFaces {
  readonly modern: McpHttpHandler;
  readonly stateless: LegacyHttpHandler;
  readonly #bus: ListenBus;

  /** `join` is given whoever begins to listen to changes of lists. */
  constructor(parts: McpParts, join: (audience: Audience) => () => void = () => () => {}) {
    this.#bus = new ListenBus(join);
    const factory = ({ era, authInfo }: McpRequestContext) => {
      const viewer = authInfo?.extra?.viewer;
      if (!(viewer instanceof Viewer)) throw new Error("A request came without a viewer.");
      return createMcpServer(parts, viewer, { era, canAsk: false });
    };
    this.modern = createMcpHandler(factory, {
      legacy: "reject",
      bus: this.#bus,
      onerror: (error) => parts.logger.debug("MCP:", error.message),
    });
    this.stateless = legacyStatelessFallback(factory);
  }

  /** Answers a request of the newer version by which a client listens to changes. */
  listen(viewer: Viewer, request: Request, parsedBody: unknown): Promise<Response> {
    const given = { parsedBody, authInfo: authInfoOf(viewer) };
    return this.#bus.listenAs(viewer, () => this.modern.fetch(request, given));
  }

  /** The `result` of `tools/list` as the SDK writes it; undefined when it refuses. */
  async listBytes(
    era: "legacy" | "modern",
    cursor: string | undefined,
    viewer: Viewer,
  ): Promise<Buffer | undefined> {
    const isModern = era === "modern";
    const envelope = {
      "io.modelcontextprotocol/protocolVersion": modernVersion,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const params = { ...(cursor === undefined ? {} : { cursor }), ...(isModern ? { _meta: envelope } : {}) };
    const parsedBody = { jsonrpc: "2.0", id: 1, method: "tools/list", params };
    const request = new Request("http://localhost/mcp", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(isModern ? { "mcp-protocol-version": modernVersion, "mcp-method": "tools/list" } : {}),
      },
    });
    const face = isModern ? this.modern.fetch : this.stateless;
    const response = await face(request, { parsedBody, authInfo: authInfoOf(viewer) });
    const line = (await response.text()).split("\n").find((text) => text.includes('"jsonrpc"')) ?? "";
    const message = line.slice(line.indexOf("{"));
    const start = '{"result":';
    const end = ',"jsonrpc":"2.0","id":1}';
    if (!message.startsWith(start) || !message.endsWith(end)) return undefined;
    return Buffer.from(message.slice(start.length, -end.length));
  }
}

/**
 * The SDK hands this on to whoever answers: so that learns whose request it is, of a call that has begun, and of the way
 * out by which it is answered.
 */
export function authInfoOf(viewer: Viewer, running?: Exchange<EndedCall>, outlet?: Outlet): AuthInfo {
  return { token: "", clientId: viewer.grant.id, scopes: [], extra: { viewer, running, outlet } };
}
