import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ToolErrorCode, ToolState } from "@toolrack/core";
import type { Grant } from "../access/index.ts";
import type { AnnouncedCall, CallRequest, CallService, EndedCall } from "../calls/index.ts";
import type { CallLine, CallStore, StoredCall } from "../store/index.ts";
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
  /** It goes on when the caller leaves. */
  readonly keep?: boolean;
}

/** Makes a call for a request: as one JSON answer, or as a stream when the request accepts one. */
export async function serveCall(
  service: CallService,
  { keep = false, ...call }: WantedCall,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<unknown> {
  const gone = keep ? undefined : callerGone(incoming, outgoing);
  const request = { ...call, signal: gone?.signal, headers: incoming.headers };
  try {
    if (acceptsStream(incoming)) return await streamCall(service, request, outgoing);
    return answerOf(await service.run(request), call.replayOf);
  } finally {
    gone?.release();
  }
}

/** What the reader has not taken in yet; beyond it, states and progress are left out. */
const MOST_WAITING = 1024 * 1024;

/**
 * `state`, `progress` and `log` events while the call is under way, and one last event: `result` with what a JSON answer
 * would hold, or `error` with the envelope of the refusal.
 */
async function streamCall(
  service: CallService,
  request: CallRequest,
  outgoing: ServerResponse,
): Promise<typeof sent> {
  const send = (event: string, data: unknown) => {
    // Nobody is there any more, and the call goes on.
    if (outgoing.destroyed) return;
    if (!outgoing.headersSent) openEventStream(outgoing);
    outgoing.write(eventText(event, data));
  };
  const sendIfTaken = (event: string, data: unknown) => {
    if (outgoing.writableLength < MOST_WAITING) send(event, data);
  };
  // Most refusals come at once. Until one could have come the stream stays shut, so that it gets its own status.
  let opening: NodeJS.Immediate | undefined;
  const watcher: CallRequest["watcher"] = {
    state(state) {
      clearImmediate(opening);
      if (state.status === "pending") opening = setImmediate(sendIfTaken, "state", state);
      if (state.status === "running") sendIfTaken("state", state);
    },
    progress: (update) => sendIfTaken("progress", update),
    log: ({ at, level, text }) => sendIfTaken("log", { at, level, text }),
  };
  try {
    send("result", answerOf(await service.run({ ...request, watcher }), request.replayOf));
  } catch (thrown) {
    const refusal = HttpError.from(thrown);
    if (!outgoing.headersSent || refusal === undefined) throw thrown;
    send("error", refusal.toEnvelope());
  }
  outgoing.end();
  return sent;
}

type CallParts = Pick<HttpServices, "store" | "service" | "recorder">;

/** Chains are no deeper than the pipeline allows; the rest is for damaged records. */
const DEEPEST = 64;

/** Who is no admin sees the calls that were made with the same token, and what those called in turn. */
export async function mayRead(
  grant: Grant,
  call: StoredCall,
  { store, service }: CallParts,
): Promise<boolean> {
  if (grant.admin) return true;
  let at: StoredCall | undefined = call;
  for (let depth = 0; at !== undefined && depth < DEEPEST; depth++) {
    if (at.parentCallId === undefined) return at.caller === grant.caller;
    // The call at the root of the chain may still be under way.
    if (service.callerOf(at.parentCallId) === grant.caller) return true;
    at = await store.calls.get(at.parentCallId);
  }
  return false;
}

/** The stored call, or a refusal that does not tell a call of others from one that never was. */
export async function requireCall(grant: Grant, callId: string, parts: CallParts): Promise<StoredCall> {
  const call = await findCall(callId, parts);
  if (call === undefined || !(await mayRead(grant, call, parts))) throw unknownCall(callId);
  return call;
}

/** A call may have ended a moment ago, with its record still on the way. */
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

/** The codes with which the pipeline refuses a call before the tool runs. The rest is what came of a run. */
export const refusals = [
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
  "loop_blocked",
  "approval_denied",
] as const satisfies readonly (HttpErrorCode & ToolErrorCode)[];

/**
 * What a caller is told of a call that ran, whatever came of it. Throws the refusal when the tool never ran; one that ran
 * and handed on the refusal of a call that it made is no refusal: it happened.
 */
function answerOf({ callId, record, result, recorded }: EndedCall, replayOf?: string): object {
  const { error } = result;
  const { toolName, status, duration } = record;
  const code = error && record.runDuration === 0 ? refusals.find((one) => one === error.code) : undefined;
  if (error === undefined || code === undefined)
    return { callId, toolName, status, duration, result, recorded, replayOf };
  const details = { callId, recoverable: error.recoverable, ...error.details };
  throw new HttpError(code, error.message, { details });
}

const PREVIEW = 200;

/** A call as a list shows it: everything but the bodies, of which it shows the beginning. */
export function summaryOf(call: StoredCall): Record<string, unknown> {
  const { parameters, result, outcome, status: _, ...rest } = call;
  return {
    ...rest,
    status: outcome,
    parametersPreview: preview(jsonText(parameters)),
    resultType: result.type,
    resultPreview: preview(result.content),
  };
}

/** A call that has ended, whole but for a result that was too long to keep in one piece. */
export function detailOf(call: StoredCall): Record<string, unknown> {
  const { outcome, status: _, ...rest } = call;
  return { ...rest, status: outcome, ...(outcome === "running" ? {} : { stages: stagesOf(call) }) };
}

/**
 * What the time of a call went into, in order; what took none is left out. Consent that a tool asks for while it runs
 * is part of its run.
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

/** A call under way. Of one that a tool made, or another surface, only the state is known until it ends. */
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
    // Also while it waits for a person: a list says the same.
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

/** What the core's `redact` leaves in the place of what it took out. */
const taken = /\[redacted\]|^\[(circular|too deep|unreadable|function|symbol|\d+ bytes)\]$/;

/** What the store keeps in the place of arguments that were too large. */
const TOO_LARGE = "[too large]";

/**
 * The arguments of a recorded call, to make it again. Refused where the record is not what was sent: a tool must
 * not run with a mask in the place of a secret.
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
  // Text that never became arguments is recorded as `raw`; given as an object it would be dropped, not refused.
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

/** Characters of the text that are in memory at one time. */
const PIECE = 256 * 1024;

/** Answers with the record as a file, and the whole text of its result piece by piece. */
export async function sendRecord(
  call: StoredCall,
  calls: Pick<CallStore, "readResult">,
  outgoing: ServerResponse,
): Promise<typeof sent> {
  const { callId } = call;
  // Whoever cannot be given the text is told so while there is still a status to say it with.
  const first = await calls.readResult(callId, 0, PIECE);
  outgoing.writeHead(200, {
    "Content-Type": json,
    "Content-Disposition": `attachment; filename="${callId.replace(/[^\w.-]/g, "_")}.json"`,
  });
  await pipeline(Readable.from(piecesOf(call, first, calls)), outgoing).catch((error) => {
    // Whoever hung up wants no more of it.
    if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
  });
  return sent;
}

async function* piecesOf(
  call: StoredCall,
  first: Awaited<ReturnType<CallStore["readResult"]>>,
  calls: Pick<CallStore, "readResult">,
): AsyncGenerator<string> {
  const { result: _, ...facts } = detailOf(call);
  const { content, ...more } = call.result;
  // `result` goes last, and its text last of all: an object without its closing brace is all that stands before it.
  yield `${jsonText(facts).slice(0, -1)},"result":${jsonText(more).slice(0, -1)},"content":"`;
  let piece = first;
  if (piece === undefined) yield inQuotes(content);
  for (let offset = 0; piece !== undefined && piece.text !== ""; ) {
    // A character that is cut in two is written as two escapes, which are one character again for whoever reads them.
    yield inQuotes(piece.text);
    offset += piece.text.length;
    piece = offset < piece.total ? await calls.readResult(call.callId, offset, PIECE) : undefined;
  }
  yield '"}}';
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
