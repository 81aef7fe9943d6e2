import { assessFinished, assessNext } from "../loop/detect-doom-loop.ts";
import { isInfrastructureFailure } from "../loop/likeness.ts";
import { loopMessage } from "../loop/loop-messages.ts";
import {
  clearForNewMessage,
  emptyLoopState,
  recordCall,
  recordStop,
  resultKeys,
  rollback,
  sessionKey,
  sessionOfKey,
  showsBeyondText,
} from "../loop/loop-state.ts";

import type { LoopCandidate, LoopRecord, LoopState, LoopVerdict } from "../loop/types.ts";
import { hashValue } from "../schema/hash.ts";
import type { RawResult } from "../tool/result.ts";
import type { CallFrame } from "./frame.ts";
import { toEpoch } from "./time.ts";

/** Sessions end without saying so; the one that was quiet longest makes room. */
const MOST_SESSIONS = 10_000;

/**
 * Loop detection, session by session. Only calls that a model makes are watched: what a tool calls, it calls by
 * program. Nothing in here may make a call fail, so everything is guarded.
 */
export class LoopSessions {
  readonly #enabled: boolean;
  readonly #states = new Map<string, LoopState>();
  /** The last of the map, while it is in it. */
  #latest: string | undefined;

  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  watches(frame: CallFrame): boolean {
    return this.#enabled && frame.sessionID !== "" && isWatchable(frame);
  }

  /** Whether the call may run. */
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

  /** Takes note of a call that ended, and says so in its result when the session repeats itself. */
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
          verdict: frame.host.settings.secrets().apply(verdict),
        });
    } catch {
      // A detector that fails must not become the cause of a failure.
    }
  }

  get(sessionID: string): LoopState {
    return this.#states.get(sessionID) ?? emptyLoopState();
  }

  /** Takes up a session that was stored. */
  restore(sessionID: string, state: LoopState): void {
    this.#remember(sessionID, state);
  }

  newMessage(sessionID: string): void {
    const state = this.#states.get(sessionID);
    if (state !== undefined) this.#states.set(sessionID, clearForNewMessage(state));
  }

  rollback(sessionID: string, callIds: readonly string[]): void {
    const state = this.#states.get(sessionID);
    if (state !== undefined) this.#states.set(sessionID, rollback(state, callIds));
  }

  clear(sessionID?: string): void {
    if (sessionID === undefined) this.#states.clear();
    else for (const key of this.#states.keys()) if (sessionOfKey(key) === sessionID) this.#states.delete(key);
  }

  #remember(sessionID: string, state: LoopState): void {
    // Taken out and put back, a session is the last of the map, and the one quiet longest is the first.
    if (sessionID !== this.#latest) this.#states.delete(sessionID);
    this.#states.set(sessionID, state);
    this.#latest = sessionID;
    if (this.#states.size <= MOST_SESSIONS) return;
    const quietest = this.#states.keys().next().value;
    if (quietest !== undefined) this.#states.delete(quietest);
  }
}

function keyOf({ sessionID, options }: CallFrame): string {
  return sessionKey(sessionID, options.sessionCaller);
}

/**
 * Takes the keys of a result as long as all of it is there: later it is cut, explained, or let go of. What will
 * stay as it is waits until somebody asks.
 */
export function keepResultKeys(frame: CallFrame, draft: RawResult, stays: boolean): void {
  if (stays && !frame.flags?.edited && !showsBeyondText(draft)) return;
  try {
    frame.resultKeys = resultKeys(draft, Date.now());
  } catch {
    // A detector that fails must not become the cause of a failure.
  }
}

const severity = { none: 0, nudge: 1, block: 2, stop: 3 };

/**
 * What detection would say of calls that already happened, in their order. Every session is judged by itself,
 * as are the calls without one; the answer is the strongest of these verdicts, of equal ones the latest.
 */
export function assessHistory(frames: readonly CallFrame[]): LoopVerdict {
  const sessions = new Map<string, CallFrame[]>();
  for (const frame of frames) {
    if (!isWatchable(frame)) continue;
    const calls = sessions.get(frame.sessionID) ?? [];
    calls.push(frame);
    // Taken out and put back, the session of the latest call is the last of the map.
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

/** What a tool calls, it calls by program, and a tool may declare that it is never part of a loop. */
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
  return {
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    readOnly: frame.entry?.info.metadata.readOnly === true,
    poll: isPoll(frame),
    round: roundOf(frame),
    at: toEpoch(frame.waited ? performance.now() : frame.createdAt),
    args: frame.input,
  };
}

function loopRecordOf(frame: CallFrame): LoopRecord {
  const { error, result } = frame;
  const content = result?.content ?? "";
  const at = toEpoch(frame.endedAt);
  // Kept with the call: what is appended to its text later is not part of what the tool said.
  frame.resultKeys ??= resultKeys(result ?? { content, type: "text" }, at);
  return {
    callId: frame.callId,
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    resultKey: frame.resultKeys.resultKey,
    exactKey: frame.resultKeys.exactKey,
    resultLength: content.length,
    isError: error !== undefined,
    errorCode: error?.code,
    infrastructure: error !== undefined && isInfrastructureFailure(error.cause),
    readOnly: frame.entry?.info.metadata.readOnly === true,
    executed: frame.startedAt > 0,
    poll: isPoll(frame),
    round: roundOf(frame),
    startedAt: toEpoch(frame.startedAt || frame.createdAt),
    at,
  };
}

/** Two calls are the same when their arguments are, or what the tool declared to matter of them. */
function argsKeyOf(frame: CallFrame): string {
  // What the guard saw is not what ran when a person changed it in between.
  if (frame.argsKey !== undefined && !frame.flags?.edited) return frame.argsKey;
  const loop = frame.entry?.info.metadata.loop;
  const key = loop === false || loop === undefined ? undefined : loop.key;
  const validated = frame.startedAt > 0 || frame.error === undefined;
  const args = validated ? frame.input : frame.raw;
  // Of large arguments only a part is kept, and the fingerprint of all.
  frame.argsKey =
    key === undefined ? (frame.parametersHash ?? hashValue(args)) : hashValue(keyed(key, frame.input));
  return frame.argsKey;
}

type LoopKey = readonly string[] | ((input: Record<string, unknown>) => unknown);

function keyed(key: LoopKey, input: Record<string, unknown>): unknown {
  return typeof key === "function" ? key(input) : key.map((name) => input[name]);
}

function isPoll(frame: CallFrame): boolean {
  const loop = frame.entry?.info.metadata.loop;
  return loop !== false && loop?.repeatable === "poll";
}

function roundOf(frame: CallFrame): string | undefined {
  return frame.options.messageID || undefined;
}

function nudge(frame: CallFrame, verdict: LoopVerdict): void {
  const result = frame.result!;
  const text = loopMessage(verdict);
  frame.result = {
    ...result,
    content: result.content === "" ? text : `${result.content}\n\n${text}`,
    ...(result.blocks === undefined ? {} : { blocks: [...result.blocks, { type: "text", text }] }),
    metadata: { ...result.metadata, loop: verdict },
  };
}
