import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ToolErrorCode, ToolState } from "@toolrack/core";
import type { Grant } from "../access/index.ts";
import {
  type AnnouncedCall,
  type CallRequest,
  type CallService,
  type EndedCall,
  INBOX,
  newCallId,
  runToolName,
} from "../calls/index.ts";
import { type CallLine, type CallStore, type StoredCall, toKey } from "../store/index.ts";
import type { HttpServices } from "./services.ts";
import {
  acceptsStream,
  callerGone,
  eventText,
  HttpError,
  type HttpErrorCode,
  json,
  jsonText,
  openEventStream,
  sent,
} from "./wire/index.ts";

interface WantedCall extends Omit<CallRequest, "signal" | "headers" | "watcher"> {
  /** Whether the call continues when the caller disconnects. */
  readonly keep?: boolean;
}

/** Makes a call and answers with JSON, or with an event stream when the request accepts one. */
export async function serveCall(
  service: CallService,
  { keep = false, ...call }: WantedCall,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<unknown> {
  const gone = keep ? undefined : callerGone(incoming, outgoing);
  const { headers } = incoming;
  const isRun = call.name === runToolName;
  const callId = call.callId ?? (isRun ? newCallId() : undefined);
  const signal = isRun && gone !== undefined ? unlessWaiting(gone.signal, service, callId) : gone?.signal;
  const request = { ...call, signal, headers, via: viaOf(headers), ...(callId && { callId }) };
  try {
    if (acceptsStream(incoming)) return await streamCall(service, request, outgoing);
    return answerOf(await service.run(request), request);
  } finally {
    gone?.release();
  }
}

/** Code that waits for a person goes on without its caller: its record says how it ended. */
function unlessWaiting(gone: AbortSignal, service: CallService, callId = ""): AbortSignal {
  const cancelled = new AbortController();
  const end = () => service.isWaiting(callId) || cancelled.abort(gone.reason);
  if (gone.aborted) end();
  else gone.addEventListener("abort", end, { once: true });
  return cancelled.signal;
}

/** By what a caller makes a call over HTTP: the console, or the program that it names itself. */
export function viaOf(headers: IncomingMessage["headers"]): string {
  // Browsers send this header, and `same-origin` means that a page of this server made the request.
  if (headers["sec-fetch-site"] === "same-origin") return "console";
  const program = /^\S{1,60}/.exec(headers["user-agent"] ?? "")?.[0] ?? "http";
  return program === "toolrack-cli" ? "cli" : program;
}

/** How many unread bytes may wait for a slow caller. Beyond that, states, progress and log are left out. */
const MOST_WAITING = 1024 * 1024;

/**
 * Sends `state`, `progress` and `log` events while the call runs, then one last event: `result` with the content of the
 * JSON answer, or `error` with the error envelope.
 */
async function streamCall(
  service: CallService,
  request: CallRequest,
  outgoing: ServerResponse,
): Promise<typeof sent> {
  const send = (event: string, data: unknown) => {
    // The caller has disconnected, but the call goes on.
    if (outgoing.destroyed) return;
    if (!outgoing.headersSent) openEventStream(outgoing);
    outgoing.write(eventText(event, data));
  };
  const sendIfTaken = (event: string, data: unknown) => {
    if (outgoing.writableLength < MOST_WAITING) send(event, data);
  };
  // Most refusals come at once. The stream opens a moment later, so that a refusal gets its own HTTP status.
  let opening: NodeJS.Immediate | undefined;
  const watcher: CallRequest["watcher"] = {
    state(state) {
      clearImmediate(opening);
      if (state.status === "pending") opening = setImmediate(sendIfTaken, "state", state);
      if (state.status === "running") sendIfTaken("state", state);
    },
    progress: (update) => sendIfTaken("progress", update),
    log: ({ at, level, text }) => sendIfTaken("log", { at, level, text }),
    waits: (isWaiting) => {
      const text = `The call waits for an answer. The question is in ${INBOX}.`;
      if (isWaiting) sendIfTaken("log", { at: Date.now(), level: "warn", text, isWaiting });
    },
  };
  try {
    send("result", answerOf(await service.run({ ...request, watcher }), request));
  } catch (thrown) {
    const refusal = HttpError.from(thrown);
    if (!outgoing.headersSent || refusal === undefined) throw thrown;
    send("error", refusal.toEnvelope());
  }
  outgoing.end();
  return sent;
}

type CallParts = Pick<HttpServices, "store" | "service" | "recorder">;

/** Admins may read all calls. Others may read calls made with their token, and the inner calls of those. */
function mayRead(grant: Grant, { owner }: StoredCall): boolean {
  return grant.admin || owner === toKey(grant.caller);
}

/** Returns the stored call. The refusal is the same for a call of somebody else and for one that never existed. */
export async function requireCall(grant: Grant, callId: string, parts: CallParts): Promise<StoredCall> {
  const call = await findCall(callId, parts);
  if (call === undefined || !mayRead(grant, call)) throw unknownCall(callId);
  return call;
}

/** Flushes the recorder, because a call that just ended may not be stored yet. */
async function findCall(callId: string, { store, recorder }: CallParts): Promise<StoredCall | undefined> {
  const call = await store.calls.get(callId);
  if (call !== undefined && call.outcome !== "running") return call;
  await recorder.flush();
  return store.calls.get(callId);
}

export function unknownCall(callId: string): HttpError {
  const message = `This token knows no call "${callId}". GET /api/calls lists those that it may see.`;
  return new HttpError("call_not_found", message, { details: { callId } });
}

/** Codes of refusals before the tool runs. All other codes are outcomes of a run. */
export const refusals = [
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
  "loop_blocked",
  "approval_denied",
] as const satisfies readonly (HttpErrorCode & ToolErrorCode)[];

/**
 * The answer for a call that ran, whatever its outcome. Throws the refusal when the tool never ran. A tool that ran and
 * passed on the refusal of an inner call counts as run.
 */
function answerOf(
  { callId, record, result, recorded, trace }: EndedCall,
  { replayOf, grant }: Pick<CallRequest, "replayOf" | "grant">,
): object {
  const { error } = result;
  const { toolName, status, duration } = record;
  const code = error && record.runDuration === 0 ? refusals.find((one) => one === error.code) : undefined;
  if (error === undefined || code === undefined)
    return { callId, toolName, status, duration, result, recorded, replayOf, ...(grant.admin && { trace }) };
  const details = { callId, recoverable: error.recoverable, ...error.details };
  throw new HttpError(code, error.message, { details });
}

const PREVIEW = 200;

/** A call as lists show it, with only the beginning of its arguments and its result. */
export function summaryOf(call: StoredCall): Record<string, unknown> {
  const { parameters, result, outcome, status: _, trace: __, owner: ___, ...rest } = call;
  return {
    ...rest,
    status: outcome,
    parametersPreview: preview(jsonText(parameters)),
    resultType: result.type,
    resultPreview: preview(result.content),
  };
}

/**
 * A stored call with its arguments and result. Only a result too long to be stored in one piece is cut. Only an admin
 * is told where in the server's files the tool failed.
 */
export function detailOf(call: StoredCall, { admin }: Grant): Record<string, unknown> {
  const { outcome, status: _, trace, owner: __, ...rest } = call;
  return {
    ...rest,
    status: outcome,
    ...(admin && { trace }),
    ...(outcome === "running" ? {} : { stages: stagesOf(call) }),
  };
}

/**
 * The stages of a call and their durations, in order; stages without duration are left out. An approval that a tool
 * asks for while it runs is part of its run.
 */
function stagesOf(call: StoredCall): { name: string; duration: number }[] {
  const { duration, runDuration, afterDuration = 0, flags } = call;
  const waited = flags?.waited ?? 0;
  return [
    { name: "validate", duration: Math.max(0, duration - runDuration - waited) },
    { name: "approve", duration: waited },
    { name: "run", duration: Math.max(0, runDuration - afterDuration) },
    { name: "after", duration: afterDuration },
  ].filter((stage) => stage.duration > 0);
}

/** A running call. `announced` is missing for a call that a tool made: only its state is known. */
export function activeView(
  active: { readonly callId: string; readonly toolName: string; readonly state: ToolState },
  announced: AnnouncedCall | undefined,
  log: readonly CallLine[],
): Record<string, unknown> {
  const { state } = active;
  return {
    ...announced,
    callId: active.callId,
    toolName: active.toolName,
    // A call that waits for a person counts as running too, as in lists.
    status: "running",
    parameters: state.input,
    title: state.title,
    metadata: state.metadata,
    startedAt: "time" in state ? state.time.start : undefined,
    log: log.length === 0 ? undefined : log,
  };
}

function preview(text: string): string {
  return text.length > PREVIEW ? `${text.slice(0, PREVIEW)}…` : text;
}

/** The placeholders that the core's `redact` writes. */
const taken = /\[redacted\]|^\[(circular|too deep|unreadable|function|symbol|\d+ bytes)\]$/;

/** The store's placeholder for arguments that were too large. */
const TOO_LARGE = "[too large]";

/**
 * The arguments of a recorded call, for a replay. Throws if the record does not hold what was sent: a tool must not run
 * with a mask in place of a secret.
 */
export function repeatArguments(call: StoredCall): unknown {
  const place = maskedPlace(call.parameters, "");
  if (place !== undefined) {
    throw new HttpError(
      "arguments_redacted",
      `The recorded arguments are not those that were sent: ${place} was left out or masked. Send the arguments with the replay.`,
      { details: { callId: call.callId, path: place } },
    );
  }
  const { raw, ...others } = call.parameters;
  const neverParsed = call.error?.code === "invalid_arguments" && Object.keys(others).length === 0;
  // Arguments that could not be parsed are recorded as text in `raw`. If that object were passed on, the
  // arguments would be dropped instead of refused.
  return neverParsed && typeof raw === "string" ? raw : call.parameters;
}

function maskedPlace(value: unknown, path: string): string | undefined {
  if (typeof value === "string") return taken.test(value) ? path : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    if (key === TOO_LARGE) return path === "" ? "all of it" : path;
    const found = maskedPlace(item, path === "" ? key : `${path}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** How many characters of a result are held in memory at a time. */
const PIECE = 256 * 1024;

/** Sends the record of a call as a file, reading the text of the result piece by piece. */
export async function sendRecord(
  call: StoredCall,
  grant: Grant,
  calls: Pick<CallStore, "readResult">,
  outgoing: ServerResponse,
): Promise<typeof sent> {
  const { callId } = call;
  // Reads the first piece before the headers are sent, so that a failure still gets its own status.
  const first = await calls.readResult(callId, 0, PIECE);
  outgoing.writeHead(200, {
    "Content-Type": json,
    "Content-Disposition": `attachment; filename="${callId.replace(/[^\w.-]/g, "_")}.json"`,
  });
  await pipeline(Readable.from(piecesOf(call, detailOf(call, grant), first, calls)), outgoing).catch(
    (error) => {
      // A disconnect is not an error.
      if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
    },
  );
  return sent;
}

async function* piecesOf(
  call: StoredCall,
  { result: _, ...facts }: Record<string, unknown>,
  first: Awaited<ReturnType<CallStore["readResult"]>>,
  calls: Pick<CallStore, "readResult">,
): AsyncGenerator<string> {
  const { content, ...more } = call.result;
  // `result` is the last member and `content` its last member: the JSON before it is written without closing braces.
  yield `${jsonText(facts).slice(0, -1)},"result":${jsonText(more).slice(0, -1)},"content":"`;
  let piece = first;
  if (piece === undefined) yield inQuotes(content);
  for (let offset = 0; piece !== undefined && piece.text !== ""; ) {
    // A surrogate pair that is split between two pieces becomes two escapes, which readers join again.
    yield inQuotes(piece.text);
    offset += piece.text.length;
    piece = offset < piece.total ? await calls.readResult(call.callId, offset, PIECE) : undefined;
  }
  yield '"}}';
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
