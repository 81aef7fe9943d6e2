import {
  type CallRequest,
  callToolName,
  type EndedCall,
  meantTool,
  racksKey,
  unknownTool,
  whereNamesAre,
} from "../../calls/index.ts";
import { isRecord } from "../../helpers/index.ts";
import { expected, metaOf, type RpcError, type RpcParams, rpcCodes } from "../wire/index.ts";
import { toolAnswer } from "./call-answer.ts";
import type { Caller } from "./caller.ts";
import { converse, dialogOptions, resume, sendBack } from "./converse.ts";
import { ClientDialog, currentDialog, type DialogOptions } from "./dialog.ts";
import { invalidParams, misfit, missingCapability, toRpcError } from "./errors.ts";
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

/** A page of the list of tools. It is written once for each version of the list and each era. */
export async function listTools(serving: McpServing, request: ClientRequest): Promise<void> {
  const { params, caller, peer } = request;
  const { cursor } = params;
  if (cursor !== undefined && typeof cursor !== "string") {
    throw misfit("tools/list", "cursor", expected("string", cursor));
  }
  const isOfRack = metaOf(params)[racksKey] === true;
  const bytes = toolListBytes(serving, caller, peer, cursor, isOfRack);
  // Lists are long, and asked for with a few words: none is written before there is room for it.
  await request.reply.turn();
  request.answer(bytes);
}

/** The `result` of a list. Throws an `RpcError` when the cursor is not one of the list. */
export function toolListBytes(
  { lists, racks }: Pick<McpServing, "lists" | "racks">,
  caller: Caller,
  { codec }: Pick<ClientRequest["peer"], "codec">,
  cursor: string | undefined,
  isOfRack = false,
): Buffer {
  const { made, tools } = lists.of(caller);
  const { items, start, nextCursor } = pageOf("tools", tools, ({ name }) => name, cursor);
  const key = `${codec.era} ${start}`;
  const known = isOfRack ? undefined : made.get(key);
  if (known !== undefined) return known;
  const result = {
    tools: items.map((tool) => codec.listed(tool)),
    ...(nextCursor === undefined ? {} : { nextCursor }),
    ...(isOfRack ? { _meta: { [racksKey]: racks() } } : {}),
  };
  const bytes = Buffer.from(codec.encode("tools/list", result));
  // Cursors come from outside and may begin anywhere; only the pages that we hand out ourselves are kept.
  if (!isOfRack && start % pageSize === 0) made.set(key, bytes);
  return bytes;
}

/** A call of a tool, in whichever era and by whichever transport it came. Throws an `RpcError` when it is not begun. */
export function callTool(serving: McpServing, request: ClientRequest) {
  const { params, caller, peer } = request;
  const { name, arguments: input } = params;
  if (typeof name !== "string") throw misfit("tools/call", "name", expected("string", name));
  if (input !== undefined && !isRecord(input)) {
    throw misfit("tools/call", "arguments", expected("record", input));
  }
  if (params.requestState !== undefined) return resume(serving, request, name, input);
  const { registry } = serving;
  const info = registry.get(name);
  if (info === undefined || !caller.sees(info)) throw unseen(serving, caller, name);
  const call: ToolCall = input === undefined ? { name } : { name, arguments: input };
  const meant = info.name === callToolName ? meantTool(registry, call) : info;
  const support = meant?.metadata.task === undefined ? undefined : taskSupportOf(caller, meant);
  const options = dialogOptions(serving, request, name);
  if (support !== undefined && peer.codec.era === "modern" && knowsTasks(peer.abilities)) {
    void beginTask(serving, request, call, support, options).catch((thrown) => request.fail(thrown));
    return;
  }
  if (support?.support === "required") throw missingTasks(meant?.name);
  const dialog = startToolCall(serving, caller, call, metaOf(params), options);
  converse(serving, request, dialog, (answered, ended) => answerCall(serving, answered, dialog, ended));
}

function answerCall(
  { lists }: McpServing,
  request: ClientRequest,
  dialog: ClientDialog<EndedCall>,
  ended: EndedCall,
) {
  const { peer, caller } = request;
  const refusal = peer.codec.era === "modern" ? undeclared(dialog, ended) : undefined;
  if (refusal !== undefined) return request.fail(refusal);
  const { type, structured } = ended.result;
  const hasValue = type === "json" || structured !== undefined;
  const outputSchema = hasValue ? lists.of(caller).byName.get(dialog.subject)?.outputSchema : undefined;
  // Links came with 2025-06-18.
  const canLink = peer.codec.era === "modern" || (peer.version ?? "") >= "2025-06-18";
  const answer = toolAnswer(ended, { canLink, isPromised: outputSchema !== undefined });
  request.answer(peer.codec.encodeCall(answer, outputSchema));
}

/** A call that failed because its client lacks something: the modern era has an error of its own for it. */
function undeclared({ missed }: ClientDialog<EndedCall>, { result }: EndedCall): RpcError | undefined {
  if (missed === undefined || result.type !== "error") return undefined;
  return missingCapability(missed, result.content);
}

/** Begins a call for which the client comes back. What it asks at the beginning may be asked before there is a task. */
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
  const adopt = (answered: ClientRequest) => {
    if (dialog.open.length > 0) return sendBack(serving, answered, dialog, adopt);
    becomeTask(answered);
  };
  const becomeTask = (answered: ClientRequest) => {
    const toError = ({ ended, reason }: { readonly ended?: EndedCall; readonly reason?: unknown }) => {
      const error = ended === undefined ? toRpcError(reason) : undeclared(dialog, ended);
      if (error?.code === rpcCodes.internalError) return { code: error.code, message: FAILED };
      return error && { code: error.code, message: error.message, data: error.data };
    };
    answered.result(serving.tasks.adopt(callId, dialog, answered.caller, toError));
  };
  if (!asksFirst) return becomeTask(request);
  if (await asksAtFirst(dialog)) adopt(request);
  else if (!request.isOver) becomeTask(request);
}

const FAILED = "The server failed. Its log says why.";

interface ToolCall {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** Hands the call in. What it asks and tells goes through the dialog. */
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
        // What an upstream server says comes by itself, as it said it.
        if (registry.get(line.toolName)?.metadata.mcp === undefined) dialog.log(line);
      },
    };
  }
  if (headers !== undefined) call.headers = headers;
  if (allow !== undefined) call.allow = allow;
  if (typeof session === "string") call.sessionID = session;
  // Whoever asks a person looks for the client far below; one that can be neither asked nor told need not be found.
  const isFound = call.watcher !== undefined || currentDialog.getStore() !== undefined;
  const run = () => (isFound ? currentDialog.run(dialog, () => service.run(call)) : service.run(call));
  if (callId === undefined) {
    call.begun = (cancel) => {
      dialog.onCancel = cancel;
    };
    return dialog.follow(run());
  }
  // Whether the id is taken is looked up first: meanwhile the client may cancel it.
  call.callId = callId;
  return dialog.start((signal) => {
    call.signal = signal;
    return run();
  });
}

/** A client that can be asked may come back with another request, and want to hear of progress then. */
function mayWatch({ wants, abilities }: DialogOptions): boolean {
  if (wants.progress || wants.level !== undefined) return true;
  for (const _ in abilities) return true;
  return false;
}

/** A trace is carried on in `_meta` under the names that HTTP gives it. */
function traceOf(meta: RpcParams): Record<string, string> | undefined {
  const { traceparent, tracestate, baggage } = meta;
  if (typeof traceparent !== "string") return undefined;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(typeof baggage === "string" ? { baggage } : {}),
  };
}

/** For a name that means nothing to this caller: the protocol wants an error there, not a result. */
function unseen({ registry, lists }: McpServing, caller: Caller, name: string): RpcError {
  const { isShortened } = lists.of(caller);
  return invalidParams(
    isShortened ? whereNamesAre(name) : unknownTool(registry, name, (tool) => caller.sees(tool)).message,
  );
}
