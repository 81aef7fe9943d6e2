import {
  type CallRequest,
  callToolName,
  type EndedCall,
  calledTool,
  racksKey,
  unknownTool,
  unknownToolText,
} from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { expected, metaOf, type RpcError, type RpcParams, rpcCodes } from "../wire/index.ts";
import { toolAnswer } from "./call-answer.ts";
import type { Caller } from "./caller.ts";
import { ClientDialog, currentDialog, type DialogOptions } from "./dialog.ts";
import { answerWithQuestions, dialogOptions, relayDialog, resume } from "./dialog-relay.ts";
import { invalidParams, missingCapability, paramError, toRpcError } from "./errors.ts";
import { pageOf, pageSize } from "./lists.ts";
import type { McpServing } from "./serving.ts";
import type { ClientRequest } from "./session.ts";
import {
  asksAtFirst,
  knowsTasks,
  missingTasks,
  newTaskId,
  type TaskSupport,
  taskSupportOf,
} from "./tasks.ts";

/** Answers with a page of the list of tools. */
export async function listTools(serving: McpServing, request: ClientRequest): Promise<void> {
  const { params, caller, peer } = request;
  const { cursor } = params;
  if (cursor !== undefined && typeof cursor !== "string") {
    throw paramError("tools/list", "cursor", expected("string", cursor));
  }
  const isForRack = metaOf(params)[racksKey] === true;
  const bytes = toolListBytes(serving, caller, peer, cursor, isForRack);
  // A short request makes a long answer, so the list is written only when the client has room for it.
  await request.reply.waitForRoom();
  request.answer(bytes);
}

/**
 * The `result` of a list, encoded once per version of the list and era. Throws an `RpcError` when the cursor is not one of
 * this list. `isForRack`: the client is another rack, and is told the ids of the racks behind this one.
 */
export function toolListBytes(
  { lists, racks }: Pick<McpServing, "lists" | "racks">,
  caller: Caller,
  { codec }: Pick<ClientRequest["peer"], "codec">,
  cursor: string | undefined,
  isForRack = false,
): Buffer {
  const { pages, tools } = lists.of(caller);
  const { items, start, nextCursor } = pageOf("tools", tools, ({ name }) => name, cursor);
  const key = `${codec.era} ${start}`;
  const known = isForRack ? undefined : pages.get(key);
  if (known !== undefined) return known;
  const result = {
    tools: items.map((tool) => codec.listed(tool)),
    ...(nextCursor === undefined ? {} : { nextCursor }),
    ...(isForRack ? { _meta: { [racksKey]: racks() } } : {}),
  };
  const bytes = Buffer.from(codec.encode("tools/list", result));
  // A client may invent cursors that start anywhere. Only the pages of our own cursors are kept.
  if (!isForRack && start % pageSize === 0) pages.set(key, bytes);
  return bytes;
}

/** Handles `tools/call` of both eras and all transports. Throws an `RpcError` when the call is not started. */
export function callTool(serving: McpServing, request: ClientRequest) {
  const { params, caller, peer } = request;
  const { name, arguments: input } = params;
  if (typeof name !== "string") throw paramError("tools/call", "name", expected("string", name));
  if (input !== undefined && !isRecord(input)) {
    throw paramError("tools/call", "arguments", expected("record", input));
  }
  if (params.requestState !== undefined) return resume(serving, request, name, input);
  const { registry } = serving;
  const info = registry.get(name);
  if (info === undefined || !caller.sees(info)) throw unseen(serving, caller, name);
  const call: ToolCall = input === undefined ? { name } : { name, arguments: input };
  const meant = info.name === callToolName ? calledTool(registry, call) : info;
  const support = meant?.metadata.task === undefined ? undefined : taskSupportOf(caller, meant);
  const options = dialogOptions(serving, request, name);
  if (support !== undefined && peer.codec.era === "modern" && knowsTasks(peer.abilities)) {
    void beginTask(serving, request, call, support, options).catch((thrown) => request.fail(thrown));
    return;
  }
  if (support?.support === "required") throw missingTasks(meant?.name);
  const dialog = startToolCall(serving, caller, call, metaOf(params), options);
  relayDialog(serving, request, dialog, (answered, ended) => answerCall(serving, answered, dialog, ended));
}

function answerCall(
  { lists }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<EndedCall>,
  ended: EndedCall,
) {
  const { peer, caller } = request;
  const refusal = peer.codec.era === "modern" ? capabilityError(dialog, ended) : undefined;
  if (refusal !== undefined) return request.fail(refusal);
  const { type, structured } = ended.result;
  const hasValue = type === "json" || structured !== undefined;
  const outputSchema = hasValue ? lists.of(caller).byName.get(dialog.subject)?.outputSchema : undefined;
  // Links exist since 2025-06-18.
  const canLink = peer.codec.era === "modern" || (peer.version ?? "") >= "2025-06-18";
  const answer = toolAnswer(ended, { canLink, hasOutputSchema: outputSchema !== undefined });
  request.answer(peer.codec.encodeCall(answer, outputSchema));
}

/** The modern era's error for a call that failed because its client lacks a capability. Undefined for other calls. */
function capabilityError({ missed }: ClientDialog<EndedCall>, { result }: EndedCall): RpcError | undefined {
  if (missed === undefined || result.type !== "error") return undefined;
  return missingCapability(missed, result.content);
}

/** Starts a call as a task. Questions at its beginning may be asked before it becomes one. */
async function beginTask(
  serving: McpServing,
  request: ClientRequest,
  call: ToolCall,
  { asksFirst }: TaskSupport,
  options: DialogOptions,
): Promise<void> {
  const callId = newTaskId();
  const dialog = startToolCall(serving, request.caller, call, metaOf(request.params), options, callId);
  request.onCancel = (reason) => dialog.cancel(reason);
  const askThenBecomeTask = (answered: ClientRequest) => {
    if (dialog.open.length > 0) return answerWithQuestions(serving, answered, dialog, askThenBecomeTask);
    becomeTask(answered);
  };
  const becomeTask = (answered: ClientRequest) => {
    const toError = ({ ended, reason }: { readonly ended?: EndedCall; readonly reason?: unknown }) => {
      const error = ended === undefined ? toRpcError(reason) : capabilityError(dialog, ended);
      if (error?.code === rpcCodes.internalError) return { code: error.code, message: FAILED };
      return error && { code: error.code, message: error.message, data: error.data };
    };
    answered.result(serving.tasks.adopt(callId, dialog, answered.caller, toError));
  };
  if (!asksFirst) return becomeTask(request);
  if (await asksAtFirst(dialog)) askThenBecomeTask(request);
  else if (!request.isOver) becomeTask(request);
}

const FAILED = "The server failed. Its log says why.";

interface ToolCall {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** Starts the call. Its questions and notices go through the dialog. */
function startToolCall(
  { service, registry }: Pick<McpServing, "service" | "registry">,
  caller: Caller,
  { name, arguments: input = {} }: ToolCall,
  meta: RpcParams,
  options: DialogOptions,
  callId?: string,
): ClientDialog<EndedCall> {
  const dialog = new ClientDialog<EndedCall>(options, input);
  const { allow } = caller;
  const session = meta["toolrack/sessionID"];
  const headers = meta.traceparent === undefined ? undefined : traceOf(meta);
  const call: { -readonly [Key in keyof CallRequest]: CallRequest[Key] } = {
    name,
    input,
    grant: caller.grant,
    client: dialog,
  };
  if (callId !== undefined || mayWatch(options)) {
    call.watcher = {
      progress: (update) => dialog.progress(update),
      log(line) {
        // An upstream server's messages are forwarded separately, unchanged.
        if (registry.get(line.toolName)?.metadata.mcp === undefined) dialog.log(line);
      },
    };
  }
  if (headers !== undefined) call.headers = headers;
  if (allow !== undefined) call.allow = allow;
  if (typeof session === "string") call.sessionID = session;
  // Deep inside the call, an approval looks for the current dialog. A client that can receive nothing needs no entry.
  const needsContext = call.watcher !== undefined || currentDialog.getStore() !== undefined;
  const run = () => (needsContext ? currentDialog.run(dialog, () => service.run(call)) : service.run(call));
  if (callId === undefined) {
    call.begun = (cancel) => {
      dialog.onCancel = cancel;
    };
    return dialog.follow(run());
  }
  // With a given id the call starts later, after a lookup of that id. The client may cancel it before, by the signal.
  call.callId = callId;
  return dialog.start((signal) => {
    call.signal = signal;
    return run();
  });
}

/** A client that can be asked questions may repeat its request, and may want progress only then. */
function mayWatch({ wants, abilities }: DialogOptions): boolean {
  if (wants.progress || wants.level !== undefined) return true;
  for (const _ in abilities) return true;
  return false;
}

/** The trace headers. In `_meta` they have the same names as in HTTP. */
function traceOf(meta: RpcParams): Record<string, string> | undefined {
  const { traceparent, tracestate, baggage } = meta;
  if (typeof traceparent !== "string") return undefined;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(typeof baggage === "string" ? { baggage } : {}),
  };
}

/** For a caller who sees no tool of this name: the protocol wants an error there, not a result. */
function unseen({ registry, lists }: McpServing, caller: Caller, name: string): RpcError {
  const { isShortened } = lists.of(caller);
  return invalidParams(
    isShortened ? unknownToolText(name) : unknownTool(registry, name, (tool) => caller.sees(tool)).message,
  );
}
