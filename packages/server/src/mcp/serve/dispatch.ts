import {
  type CallRequest,
  calledTool,
  callToolName,
  type EndedCall,
  newCallId,
  racksKey,
  runToolName,
  unknownTool,
  unknownToolText,
} from "../../calls/index.ts";
import { pathCall } from "../../code/index.ts";
import { isRecord } from "../../helpers/index.ts";
import {
  cancellationOf,
  expected,
  RpcError,
  type RpcNotification,
  type RpcParams,
  rpcCodes,
} from "../wire/index.ts";
import {
  invalidParams,
  missingCapability,
  paramError,
  toolAnswer,
  toRpcError,
  upstreamError,
} from "./answers.ts";
import { answerWithQuestions, ClientDialog, relayDialog } from "./dialog.ts";
import { discover, initialize, setLevel } from "./handshake.ts";
import { checkParamHeaders } from "./http-checks.ts";
import type { McpServing } from "./mcp-services.ts";
import { offeringMethods } from "./offerings.ts";
import {
  type ClientRequest,
  connectionClosed,
  inputClosed,
  type RequestTable,
  sessionKey,
} from "./session.ts";
import { listen, subscriptionMethods } from "./subscriptions.ts";
import { asksAtFirst, knowsTasks, missingTasks, newTaskId, taskMethods, taskSupportOf } from "./tasks.ts";
import { listTools } from "./tool-lists.ts";

/**
 * Handles a request. Returns the result or a promise of it, or undefined when the handler answers the request
 * itself. Throws or rejects to answer with an error.
 */
type Handler = (serving: McpServing, request: ClientRequest) => unknown;

const common: Readonly<Record<string, Handler>> = {
  "tools/call": callTool,
  ...Object.fromEntries(
    Object.entries<Handler>({ "tools/list": listTools, ...offeringMethods }).map(([method, handle]) => [
      method,
      method.endsWith("/list") ? onceStarted(handle) : handle,
    ]),
  ),
};

/**
 * A list waits while the rack starts, because many clients list once and follow no changes. Another rack does not wait:
 * it follows changes, and two racks might wait for each other.
 */
function onceStarted(handle: Handler): Handler {
  return (serving, request) => {
    const starting = serving.starting();
    if (starting === undefined || request.meta[racksKey] === true) return handle(serving, request);
    return starting.then(() => handle(serving, request));
  };
}

const legacy = { ...common, ping: () => ({}), "logging/setLevel": setLevel };

/** The methods of each era. In a session, clients of the legacy era can use further methods. */
const methods = {
  modern: toMap({ ...common, ...taskMethods, "server/discover": discover, "subscriptions/listen": listen }),
  legacy: toMap(legacy),
  session: toMap({ ...legacy, ...subscriptionMethods, initialize }),
};

function toMap(handlers: Readonly<Record<string, Handler>>): ReadonlyMap<string, Handler> {
  return new Map(Object.entries(handlers));
}

/** Handles every request of every transport and version. The answer goes through the request's reply. */
export function dispatch(serving: McpServing, request: ClientRequest) {
  const { codec, session } = request.peer;
  const handle = methods[session === undefined ? codec.era : "session"].get(request.method);
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
  if (cancelled !== undefined) requests?.entries.get(cancelled.id)?.withdraw(cancelled.reason);
}

/** Handles `tools/call` of both eras and all transports. Throws an `RpcError` when the call is not started. */
function callTool(serving: McpServing, request: ClientRequest) {
  const { params, caller, peer } = request;
  const { name: given, arguments: input } = params;
  const { registry, waitingDialogs } = serving;
  if (typeof given !== "string") throw paramError("tools/call", "name", expected("string", given));
  const byPath = given.includes(".") ? pathCall(registry, given) : undefined;
  const name = byPath?.toolName ?? given;
  if (input !== undefined && !isRecord(input)) {
    throw paramError("tools/call", "arguments", expected("record", input));
  }
  const found = registry.get(name);
  const info = found !== undefined && caller.sees(found) ? found : undefined;
  if (info !== undefined && peer.headers !== undefined) checkParamHeaders(info, input, peer.headers);
  if (params.requestState !== undefined) return waitingDialogs.resume(request, name, input);
  if (info === undefined) throw unseen(serving, request, name);
  const meant = info.name === callToolName ? calledTool(registry, { name, arguments: input }) : info;
  const support = meant?.metadata.task === undefined ? undefined : taskSupportOf(caller, meant);
  const dialog = new ClientDialog<EndedCall>(request, name, input);
  if (support !== undefined && peer.codec.era === "modern" && knowsTasks(peer.abilities)) {
    void beginTask(serving, request, dialog, support.asksFirst).catch((thrown) => request.fail(thrown));
    return;
  }
  if (support?.support === "required") throw missingTasks(meant?.name);
  startCall(serving, request, dialog);
  relayDialog(waitingDialogs, request, dialog, (answered, ended) => {
    const { codec, version = "" } = answered.peer;
    const isModern = codec.era === "modern";
    const { record, result } = ended;
    const { type, structured } = result;
    if (type === "error") {
      if (isModern && dialog.missed !== undefined)
        return answered.fail(missingCapability(dialog.missed, result.content));
      const refusal = meant?.metadata.mcp === undefined ? undefined : upstreamError(result);
      if (refusal !== undefined) return answered.fail(refusal);
    }
    // Cutting a result may take its structured value away.
    const hasValue = structured !== undefined || record.flags?.truncated === true;
    const listed = hasValue ? serving.lists.of(answered.caller).byName.get(name) : undefined;
    const hasOutputSchema = listed?.outputSchema !== undefined;
    // Resource links exist since version 2025-06-18 of the protocol.
    const answer = toolAnswer(ended, { canLink: isModern || version >= "2025-06-18", hasOutputSchema });
    const told = byPath && { content: [...answer.content, { type: "text" as const, text: byPath.note }] };
    answered.answer(codec.encodeCall({ ...answer, ...told }, listed?.outputSchema));
  });
}

/** Starts the call of a dialog. The call's questions and notices go through the dialog. */
function startCall(
  { service, registry }: McpServing,
  { caller, meta, peer, reply }: ClientRequest,
  dialog: ClientDialog<EndedCall>,
  callId?: string,
): void {
  const { wants, subject, input } = dialog;
  const { client } = peer;
  const session = meta[sessionKey];
  const call: { -readonly [Key in keyof CallRequest]: CallRequest[Key] } = {
    name: subject,
    input,
    grant: caller.grant,
    client: dialog,
    via: client === undefined ? "MCP client" : `${client.name} ${client.version ?? ""}`.trim(),
    byModel: true,
  };
  // A client that can be asked questions may repeat its request with the answers, and may ask for progress
  // only then.
  let isWatched = callId !== undefined || wants.progress || wants.level !== undefined;
  for (const _ in peer.abilities) isWatched = true;
  if (isWatched) {
    call.watcher = {
      progress: (update) => dialog.progress(update),
      log(line) {
        // An upstream server's messages are forwarded separately, unchanged.
        if (registry.get(line.toolName)?.metadata.mcp === undefined) dialog.log(line);
      },
    };
  }
  if (reply.headers !== undefined) call.headers = reply.headers;
  if (reply.connection !== undefined) call.connection = reply.connection;
  if (meta.traceparent !== undefined) call.headers = { ...reply.headers, ...traceOf(meta) };
  if (caller.allow !== undefined) call.allow = caller.allow;
  if (caller.expert !== undefined) call.expert = caller.expert.name;
  if (typeof session === "string") call.sessionID = session;
  const id = callId ?? (subject === runToolName ? newCallId() : undefined);
  if (id === undefined) call.canceller = dialog;
  else {
    // With a given id the call starts later, after a lookup of that id. The client may cancel the call before
    // it starts.
    const controller = new AbortController();
    dialog.onCancel = (reason) => {
      // Code that waits for a person goes on without its client. Its record says how it ended.
      const isGone = reason === connectionClosed || reason === inputClosed;
      const isKept = subject === runToolName && isGone && service.isWaiting(id);
      if (!isKept) controller.abort(reason);
    };
    call.callId = id;
    call.signal = controller.signal;
  }
  void dialog.follow(service.run(call));
}

/** The trace headers of a request. In `_meta` they have the same names as in HTTP. */
function traceOf({ traceparent, tracestate, baggage }: RpcParams): CallRequest["headers"] {
  if (typeof traceparent !== "string") return undefined;
  return {
    traceparent,
    tracestate: typeof tracestate === "string" ? tracestate : undefined,
    baggage: typeof baggage === "string" ? baggage : undefined,
  };
}

/**
 * Starts a call as a task. With `asksFirst`, the client is asked the questions at the beginning of the call
 * before the call becomes a task.
 */
async function beginTask(
  serving: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<EndedCall>,
  asksFirst: boolean,
): Promise<void> {
  const callId = newTaskId();
  startCall(serving, request, dialog, callId);
  request.onCancel = dialog.cancel.bind(dialog);
  const becomeTask = (answered: ClientRequest) => {
    if (asksFirst && dialog.open.length > 0)
      return answerWithQuestions(serving.waitingDialogs, answered, dialog, becomeTask);
    const toError = ({ ended, reason }: { readonly ended?: EndedCall; readonly reason?: unknown }) => {
      const { missed } = dialog;
      if (ended === undefined) {
        const { code, message, data } = toRpcError(reason);
        return code === rpcCodes.internalError ? { code, message: FAILED } : { code, message, data };
      }
      if (missed === undefined || ended.result.type !== "error") return undefined;
      const { code, message, data } = missingCapability(missed, ended.result.content);
      return { code, message, data };
    };
    answered.result(serving.tasks.adopt(callId, dialog, answered.caller, toError));
  };
  if (asksFirst && !(await asksAtFirst(dialog)) && request.isOver) return;
  becomeTask(request);
}

const FAILED = "The server failed. Its log says why.";

/** For a tool that the caller does not see, the protocol wants an error, not the result of a call. */
function unseen({ registry, lists }: McpServing, { caller }: ClientRequest, name: string): RpcError {
  if (lists.of(caller).isShortened) return invalidParams(unknownToolText(name));
  return invalidParams(unknownTool(registry, name, (tool) => caller.sees(tool)).message);
}
