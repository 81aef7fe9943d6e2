import { isRecord } from "../../helpers/index.ts";
import {
  cancellationOf,
  isLogLevel,
  modernVersion,
  notALevel,
  RpcError,
  type RpcNotification,
  rpcCodes,
  skillsExtension,
  tasksExtension,
} from "../wire/index.ts";
import type { Caller } from "./caller.ts";
import { paramError } from "./errors.ts";
import { offeringMethods } from "./offerings.ts";
import type { McpServing } from "./serving.ts";
import type { ClientRequest, RequestTable } from "./session.ts";
import { listen, subscriptionMethods } from "./subscriptions.ts";
import { taskMethods } from "./tasks.ts";
import { callTool, listTools } from "./tools.ts";

type Result = Readonly<Record<string, unknown>>;

/**
 * Returns the result or a promise of it, or undefined when the handler answers the request itself. Throws or rejects to
 * answer with an error.
 */
type Handler = (serving: McpServing, request: ClientRequest) => unknown;

const common: Readonly<Record<string, Handler>> = {
  "tools/call": callTool,
  "tools/list": listTools,
  ...offeringMethods,
};

const modern: ReadonlyMap<string, Handler> = new Map(
  Object.entries<Handler>({
    ...common,
    ...taskMethods,
    "server/discover": discover,
    "subscriptions/listen": listen,
  }),
);

const legacy: ReadonlyMap<string, Handler> = new Map(
  Object.entries<Handler>({ ...common, ping: () => ({}), "logging/setLevel": setLevel }),
);

const legacyWithSession: ReadonlyMap<string, Handler> = new Map(
  Object.entries<Handler>({ ...Object.fromEntries(legacy), ...subscriptionMethods, initialize }),
);

/** Handles every request of every transport and version. The answer goes through the request's reply. */
export function dispatch(serving: McpServing, request: ClientRequest) {
  const { codec, session } = request.peer;
  const methods = codec.era === "modern" ? modern : session === undefined ? legacy : legacyWithSession;
  const handle = methods.get(request.method);
  if (handle === undefined) {
    return request.fail(new RpcError(rpcCodes.methodNotFound, "Method not found"));
  }
  try {
    const handled = handle(serving, request);
    if (handled instanceof Promise)
      handled.then((result) => finish(request, result)).catch((thrown) => request.fail(thrown));
    else if (handled !== undefined) finish(request, handled);
  } catch (thrown) {
    request.fail(thrown);
  }
}

function finish(request: ClientRequest, result: unknown): void {
  if (isRecord(result)) request.result(result);
}

/** Handles cancellations. All other notifications are ignored. */
export function handleNotification(notification: RpcNotification, requests: RequestTable | undefined): void {
  const cancelled = cancellationOf(notification);
  if (cancelled !== undefined) requests?.get(cancelled.id)?.withdraw(cancelled.reason);
}

function initialize(serving: McpServing, { peer, params, caller }: ClientRequest): Result {
  peer.session?.initialize(params);
  return {
    protocolVersion: peer.version,
    capabilities,
    serverInfo: serving.serverInfo,
    ...instructionsFor(serving, caller),
  };
}

function discover(serving: McpServing, { caller }: ClientRequest): Result {
  const extensions = { ...capabilities.extensions, [tasksExtension]: {} };
  return {
    supportedVersions: [modernVersion],
    capabilities: { ...capabilities, extensions },
    ...instructionsFor(serving, caller),
  };
}

const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {},
  extensions: { [skillsExtension]: { directoryRead: true } },
};

function instructionsFor({ lists }: McpServing, caller: Caller): { readonly instructions?: string } {
  const own = caller.expert?.instructions;
  const meta = lists.of(caller).isShortened
    ? "There are more tools than are listed: toolrack_search finds them and toolrack_call calls them."
    : undefined;
  const instructions = [own, meta].filter((text) => text !== undefined).join("\n\n");
  return instructions === "" ? {} : { instructions };
}

function setLevel(_: McpServing, { params: { level }, peer }: ClientRequest): Result {
  if (!isLogLevel(level)) throw paramError("logging/setLevel", "level", notALevel);
  if (peer.session !== undefined) peer.session.logLevel = level;
  return {};
}
