import { ArgumentsKey } from "../loop/arguments.ts";
import { actions, assessFinished, assessLast, assessNext } from "../loop/detect-doom-loop.ts";
import { EntryIndex } from "../loop/entry-index.ts";
import { loopMessage } from "../loop/loop-messages.ts";
import { emptyLoopState, type LoopMemory, memoryOf, recordCall, recordInto } from "../loop/loop-state.ts";
import { declaredKey, isInfrastructureFailure, isPoll, saysBusy } from "../loop/records.ts";
import { resultKeys, showsBeyondText } from "../loop/result-keys.ts";
import type { LoopCandidate, LoopRecord, LoopState, LoopVerdict } from "../loop/types.ts";
import type { RawResult } from "../tool/result.ts";
import type { CallFrame } from "./call-frame.ts";
import { toEpoch } from "./time.ts";

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
  readonly #memories = new Map<string, LoopMemory>();
  #latest: { readonly key: string; readonly memory: LoopMemory } | undefined;
  constructor(enabled: boolean) {
    this.#enabled = enabled;
  }

  watches(frame: CallFrame): boolean {
    return this.#enabled && frame.sessionID !== "" && isWatchable(frame);
  }

  /** The verdict on whether the call may run; undefined when detection fails. */
  assessNext(frame: CallFrame): LoopVerdict | undefined {
    try {
      const memory = this.#find(keyOf(frame));
      if (memory === undefined) return undefined;
      const verdict = assessNext(memory, candidateOf(frame));
      if (verdict.action === "stop") memory.stopped = verdict;
      return verdict;
    } catch {
      return undefined;
    }
  }

  /** Records an ended call, and adds a notice to its result when the session repeats itself. */
  observe(frame: CallFrame): void {
    if (!this.watches(frame) || frame.result === undefined) return;
    try {
      const memory = this.#open(keyOf(frame));
      const entry = recordInto(memory, loopRecordOf(frame), frame.input);
      if (this.#memories.size > MOST_LAZY && entry?.argsKey instanceof ArgumentsKey) entry.argsKey.settle();
      // The history reads a key rarely and makes another one, so that it does not hold on to arguments.
      frame.argsKey = undefined;
      const blocked = frame.flags?.loop;
      const verdict = blocked ?? (entry && assessLast(memory));
      if (verdict === undefined || verdict.action === "none") return;
      if (verdict.action === "stop") memory.stopped = verdict;
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

  get(key: string): LoopState {
    const memory = this.#memories.get(key);
    return memory === undefined ? emptyLoopState() : memoryOf(memory);
  }

  /** Restores a stored session. */
  restore(key: string, state: LoopState): void {
    const memory = this.#open(key);
    Object.assign(memory, { stopped: undefined }, memoryOf(state));
    memory.index = new EntryIndex(memory.entries);
  }

  /** Changes the state of the sessions of this name, whoever owns them. */
  change(sessionID: string, change: (state: LoopState) => LoopState): void {
    for (const key of this.#keysOf(sessionID)) this.restore(key, change(this.get(key)));
  }

  clear(sessionID?: string): void {
    this.#latest = undefined;
    if (sessionID === undefined) this.#memories.clear();
    else for (const key of this.#keysOf(sessionID)) this.#memories.delete(key);
  }

  #keysOf(sessionID: string): string[] {
    return [...this.#memories.keys()].filter((key) => key.split(OWNED_BY)[0] === sessionID);
  }

  #find(key: string): LoopMemory | undefined {
    return this.#latest?.key === key ? this.#latest.memory : this.#memories.get(key);
  }

  #open(key: string): LoopMemory {
    if (this.#latest?.key === key) return this.#latest.memory;
    const memory = this.#memories.get(key) ?? { ...memoryOf(emptyLoopState()), index: new EntryIndex([]) };
    // A session that is removed and added again becomes the last of the map, so the first one has made no
    // calls for the longest time.
    this.#memories.delete(key);
    this.#memories.set(key, memory);
    this.#latest = { key, memory };
    if (this.#memories.size > MOST_SESSIONS) {
      const quietest = this.#memories.keys().next().value;
      if (quietest !== undefined) this.#memories.delete(quietest);
    }
    return memory;
  }
}

/** With more sessions than these, the arguments of none are held on to. */
const MOST_LAZY = 256;

/** Separates session and owner. No session name contains it. */
const OWNED_BY = "\u0000";

/** The key of a session: two owners may use the same name. */
export function sessionKey(sessionID: string, owner: string | undefined): string {
  return owner === undefined ? sessionID : sessionID + OWNED_BY + owner;
}

function keyOf({ sessionID, options }: CallFrame): string {
  return sessionKey(sessionID, options.sessionCaller);
}

/**
 * Computes the keys of a result while it is whole: later it may be cut, dropped, or get a text appended. For
 * a result that stays unchanged, the keys are computed on first use.
 */
export function keepResultKeys(frame: CallFrame, draft: RawResult, stays: boolean): void {
  if (frame.resultKeys !== undefined) return;
  if (stays && !frame.flags?.edited && !showsBeyondText(draft)) return;
  try {
    frame.resultKeys = resultKeys(draft, Date.now(), frame.input, frame.entry?.info);
  } catch {
    // A failing detector must not fail the call.
  }
}

/**
 * Judges past calls in their order, each session by itself, and the calls without a session together. Returns the
 * strongest verdict, of equal ones the latest.
 */
export function assessHistory(frames: readonly CallFrame[]): LoopVerdict {
  const newestFirst = frames.filter(isWatchable).reverse();
  let strongest: LoopVerdict = { action: "none", count: 0 };
  for (const calls of Map.groupBy(newestFirst, ({ sessionID }) => sessionID).values()) {
    const verdict = assessSession(calls.reverse());
    if (actions.indexOf(verdict.action) > actions.indexOf(strongest.action)) strongest = verdict;
  }
  return strongest;
}

/** Whether loop detection watches the call: not if a tool made it, and not if the called tool opts out. */
function isWatchable(frame: CallFrame): boolean {
  return !frame.isNested && frame.entry?.info.metadata.loop !== false;
}

function assessSession(frames: readonly CallFrame[]): LoopVerdict {
  const last = frames.at(-1)!;
  let before = emptyLoopState();
  for (const frame of frames.slice(0, -1)) before = recordCall(before, loopRecordOf(frame), frame.input);
  const record = loopRecordOf(last);
  const held = assessNext(before, candidateOf(last));
  return held.action === "none" ? assessFinished(recordCall(before, record, last.input), last.callId) : held;
}

function candidateOf(frame: CallFrame): LoopCandidate {
  const metadata = frame.entry?.info.metadata;
  return {
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    readOnly: metadata?.readOnly === true,
    changes: metadata?.readOnly === false,
    poll: isPoll(metadata),
    round: frame.options.messageID || undefined,
    args: frame.input,
  };
}

function loopRecordOf(frame: CallFrame): LoopRecord {
  const { error, result } = frame;
  const metadata = frame.entry?.info.metadata;
  const content = result?.content ?? "";
  const at = toEpoch(frame.endedAt);
  // Kept with the frame, because text that is appended later is not the tool's result.
  frame.resultKeys ??= resultKeys(result ?? { content, type: "text" }, at, frame.input, frame.entry?.info);
  const { resultKey, exactKey, saysError, isShort } = frame.resultKeys;
  // Written member by member: spreading two parts into it took 150 ns.
  return {
    callId: frame.callId,
    tool: frame.toolName,
    argsKey: argsKeyOf(frame),
    resultKey,
    exactKey,
    saysError,
    isShort,
    resultLength: content.length,
    isError: error !== undefined,
    errorCode: error?.code,
    infrastructure:
      (error !== undefined && isInfrastructureFailure(error.cause)) ||
      ((error !== undefined || saysError) && saysBusy(content)),
    executed: frame.startedAt > 0,
    readOnly: metadata?.readOnly === true,
    changes: metadata?.readOnly === false,
    poll: isPoll(metadata),
    round: frame.options.messageID || undefined,
    // The time in which a person was waited for is not the tool's.
    startedAt: toEpoch((frame.startedAt || frame.endedAt) + frame.waitedInRun),
    at,
  };
}

/**
 * A key that is equal for calls with equal arguments, or with equal values of the part that the tool declared
 * as its key.
 */
function argsKeyOf(frame: CallFrame): string | ArgumentsKey {
  // A person may have edited the arguments after the key was taken.
  if (frame.argsKey !== undefined && !frame.flags?.edited) return frame.argsKey;
  const validated = frame.startedAt > 0 || frame.error === undefined;
  // Large arguments are clipped, but their hash is of the whole.
  frame.argsKey =
    declaredKey(frame.entry?.info.metadata, frame.input) ??
    frame.parametersHash ??
    new ArgumentsKey(validated ? frame.input : frame.raw);
  // Large arguments are not held on to, and those of a refused call belong to the caller.
  if (typeof frame.argsKey !== "string" && (frame.isLarge || !validated)) frame.argsKey = frame.argsKey.text;
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
