import { cancelled, duplicateCallId, neverBegun, timedOut } from "../error/messages.ts";
import {
  childFailure,
  clip,
  copyFor,
  InvalidArgumentError,
  isToolError,
  revivedError,
  ToolCancelledError,
  type ToolError,
  ToolExecutionError,
  ToolTimeoutError,
  toToolError,
} from "../error/tool-error.ts";
import type { RawResult, ToolResult } from "../tool/result.ts";
import type { PerformedCall } from "./admitted-call.ts";
import { type CallFrame, shrink } from "./call-frame.ts";
import { Mask } from "./mask.ts";
import { guard, permit, reach, readArguments, resolve, validate } from "./stages/admission.ts";
import { approve } from "./stages/approve.ts";
import { bound, check, isCleanOf, keptTexts, mask, mock, run } from "./stages/run.ts";
import { ownSecrets, recordOf, shownInput, stateChanged } from "./state.ts";
import { answerLate, beginInTurn, noteWait, overdueTurn, readClock } from "./time.ts";

/*
 * The life of a call, in order. Recording is no stage: it happens once, whichever way the call ends.
 *
 * A stage reads and fills the frame, and throws to refuse the call. It returns a promise only when it really has to wait;
 * the value of the promise becomes the frame's `output` for the next stage. So a call that waits for nothing but its tool
 * costs one turn of the microtask queue. The stages are called by name, because a loop over a list of them takes 70 ns
 * more: the engine cannot see which function it calls. Where a case is rare, it has a function of its own: V8 inlines
 * short functions only, which takes 90 ns off a call.
 */

function consent(frame: CallFrame): void {
  permit(frame);
  if (frame.sessionID !== "") guard(frame);
  const waiting = approve(frame);
  if (waiting !== undefined) goOnAfter(frame, waiting, execute);
  else if (!frame.ended) execute(frame);
}

function execute(frame: CallFrame): void {
  if (frame.mock !== undefined) mock(frame, frame.mock);
  const { dispatcher } = frame.host;
  if (dispatcher !== undefined && frame.answer === undefined && frame.admitted === undefined) {
    const lane = dispatcher.laneOf(frame.tool.info);
    if (lane !== undefined) {
      goOnAfter(frame, dispatcher.dispatch(frame, lane), adopt);
      return;
    }
  }
  const waiting = run(frame);
  if (waiting !== undefined) goOnAfter(frame, waiting, examine);
  else if (!frame.ended) examine(frame);
}

function examine(frame: CallFrame): void {
  const waiting = check(frame);
  if (waiting !== undefined) goOnAfter(frame, waiting, conclude);
  else if (!frame.ended) conclude(frame);
}

/** Ends a call as the process that performed it says. That process has checked, masked, cut and recorded the result. */
function adopt(frame: CallFrame): void {
  // `goOn` keeps what the dispatcher resolved with.
  const { result, error, flags } = frame.output as PerformedCall;
  frame.output = undefined;
  if (flags !== undefined) Object.assign(frame.flag(), flags);
  // Of a short call it is not told when it began.
  if (frame.startedAt === 0) frame.startedAt = frame.dispatchedAt;
  if (error !== undefined) frame.error = revivedError(error);
  frame.result = result;
  end(frame, error === undefined ? "completed" : "error");
}

/** Goes on with the next stages when the stage is done, unless the call has ended meanwhile. */
function goOnAfter(frame: CallFrame, waiting: Promise<unknown>, next: (frame: CallFrame) => void): void {
  frame.waited = true;
  waiting.then(
    (output) => {
      if (frame.ended) return;
      frame.output = output;
      try {
        next(frame);
      } catch (thrown) {
        fail(frame, thrown);
      }
    },
    (thrown: unknown) => fail(frame, thrown),
  );
}

/** Runs a call to its end. The promise never rejects: a failure is a result of type `error`. */
export function startCall(frame: CallFrame): Promise<ToolResult> {
  starting = frame;
  return new Promise(start);
}

/** The call for which `startCall` has just made a promise: a closure for each would be 100 B more to collect. */
let starting: CallFrame;

function start(settle: (result: ToolResult) => void): void {
  const frame = starting;
  frame.resolve = settle;
  // A call whose caller chose its id begins at once, or another call could take the id meanwhile.
  if (frame.parent === undefined || frame.options.callId !== undefined) begin(frame);
  else beginInTurn(() => begin(frame), frame.createdAt);
}

function begin(frame: CallFrame): void {
  const { options, parent } = frame;
  try {
    if (typeof frame.raw === "string") readArguments(frame);
    frame.host.history.started(frame);
    const isPlain = parent === undefined && options.callId === undefined && options.signal === undefined;
    if (isPlain || mayBegin(frame)) stateChanged(frame);
    if (frame.ended) return;
    if (frame.admitted !== undefined) {
      execute(frame);
      return;
    }
    resolve(frame);
    reach(frame);
    const waiting = validate(frame);
    if (waiting !== undefined) goOnAfter(frame, waiting, consent);
    else if (!frame.ended) consent(frame);
  } catch (thrown) {
    fail(frame, thrown);
  }
}

/** What the caller chose for the call: its id, the call that it belongs to, a signal. Returns false when the call has ended. */
function mayBegin(frame: CallFrame): boolean {
  const { options, parent } = frame;
  if (parent !== undefined && !parent.ended) {
    parent.children ??= new Set();
    parent.children.add(frame);
  }
  if (options.callId !== undefined && options.callId !== frame.callId)
    throw frame.refusal(InvalidArgumentError, duplicateCallId(options.callId));
  if (parent !== undefined) {
    const now = readClock();
    if (now >= parent.deadline) expireOverdue(parent, now);
    if (parent.ended) {
      answerLate(frame);
      cancelCall(frame, `"${parent.shownName}", which makes it, has already ended`);
      return false;
    }
  }
  if (options.signal !== undefined) listen(frame, options.signal);
  return !frame.ended;
}

/**
 * Aborts the call's signal, then ends the call and its children at once, whether the tool heeds the signal or
 * not.
 */
export function abortCall(frame: CallFrame, reason: ToolError): void {
  if (frame.ended) return;
  const isRepeated = frame.abortReason !== undefined && frame.handed !== undefined;
  if (isRepeated) return;
  frame.abortReason = reason;
  frame.controller?.abort(reason);
  if (frame.handed?.onAbort !== undefined) {
    // The process that performs the call ends it and records how, which is soon told here.
    frame.handed.onAbort(reason);
    return;
  }
  const { onAbort } = frame;
  if (onAbort !== undefined) quietly(() => onAbort(reason), frame);
  fail(frame, reason);
}

export function cancelCall(frame: CallFrame, reason?: string): void {
  const data = reason === undefined ? undefined : { reason };
  abortCall(frame, frame.refusal(ToolCancelledError, cancelled(frame.shownName, reason), { data }));
}

export function expireCall(frame: CallFrame, kind: "total" | "idle"): void {
  const { shownName } = frame;
  const startedAt = frame.startedAt || frame.dispatchedAt;
  const elapsed = Math.round(readClock() - startedAt);
  // Computed from the deadline, because the limit may be that of a call above.
  const limit = kind === "idle" ? frame.idleLimit : Math.round(frame.deadline - startedAt);
  const message = frame.waitsForTurn
    ? neverBegun(shownName, limit, frame.handed && frame.title)
    : timedOut(shownName, kind, limit);
  abortCall(frame, frame.refusal(ToolTimeoutError, message, { data: { kind, limit, elapsed } }));
}

/**
 * Ends a call whose time is over, and those above it whose time is over too. The timer does so as well, but not while
 * calls follow each other without a turn of the event loop.
 */
function expireOverdue(frame: CallFrame, now: number): void {
  let overdue: CallFrame | undefined;
  for (let at: CallFrame | undefined = frame; at !== undefined; at = at.parent)
    if (at.deadline <= now && at.asking === 0) overdue = at;
  if (overdue !== undefined) expireCall(overdue, "total");
}

function listen(frame: CallFrame, signal: AbortSignal): void {
  // A caller in plain JavaScript may hand over anything; what cannot be listened to cannot cancel.
  if (typeof signal?.addEventListener !== "function") return;
  const onAbort = () => cancelCall(frame, reasonText(signal.reason));
  if (signal.aborted) onAbort();
  else {
    signal.addEventListener("abort", onAbort, { once: true });
    frame.onCallerAbort = onAbort;
  }
}

function conclude(frame: CallFrame): void {
  mask(frame);
  bound(frame);
  if (frame.ended) return;
  const draft = frame.draft;
  if (draft === undefined) throw frame.refusal(ToolExecutionError, "The call ended without a result.");
  frame.result =
    draft.title === undefined && draft.structuredText === undefined ? draft : withoutAsides(draft);
  end(frame, "completed");
}

function withoutAsides({ title: _, structuredText: __, ...result }: RawResult): ToolResult {
  return result;
}

function fail(frame: CallFrame, thrown: unknown): void {
  if (frame.ended) return;
  const error = errorFor(frame, thrown);
  const returned = frame.draft?.type === "error" ? frame.draft : undefined;
  frame.error = error;
  frame.draft = { ...returned, content: returned?.content || error.message, type: "error" };
  quietly(mask, frame);
  quietly(bound, frame);
  const { structuredText: _, ...draft } = frame.draft;
  const response = error.toResponse();
  // A calling tool gets the error unmasked; any other caller gets it with known secrets masked.
  const told = !frame.isNested ? frame.host.settings.secrets().inError(response) : response;
  frame.result = { ...draft, type: "error", error: told };
  end(frame, "error");
}

/**
 * The call that each error ended. A tool may throw the same object twice, and may pass on the error of a
 * child.
 */
const owners = new WeakMap<ToolError, CallFrame>();

function errorFor(frame: CallFrame, thrown: unknown): ToolError {
  const { toolName, given } = frame;
  const owner = isToolError(thrown) ? owners.get(thrown) : undefined;
  let error: ToolError;
  if (!isToolError(thrown) || owner === undefined) error = toToolError(thrown, toolName, given);
  else if (owner.parent !== frame) error = copyFor(thrown, toolName, given);
  else error = childFailure(thrown, toolName, given, [owner.shownName, frame.shownName]);
  owners.set(error, frame);
  return error;
}

/** Ends and records a call, exactly once. Nothing in here may keep the caller from its result. */
function end(frame: CallFrame, status: "completed" | "error"): void {
  const { host } = frame;
  const now = readClock();
  frame.endedAt = now;
  if (frame.onCallerAbort !== undefined || frame.parent !== undefined) letGo(frame);
  // The call ended while it waited for a person, so the wait is counted up to now.
  if (frame.asking > 0) noteWait(frame, now);
  else if (now > frame.deadline && status === "completed")
    frame.flag().overran = { limit: Math.round(frame.deadline - frame.startedAt) };
  // The process that performed a call has explained its result already.
  if (frame.flags !== undefined && frame.dispatchedAt === 0) quietly(explain, frame);
  if (frame.sessionID !== "") host.sessions.observe(frame);
  frame.status = status;
  frame.ended = true;
  frame.draft = undefined;
  host.history.ended(frame);
  host.deadlines.release(now);
  const result = frame.result!;
  try {
    if (host.events.wanted || frame.options.metadata !== undefined) tellEnd(frame, result);
  } catch {
    // The call has its result already; a failed report must not change it.
  }
  try {
    shrink(frame);
  } catch {
    // A call that cannot be shrunk stays in the history as it is.
  }
  const turn = overdueTurn(now);
  if (turn === undefined) frame.resolve(result);
  else turn.then(() => frame.resolve(result));
  if (frame.children !== undefined) cancelChildren(frame, frame.children);
}

/** Frees an ended call from its caller's signal and from the call that made it. */
function letGo(frame: CallFrame): void {
  const { onCallerAbort, options, parent } = frame;
  parent?.children?.delete(frame);
  if (onCallerAbort === undefined) return;
  try {
    options.signal?.removeEventListener("abort", onCallerAbort);
  } catch {
    // The caller's signal may be any object, so its methods may throw.
  }
}

/** A child never outlives its parent. */
function cancelChildren(frame: CallFrame, children: ReadonlySet<CallFrame>): void {
  for (const child of [...children]) cancelCall(child, `"${frame.shownName}", which called it, has ended`);
}

function tellEnd(frame: CallFrame, result: ToolResult): void {
  const { error, host } = frame;
  stateChanged(frame);
  if (!host.events.wanted) return;
  const input = shownInput(frame);
  const secrets = error === undefined ? input.found : ownSecrets(frame, error, input.found);
  const record = recordOf(frame, input, secrets);
  let shown = result;
  if (frame.isNested) {
    // The calling tool got the structured value whole. The record leaves it out: the kept text has it as
    // JSON.
    const { structured: _, ...rest } = result;
    const all = host.settings.secrets().and(secrets);
    const part = frame.flags?.truncated ? rest : result;
    const long = frame.kept && keptTexts(frame);
    shown =
      long === undefined
        ? all.inResult(part, isCleanOf(frame, all) ? "text" : undefined)
        : all.inResult({ ...part, content: long.content }, "text");
  } else if (secrets.size > 0) {
    // The caller may read the secrets of its own arguments; whoever reads the record may not.
    shown = Mask.none.and(secrets).inResult(result);
  }
  host.events.emit({ type: "record", record, result: shown, ...(error && { error }) });
}

/** Runs a function that only reports on a call, and ignores its errors: they must not keep the caller from its result. */
function quietly(report: (frame: CallFrame) => void, frame: CallFrame): void {
  try {
    report(frame);
  } catch {
    // The call has its result already; a failed report must not change it.
  }
}

/**
 * Adds notes to the result about what the pipeline did to the call, such as that a person edited the
 * arguments.
 */
function explain(frame: CallFrame): void {
  const { flags, result } = frame;
  if (flags === undefined || result === undefined) return;
  const notes: Record<string, unknown> = {};
  const { input } = shownInput(frame);
  if (flags.edited) notes.editedArguments = input;
  for (const flag of ["repaired", "dropped", "outputMismatch", "overran"] as const)
    if (flags[flag]) notes[flag] = flags[flag];
  if (Object.keys(notes).length === 0) return;
  const said = flags.edited
    ? `\n\n(A person changed the arguments before it ran: ${JSON.stringify(clip(input))})`
    : "";
  const type = said !== "" && result.type === "json" ? "text" : result.type;
  const metadata = { ...result.metadata, ...notes };
  frame.result = { ...result, type, content: result.content + said, metadata };
}

function reasonText(reason: unknown): string | undefined {
  if (isToolError(reason)) return reason.message;
  if (typeof reason === "string") return reason;
  if (reason instanceof Error && reason.name !== "AbortError") return reason.message;
  return undefined;
}
