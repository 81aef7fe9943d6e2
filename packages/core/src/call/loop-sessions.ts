import { assessFinished, assessNext } from "../loop/detect-doom-loop.ts";
import { loopMessage } from "../loop/loop-messages.ts";
import { emptyLoopState, readStored, recordCall, recordStop } from "../loop/loop-state.ts";
import { declaredKey, isInfrastructureFailure, isPoll } from "../loop/records.ts";
import { resultKeySteps, resultKeys, roughKeys, showsBeyondText } from "../loop/result-keys.ts";
import type { LoopCandidate, LoopRecord, LoopState, LoopVerdict } from "../loop/types.ts";
import { hashValue } from "../schema/hash.ts";
import type { RawResult } from "../tool/result.ts";
import type { CallFrame } from "./call-frame.ts";
import { readClock, toEpoch } from "./clock.ts";

/**
 * How many sessions are remembered. Nobody reports the end of a session, so the one without calls for the
 * longest time is forgotten.
 */
const MOST_SESSIONS = 10_000;

/**
 * Loop detection per session. Only calls of models are watched, not those of tools, which are programs.
 * Errors in detection are caught, so that it never fails a call.
 */
export class LoopSessions {
  readonly #enabled: boolean;
  readonly #states = new Map<string, LoopState>();
  #latest: string | undefined;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  watches(frame: CallFrame): boolean {
    return this.#enabled && frame.sessionID !== "" && isWatchable(frame);
  }

  /** The verdict on whether the call may run; undefined when detection fails. */
  assessNext(frame: CallFrame): LoopVerdict | undefined {
    try {
      const key = keyOf(frame);
      const state = this.get(key);
      const verdict = assessNext(state, candidateOf(frame));
      if (verdict.action === "stop") this.#states.set(key, recordStop(state, verdict));
      return verdict;
    } catch {
      return undefined;
    }
  }

  /** Records an ended call, and adds a notice to its result when the session repeats itself. */
  observe(frame: CallFrame): void {
    if (!this.watches(frame) || frame.result === undefined) return;
    try {
      const key = keyOf(frame);
      const state = recordCall(this.get(key), loopRecordOf(frame), frame.input);
      this.#remember(key, state);
      const blocked = frame.flags?.loop;
      const verdict = blocked ?? assessFinished(state, frame.callId);
      if (verdict.action === "none") return;
      if (verdict.action === "stop") this.#states.set(key, recordStop(state, verdict));
      frame.flag().loop = verdict;
      if (blocked === undefined) nudge(frame, verdict);
      const { events } = frame.host;
      if (events.wanted)
        events.emit({
          type: "loop",
          callId: frame.callId,
          sessionID: frame.sessionID,
          verdict: frame.host.settings.secrets().inMessage(verdict),
        });
    } catch {
      // A failing detector must not fail the call.
    }
  }

  get(sessionID: string): LoopState {
    return this.#states.get(sessionID) ?? emptyLoopState();
  }

  /** Restores a stored session. */
  restore(sessionID: string, state: LoopState): void {
    this.#remember(sessionID, readStored(state));
  }

  /** Changes the state of a known session. */
  change(sessionID: string, change: (state: LoopState) => LoopState): void {
    const state = this.#states.get(sessionID);
    if (state !== undefined) this.#states.set(sessionID, change(state));
  }

  clear(sessionID?: string): void {
    if (sessionID === undefined) this.#states.clear();
    else
      for (const key of this.#states.keys())
        if (key.split(OWNED_BY)[0] === sessionID) this.#states.delete(key);
  }

  #remember(sessionID: string, state: LoopState): void {
    // A session that is removed and added again becomes the last of the map, so the first one has made no
    // calls for the longest time.
    if (sessionID !== this.#latest) this.#states.delete(sessionID);
    this.#states.set(sessionID, state);
    this.#latest = sessionID;
    if (this.#states.size <= MOST_SESSIONS) return;
    const quietest = this.#states.keys().next().value;
    if (quietest !== undefined) this.#states.delete(quietest);
  }
}

/** Separates session and owner. No session name contains it. */
const OWNED_BY = "\u0000";

/** The key of a session: two owners may use the same name. */
export function sessionKey(sessionID: string, owner: string | undefined): string {
  return owner === undefined ? sessionID : sessionID + OWNED_BY + owner;
}

function keyOf({ sessionID, options }: CallFrame): string {
  return sessionKey(sessionID, options.sessionCaller);
}

/** In characters. Computing the keys of a larger result takes longer than everything else in its call. */
const LARGE = 1024 * 1024;

/**
 * Computes the keys of a result while it is whole: later it may be cut, dropped, or get a text appended. For
 * a result that stays unchanged, the keys are computed on first use. A large result of a call that no session watches
 * gets keys that are good enough for `detectDoomLoop`.
 */
export function keepResultKeys(frame: CallFrame, draft: RawResult, stays: boolean): void {
  if (frame.resultKeys !== undefined) return;
  if (stays && !frame.flags?.edited && !showsBeyondText(draft)) return;
  const size = Math.max(draft.content.length, draft.structuredSize ?? 0);
  const isRough = size > LARGE && !frame.host.sessions.watches(frame);
  try {
    frame.resultKeys = isRough ? roughKeys(draft, Date.now()) : resultKeys(draft, Date.now());
  } catch {
    // A failing detector must not fail the call.
  }
}

/** The keys of a long result whose calls a session watches, in steps of a few milliseconds. */
export function* resultKeyStepsOf(frame: CallFrame, draft: RawResult): Generator<void, void> {
  if (frame.parent !== undefined || !frame.host.sessions.watches(frame)) return;
  try {
    frame.resultKeys = yield* resultKeySteps(draft, Date.now());
  } catch {
    // A failing detector must not fail the call.
  }
}

const severity = { none: 0, nudge: 1, block: 2, stop: 3 };

/**
 * Judges past calls in their order, each session by itself, and the calls without a session together. Returns the
 * strongest verdict, of equal ones the latest.
 */
export function assessHistory(frames: readonly CallFrame[]): LoopVerdict {
  const sessions = new Map<string, CallFrame[]>();
  for (const frame of frames) {
    if (!isWatchable(frame)) continue;
    const calls = sessions.get(frame.sessionID) ?? [];
    calls.push(frame);
    // The session is removed and added again, so that the session of the latest call is the last of the map.
    sessions.delete(frame.sessionID);
    sessions.set(frame.sessionID, calls);
  }
  let strongest: LoopVerdict = { action: "none", count: 0 };
  for (const calls of sessions.values()) {
    const verdict = assessSession(calls);
    if (severity[verdict.action] >= severity[strongest.action]) strongest = verdict;
  }
  return strongest;
}

/** Whether loop detection watches the call: not if a tool made it, and not if the called tool opts out. */
function isWatchable(frame: CallFrame): boolean {
  return frame.parent === undefined && frame.entry?.info.metadata.loop !== false;
}

function assessSession(frames: readonly CallFrame[]): LoopVerdict {
  const last = frames.at(-1)!;
  let before = emptyLoopState();
  for (const frame of frames.slice(0, -1)) before = recordCall(before, loopRecordOf(frame), frame.input);
  const record = loopRecordOf(last);
  const held = assessNext(before, { ...candidateOf(last), at: record.startedAt ?? record.at });
  return held.action === "none" ? assessFinished(recordCall(before, record, last.input), last.callId) : held;
}

function candidateOf(frame: CallFrame): LoopCandidate {
  const metadata = frame.entry?.info.metadata;
  return {
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    readOnly: metadata?.readOnly === true,
    poll: isPoll(metadata),
    round: frame.options.messageID || undefined,
    at: toEpoch(frame.waited ? readClock() : frame.createdAt),
    args: frame.input,
  };
}

function loopRecordOf(frame: CallFrame): LoopRecord {
  const { error, result } = frame;
  const metadata = frame.entry?.info.metadata;
  const content = result?.content ?? "";
  const at = toEpoch(frame.endedAt);
  // Kept with the frame, because text that is appended later is not the tool's result.
  frame.resultKeys ??= resultKeys(result ?? { content, type: "text" }, at);
  const { resultKey, exactKey } = frame.resultKeys;
  // Written member by member: spreading two parts into it took 150 ns.
  return {
    callId: frame.callId,
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    resultKey,
    exactKey,
    resultLength: content.length,
    isError: error !== undefined,
    errorCode: error?.code,
    infrastructure: error !== undefined && isInfrastructureFailure(error.cause),
    executed: frame.startedAt > 0,
    readOnly: metadata?.readOnly === true,
    poll: isPoll(metadata),
    round: frame.options.messageID || undefined,
    startedAt: toEpoch(frame.startedAt || frame.createdAt),
    at,
  };
}

/**
 * A key that is equal for calls with equal arguments, or with equal values of the part that the tool declared
 * as its key.
 */
function argsKeyOf(frame: CallFrame): string {
  // A person may have edited the arguments after the key was taken.
  if (frame.argsKey !== undefined && !frame.flags?.edited) return frame.argsKey;
  const validated = frame.startedAt > 0 || frame.error === undefined;
  // Large arguments are clipped, but their hash is of the whole.
  frame.argsKey =
    declaredKey(frame.entry?.info.metadata, frame.input) ??
    frame.parametersHash ??
    hashValue(validated ? frame.input : frame.raw);
  return frame.argsKey;
}

function nudge(frame: CallFrame, verdict: LoopVerdict): void {
  const { content, blocks, metadata, ...rest } = frame.result!;
  const text = loopMessage(verdict);
  frame.result = {
    ...rest,
    type: rest.type === "json" ? "text" : rest.type,
    content: content === "" ? text : `${content}\n\n${text}`,
    ...(blocks && { blocks: [...blocks, { type: "text", text }] }),
    metadata: { ...metadata, loop: verdict },
  };
}
