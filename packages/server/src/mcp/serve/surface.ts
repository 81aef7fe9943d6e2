import {
  type AuthInfo,
  createMcpHandler,
  type Implementation,
  type JSONRPCRequest,
  type LegacyHttpHandler,
  legacyStatelessFallback,
  type McpHttpHandler,
  type McpRequestContext,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerCapabilities,
  type ServerContext,
  type ServerOptions,
  type Transport,
} from "@modelcontextprotocol/server";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { type Grant, masterGrant } from "../../access/index.ts";
import type { ApprovalInbox, CallDesk, CallRecorder, EndedCall, Offerings } from "../../calls/index.ts";
import { metaTools } from "../../calls/index.ts";
import type { Config } from "../../config/index.ts";
import { toolMatcher } from "../../config/index.ts";
import { productVersion } from "../../helpers/index.ts";
import type { Mount } from "../../http/wire/index.ts";
import type { Store } from "../../store/index.ts";
import type { Outlet } from "./carry.ts";
import { ExpertWatch, type ExpertWatchParts, ListenBus } from "./changes.ts";
import { ConnectedClients, letClientsApprove } from "./clients.ts";
import type { Exchange } from "./exchange.ts";
import { HeldExchanges } from "./held-exchanges.ts";
import { modernVersion } from "./hot.ts";
import { type McpMountOptions, mcpMount, resourceMetadataMount } from "./http/mount.ts";
import { type Audience, listCache, ToolLists, Viewer } from "./lists.ts";
import { answersFirst, bindingOf, paramsProblem, withOlderCodes } from "./messages.ts";
import { serveOfferings, serveSkills } from "./offerings.ts";
import { type StdioConnection, serveMcpStdio } from "./stdio/stdio.ts";
import type { StdioStreams } from "./stdio/transport.ts";
import { serveTasks, TaskDesk, tasksExtension } from "./tasks.ts";
import { serveTools, toProtocolError } from "./tools.ts";

type OwnParts = "approverOf" | "lists" | "held" | "tasks" | "clients" | "expertWatch" | "serverInfo";

type McpSurfaceParts = Omit<McpParts, OwnParts> & {
  readonly config: NonNullable<Config["mcp"]>;
};

/** What the transports share. */
export interface McpSurface {
  readonly parts: McpParts;
  /** For the HTTP server. */
  mounts(options?: McpMountOptions): Mount[];
  /** Serves the process that started us, as the operator or as one of its experts. Rejects when there is none such. */
  stdio(streams: StdioStreams, expert?: string): Promise<StdioConnection>;
  close(): void;
}

/** Whoever can start a process in the workspace is its operator. */
const operator: Grant = { ...masterGrant, caller: "mcp" };

/** Whether the client of this grant is asked at all; whether it may answer, the grant says. */
function isAsked(asked: "client" | "stdio" | "inbox", grant: Grant): boolean {
  return asked === "client" || (asked === "stdio" && grant === operator);
}

const USUAL_THRESHOLD = 100;

/** Opens the rack to MCP clients. The meta-tools are hung on the rack, unless they are off. */
export function createMcpSurface({ config, ...given }: McpSurfaceParts): McpSurface {
  const { metaTools: mode = "auto", threshold = USUAL_THRESHOLD, alwaysListed } = config;
  const isPinned = toolMatcher(alwaysListed);
  const lists = new ToolLists(given.registry, { mode, threshold, isPinned });
  const { approvals: asked = "client" } = config;
  const parts: McpParts = {
    ...given,
    approverOf: ({ grant }) => (isAsked(asked, grant) ? grant : undefined),
    serverInfo: { name: "toolrack", title: "Toolrack", version: productVersion() },
    lists,
    held: new HeldExchanges(),
    tasks: new TaskDesk({ ...given, lists }),
    clients: new ConnectedClients(given.registry),
    expertWatch: new ExpertWatch(given),
  };
  if (mode !== "off") given.registry.apply({ put: metaTools() });
  const stop = letClientsApprove(given.approvals, given.logger);
  return {
    parts,
    mounts: (options) => [answersFirst(mcpMount(parts, options)), resourceMetadataMount()],
    async stdio(streams, name) {
      const expert = name === undefined ? undefined : parts.experts?.(name);
      if (name !== undefined && expert === undefined)
        throw new Error(`There is no expert "${name}". See: toolrack experts list`);
      return serveMcpStdio(parts, new Viewer(operator, expert), streams);
    },
    close() {
      stop();
      parts.held.close();
      parts.tasks.close();
      parts.expertWatch.close();
    },
  };
}

/** The rack as one viewer's MCP server. It holds nothing of its own, so that it can be made for a single request. */
export function createMcpServer(parts: McpParts, viewer: Viewer, place: ServerPlace): RackServer {
  const options = {
    capabilities: capabilities(place),
    instructions: instructionsFor(parts, viewer),
    cacheHints: {
      "tools/list": listCache,
      "prompts/list": listCache,
      "resources/list": listCache,
      "resources/templates/list": listCache,
      "server/discover": listCache,
    },
    requestState: {
      verify: (state: string, context: ServerContext) => parts.held.take(state, bindingOf(viewer, context)),
    },
  };
  const server = new RackServer(parts.serverInfo, options, place.era);
  server.onerror = (error) => parts.logger.debug("MCP:", error.message);
  serveTools(server, parts, viewer, place);
  serveOfferings(server, parts, viewer, place);
  serveSkills(server, parts, viewer);
  serveTasks(server, parts, viewer, place);
  return server;
}

function capabilities({ era }: ServerPlace): ServerCapabilities {
  return {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    completions: {},
    logging: {},
    extensions: {
      "io.modelcontextprotocol/skills": { directoryRead: true },
      ...(era === "modern" ? { [tasksExtension]: {} } : {}),
    },
  };
}

function instructionsFor({ lists }: McpParts, viewer: Viewer): string {
  const own = viewer.expert?.instructions;
  const meta = lists.of(viewer).isShortened
    ? "There are more tools than are listed: toolrack_search finds them and toolrack_call calls them."
    : undefined;
  return [own, meta].filter((text) => text !== undefined).join("\n\n");
}

/** What the MCP surface works with. */
export interface McpParts extends ExpertWatchParts {
  readonly registry: ToolRegistry;
  readonly desk: CallDesk;
  readonly recorder: CallRecorder;
  readonly store: Pick<Store, "calls" | "tokens" | "follower">;
  readonly approvals: ApprovalInbox;
  /** With whose rights a viewer answers whether calls may run; undefined where the inbox alone is asked. */
  readonly approverOf: (viewer: Viewer) => Grant | undefined;
  /** The id of this rack, and those of the racks that it leads to. */
  readonly racks: () => readonly string[];
  readonly offerings: Offerings;
  readonly lists: ToolLists;
  readonly held: HeldExchanges;
  readonly tasks: TaskDesk;
  readonly clients: ConnectedClients;
  readonly expertWatch: ExpertWatch;
  readonly logger: Logger;
  readonly serverInfo: { readonly name: string; readonly title: string; readonly version: string };
}

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>;

/**
 * The SDK's server, which checks that the answer to a call is the result of a tool; here it may also be a task. It also
 * remembers which level its client has set for the log, which the SDK keeps to itself, says in a sentence what is wrong
 * with the parameters of a request, and speaks to clients of the older versions in the codes of those.
 */
export class RackServer extends Server {
  readonly #era: "legacy" | "modern";
  #logLevel: string | undefined;

  constructor(info: Implementation, options: ServerOptions, era: "legacy" | "modern") {
    super(info, options);
    this.#era = era;
  }

  get logLevel(): string | undefined {
    return this.#logLevel;
  }

  override connect(transport: Transport): Promise<void> {
    return super.connect(this.#era === "legacy" ? withOlderCodes(transport) : transport);
  }

  protected override _wrapHandler(method: string, handler: Handler): Handler {
    // Where the SDK checks the parameters itself, it throws before the handler has begun.
    const checked: Handler = (request, context) => {
      try {
        return Promise.resolve(handler(request, context)).catch((thrown) => {
          throw toProtocolError(thrown);
        });
      } catch (thrown) {
        throw explained(method, thrown);
      }
    };
    if (method === "tools/call") return this.#allowingTasks(checked);
    if (method !== "logging/setLevel") return super._wrapHandler(method, checked);
    return super._wrapHandler(method, async (request, context) => {
      const result = await checked(request, context);
      const { level } = request.params ?? {};
      if (typeof level === "string") this.#logLevel = level;
      return result;
    });
  }

  #allowingTasks(handler: Handler): Handler {
    return async (request, context) => {
      let task: Result | undefined;
      let hasBegun = false;
      const checked = super._wrapHandler("tools/call", async (given, itsContext) => {
        hasBegun = true;
        const result = await handler(given, itsContext);
        if (result.resultType !== "task") return result;
        task = result;
        return { content: [] };
      });
      try {
        const answer = await checked(request, context);
        return task ?? answer;
      } catch (thrown) {
        throw hasBegun ? thrown : explained("tools/call", thrown);
      }
    };
  }
}

/** The SDK takes parameters that do not fit for a failure of its own. */
function explained(method: string, thrown: unknown): unknown {
  const problem = thrown instanceof Error ? paramsProblem(method, thrown.message) : undefined;
  return problem === undefined ? thrown : new ProtocolError(ProtocolErrorCode.InvalidParams, problem);
}

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

/** Where a server stands: what it can do depends on how its client is connected. */
export interface ServerPlace {
  readonly era: "legacy" | "modern";
  /** False where nothing can reach the client but the answer itself. */
  readonly canAsk: boolean;
  /** The call that a request with this id has begun already, before the SDK was given the request. */
  readonly running?: (requestId: string | number) => Exchange<EndedCall> | undefined;
  /** The one way out, where requests do not each have their own. */
  readonly outlet?: Outlet;
}
