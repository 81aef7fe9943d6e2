import {
  type InputRequiredResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import { toMcpResult } from "@toolrack/core";
import type { ResourceAnswer } from "../../calls/index.ts";
import {
  CallRefused,
  type CallRequest,
  type EndedCall,
  meantTool,
  racksKey,
  unknownTool,
  whereNamesAre,
} from "../../calls/index.ts";
import { StoreUnavailable } from "../../store/index.ts";
import { abilitiesOf, carry, clientNameOf, comeBack, type Leg, sendBack, wantsOf } from "./carry.ts";
import { currentExchange, Exchange, type ExchangeOptions } from "./exchange.ts";
import { pageOf, type Viewer } from "./lists.ts";
import { bindingOf } from "./messages.ts";
import type { McpParts, RackServer, ServerPlace } from "./surface.ts";
import {
  asksAtFirst,
  knowsTasks,
  missingTasks,
  newTaskId,
  type TaskSupport,
  type TaskView,
  taskSupportOf,
} from "./tasks.ts";

/** The list of tools, and calls of them. */
export function serveTools(server: RackServer, parts: McpParts, viewer: Viewer, place: ServerPlace): void {
  server.setRequestHandler("tools/list", ({ params }) => {
    const { tools } = parts.lists.of(viewer);
    const { items, nextCursor } = pageOf("tools", tools, ({ name }) => name, params?.cursor);
    const isOfRack = params?._meta?.[racksKey] === true;
    // The same shape; only that of the SDK is written with mutable members.
    return {
      tools: items,
      ...(nextCursor === undefined ? {} : { nextCursor }),
      ...(isOfRack ? { _meta: { [racksKey]: parts.racks() } } : {}),
    } as never;
  });
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    const leg: Leg = { server, context, ...place };
    const { name } = params;
    const running = runningOf(leg);
    const waiting = comeBack<EndedCall>(name, params.arguments, leg);
    if (waiting === undefined && running === undefined) requireVisible(parts, viewer, name);
    const support = running === undefined ? supportFor(parts, viewer, leg, params) : undefined;
    const exchange =
      running ??
      waiting ??
      startToolCall(parts, viewer, params, {
        subject: name,
        abilities: abilitiesOf(leg),
        clientName: clientNameOf(leg),
        answers: context.mcpReq.inputResponses ?? {},
        wants: wantsOf(leg),
        ...(support === undefined ? {} : { callId: newTaskId() }),
      });
    try {
      const { callId } = exchange;
      if (support !== undefined && callId !== undefined) {
        // Not a result of a tool, for which the server makes an exception.
        return (await toTask(callId, exchange, support, waiting !== undefined, leg, parts, viewer)) as never;
      }
      const ended = await carry(exchange, leg, parts.held, bindingOf(viewer, context));
      if (!isEnded(ended)) return ended;
      const refusal = undeclared(exchange, ended, leg);
      if (refusal !== undefined) throw refusal;
      const outputSchema = parts.lists.of(viewer).byName.get(name)?.outputSchema;
      const given = { canLink: canLink(leg), isPromised: outputSchema !== undefined };
      // The same shapes; only those of the SDK are written with mutable members.
      return server.projectCallToolResult(toolAnswer(ended, given) as never, outputSchema as never);
    } catch (thrown) {
      throw toProtocolError(thrown);
    }
  });
}

/** The call behind this request, when it was begun before the SDK was given the request. */
function runningOf({ context, running }: Leg): Exchange<EndedCall> | undefined {
  const handedOn = context.http?.authInfo?.extra?.running;
  return handedOn === undefined ? running?.(context.mcpReq.id) : (handedOn as Exchange<EndedCall>); // Put there by us.
}

/** How the call becomes a task, when it does. Throws when it would have to, for a client that knows no tasks. */
function supportFor(
  parts: McpParts,
  viewer: Viewer,
  leg: Leg,
  params: ToolCallParams,
): TaskSupport | undefined {
  const support = taskSupportOf(parts, viewer, params);
  if (support === undefined) return undefined;
  if (leg.era === "modern" && knowsTasks(abilitiesOf(leg))) return support;
  if (support.support === "required") throw missingTasks(meantTool(parts.registry, params)?.name);
  return undefined;
}

async function toTask(
  callId: string,
  exchange: Exchange<EndedCall>,
  { asksFirst }: TaskSupport,
  isAnswered: boolean,
  leg: Leg,
  { held, tasks }: McpParts,
  viewer: Viewer,
): Promise<TaskView | InputRequiredResult> {
  const mustAnswer = isAnswered
    ? exchange.open.length > 0
    : asksFirst && (await asksAtFirst(exchange, leg.context.mcpReq.signal));
  if (mustAnswer) return sendBack(exchange, leg, held, bindingOf(viewer, leg.context));
  held.forget(exchange);
  return tasks.adopt(callId, exchange, viewer, ({ ended, reason }) => {
    const error = ended === undefined ? toProtocolError(reason) : undeclared(exchange, ended, leg);
    if (error === undefined) return undefined;
    if (!(error instanceof ProtocolError))
      return { code: -32603, message: "The server failed. Its log says why." };
    return {
      code: error.code,
      message: error.message,
      ...(error.data === undefined ? {} : { data: error.data }),
    };
  });
}

function isEnded(value: EndedCall | InputRequiredResult): value is EndedCall {
  return "callId" in value;
}

/** A call that failed because its client lacks something: the protocol has an error of its own for it. */
function undeclared(
  { missed }: Exchange<EndedCall>,
  { result }: EndedCall,
  { era }: Leg,
): ProtocolError | undefined {
  if (missed === undefined || result.type !== "error" || era === "legacy") return undefined;
  return new MissingRequiredClientCapabilityError({ requiredCapabilities: missed }, result.content);
}

/** Links came with 2025-06-18. */
function canLink({ server, era }: Leg): boolean {
  return era === "modern" || (server.getNegotiatedProtocolVersion() ?? "") >= "2025-06-18";
}

export interface ToolCallParams {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** Hands the call in. Whatever surface carries it: what it asks and tells goes through the exchange. */
export function startToolCall(
  { desk, registry, approverOf }: Pick<McpParts, "desk" | "registry" | "approverOf">,
  viewer: Viewer,
  { name, arguments: input = {}, _meta }: ToolCallParams,
  options: ExchangeOptions,
): Exchange<EndedCall> {
  const exchange = new Exchange<EndedCall>({ ...options, approver: approverOf(viewer) }, input);
  const { callId } = options;
  const { allow } = viewer;
  const session = _meta?.["toolrack/sessionID"];
  const headers = traceOf(_meta);
  const call: { -readonly [Key in keyof CallRequest]: CallRequest[Key] } = {
    name,
    input,
    grant: viewer.grant,
    client: exchange,
  };
  if (mayWatch(options)) {
    call.watcher = {
      progress: (update) => exchange.progress(update),
      log(line) {
        // What an upstream server says comes by itself, as it said it.
        if (registry.get(line.toolName)?.metadata.mcp === undefined) exchange.log(line);
      },
    };
  }
  if (headers !== undefined) call.headers = headers;
  if (allow !== undefined) call.allow = allow;
  if (typeof session === "string") call.sessionID = session;
  // Whoever asks a person looks for the client far below; one that can be neither asked nor told need not be found.
  const isFound = call.watcher !== undefined || currentExchange.getStore() !== undefined;
  const run = () => (isFound ? currentExchange.run(exchange, () => desk.run(call)) : desk.run(call));
  if (callId === undefined) {
    return exchange.startCancellable((begun) => {
      call.begun = begun;
      return run();
    });
  }
  // Whether the id is taken is looked up first: meanwhile the client may cancel it.
  call.callId = callId;
  return exchange.start((signal) => {
    call.signal = signal;
    return run();
  });
}

/** Who can be asked may come back with another request, and want to hear of progress then. */
function mayWatch({ wants, abilities, callId }: ExchangeOptions): boolean {
  if (wants.progress || wants.level !== undefined || callId !== undefined) return true;
  for (const _ in abilities) return true;
  return false;
}

/** A trace is carried on in `_meta` under the names that HTTP gives it. */
function traceOf(meta: Readonly<Record<string, unknown>> | undefined): Record<string, string> | undefined {
  if (typeof meta?.traceparent !== "string") return undefined;
  const { traceparent, tracestate, baggage } = meta;
  return {
    traceparent,
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(typeof baggage === "string" ? { baggage } : {}),
  };
}

type ToolAnswer = ReturnType<typeof toMcpResult>;

interface AnswerOptions {
  /** Whether the client knows links. */
  readonly canLink: boolean;
  /** Whether the list shows an output schema for the tool. */
  readonly isPromised: boolean;
}

/** The result as the protocol says it; a result that was cut comes with a link to the whole. */
export function toolAnswer(ended: EndedCall, { canLink, isPromised }: AnswerOptions): ToolAnswer {
  const { callId, record, result } = ended;
  const answer = isPromised ? withPromised(toMcpResult(result), ended) : toMcpResult(result);
  if (record.flags?.truncated !== true || !canLink) return answer;
  const link = {
    type: "resource_link",
    uri: resultUri(callId),
    name: `The whole result of ${record.toolName}`,
    mimeType: "text/plain",
  };
  return { ...answer, content: [...answer.content, link] };
}

/**
 * A schema promises a structured value, and clients take no answer without one. So it is whole where only the text was
 * cut, and where the value itself is more than any answer carries the answer is a failure.
 */
function withPromised(answer: ToolAnswer, { record, result }: EndedCall): ToolAnswer {
  const { type, structured } = result;
  if (answer.structuredContent !== undefined || type !== "json") return answer;
  if (structured !== undefined) return { ...answer, structuredContent: structured };
  const text = `The call of ${record.toolName} succeeded, but its structured result is too large to be answered with. Its beginning and end follow. Ask for less, or read the whole by the call's id.`;
  return { ...answer, content: [{ type: "text", text }, ...answer.content], isError: true };
}

/** Throws for a name that means nothing to this viewer: the protocol wants an error there, not a result. */
function requireVisible(
  { registry, lists }: Pick<McpParts, "registry" | "lists">,
  viewer: Viewer,
  name: string,
): void {
  const info = registry.get(name);
  if (info !== undefined && viewer.sees(info)) return;
  const { isShortened } = lists.of(viewer);
  const message = isShortened
    ? whereNamesAre(name)
    : unknownTool(registry, name, (tool) => viewer.sees(tool)).message;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

/** What never became a call, or needs a store that cannot be used now, is an error of the protocol. */
export function toProtocolError(reason: unknown): unknown {
  if (reason instanceof StoreUnavailable) {
    const { code, message, retryAfter } = reason;
    return new ProtocolError(BUSY, message, { code, reason: reason.reason, retryAfter });
  }
  if (!(reason instanceof CallRefused)) return reason;
  const code = reason.code === "tool_not_found" ? ProtocolErrorCode.InvalidParams : BUSY;
  const later = reason.retryAfter === undefined ? {} : { retryAfter: reason.retryAfter };
  return new ProtocolError(code, reason.message, { code: reason.code, ...reason.details, ...later });
}

/** Of the codes that the protocol leaves to implementations. */
const BUSY = -32001;

/** How many characters of a result one read gives. */
const PAGE = 100_000;

export const resultTemplate = {
  uriTemplate: "toolrack://calls/{callId}/result",
  name: "call-result",
  title: "Whole result of a call",
  description:
    "The whole text of a result that was too long to be answered with. Each part names the next one in `_meta`.",
  mimeType: "text/plain",
};

function resultUri(callId: string, offset = 0): string {
  return `toolrack://calls/${callId}/result${offset === 0 ? "" : `?offset=${offset}`}`;
}

/** A part of the text of a result, for who made the call. Undefined when there is none for this viewer. */
export async function readCallResult(
  parts: Pick<McpParts, "store" | "recorder">,
  viewer: Viewer,
  uri: string,
): Promise<ResourceAnswer | undefined> {
  const found = /^toolrack:\/\/calls\/([^/?#%]+)\/result(?:\?offset=(\d{1,15}))?$/.exec(uri);
  if (found === null) return undefined;
  const callId = found[1]!;
  const { calls } = parts.store;
  await parts.recorder.flush();
  const call = await calls.get(callId);
  if (call === undefined || !(viewer.grant.admin || isOwn(call, viewer))) return undefined;
  const page = await readWhole((at) => calls.readResult(callId, at, PAGE), Number(found[2] ?? 0));
  if (page === undefined) return undefined;
  const { offset } = page;
  const next = offset + page.text.length;
  return {
    contents: [
      {
        uri,
        mimeType: "text/plain",
        text: page.text,
        _meta: {
          "toolrack/offset": offset,
          "toolrack/total": page.total,
          ...(next < page.total && page.text !== "" ? { "toolrack/next": resultUri(callId, next) } : {}),
        },
      },
    ],
  };
}

interface Page {
  readonly text: string;
  readonly total: number;
}

/**
 * A page of whole characters. Some are written as two, of which either alone is none: a page begins with the first of
 * them, before the place that was asked for, and leaves one that it has only the first of to the next page.
 */
async function readWhole(
  read: (offset: number) => Promise<Page | undefined>,
  offset: number,
): Promise<(Page & { readonly offset: number }) | undefined> {
  const page = await read(offset);
  if (page === undefined) return undefined;
  if (offset > 0 && isSecondHalf(page.text.charCodeAt(0))) {
    const before = await read(offset - 1);
    if (before !== undefined && isFirstHalf(before.text.charCodeAt(0))) return cut(before, offset - 1);
  }
  return cut(page, offset);
}

function cut({ text, total }: Page, offset: number): Page & { readonly offset: number } {
  const isCut = offset + text.length < total && isFirstHalf(text.charCodeAt(text.length - 1));
  return { text: isCut ? text.slice(0, -1) : text, total, offset };
}

function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isSecondHalf(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** Only what a client called itself is ever linked to it. */
function isOwn(
  call: { readonly caller: string; readonly parentCallId?: string },
  { grant }: Viewer,
): boolean {
  return call.parentCallId === undefined && call.caller === grant.caller;
}
