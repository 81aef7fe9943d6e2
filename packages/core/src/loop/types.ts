/** A call that is about to run. */
export interface LoopCandidate {
  readonly tool: string;
  /** Hash of the canonical validated arguments (or of what the tool declared as its key). */
  readonly argsKey: string;
  readonly readOnly: boolean;
  /** The tool declared `loop.repeatable: "poll"`. */
  readonly poll?: boolean;
  /** The model turn that made the call; identical calls of one round count once. */
  readonly round?: string;
  /** Now, or when the call ended. Milliseconds since the epoch. */
  readonly at: number;
  /** Read only when near-identical arguments matter. */
  readonly args?: unknown;
}

/** A finished call as the pipeline reports it. Plain JSON. */
export interface LoopRecord extends Omit<LoopCandidate, "args"> {
  readonly callId: string;
  /** Hash of the whole result with timestamps, ids and the like masked, taken before it is shortened. */
  readonly resultKey: string;
  /** Hash to compare results of calls with different arguments. Default: `resultKey`. */
  readonly exactKey?: string;
  /** Length of the text. Repeating a long result means more than a second "ok". */
  readonly resultLength?: number;
  readonly isError: boolean;
  readonly errorCode?: string;
  /** The network or a service failed (429, 5xx, connection): not evidence of a loop. */
  readonly infrastructure?: boolean;
  /** False when the call was refused before the tool ran: unknown name, bad arguments, denied, blocked. */
  readonly executed: boolean;
  /** When the call started, if it took any time. Milliseconds since the epoch. */
  readonly startedAt?: number;
}

/** A call in the state, with what was known when it was recorded. Plain JSON. */
export interface LoopEntry
  extends Readonly<
    Pick<LoopRecord, "callId" | "tool" | "argsKey" | "readOnly" | "isError" | "executed" | "at">
  > {
  /** For a blocked call: the predicted result. */
  readonly resultKey: string;
  readonly exactKey: string;
  /** `markOf` the two keys. */
  readonly argsMark: number;
  readonly resultMark: number;
  readonly errorCode: string | undefined;
  /** Loop detection itself kept the call from running. */
  readonly blocked: boolean;
  /** Refused for another reason, or blocked because it would have been refused. */
  readonly refused: boolean;
  readonly poll: boolean;
  readonly round: string | undefined;
  /** The number of the call in its session, from 1. */
  readonly ordinal: number;
  /** The same call had not given this result since the last change by any call (`changedWorld`). */
  readonly isNew: boolean;
  /**
   * The call succeeded, was not read-only and had not given the same result before, so repeating a check
   * after it makes sense.
   */
  readonly changedWorld: boolean;
  /** The call is part of a wait, which may repeat four times as often. */
  readonly waiting: boolean;
  /** The arguments are nearly those of the entry before. Known only with `tokens`. */
  readonly similar: boolean;
  readonly tokens: readonly string[] | undefined;
}

/** What loop detection knows about a session. Plain JSON, bounded, immutable: it can be stored, resumed and shared. */
export interface LoopState {
  /** The last 24 calls that count, oldest first. */
  readonly entries: readonly LoopEntry[];
  /** How many calls the session has made. */
  readonly total: number;
  /** Set once the run was stopped. Only `emptyLoopState()` lifts it. */
  readonly stopped?: LoopVerdict;
}

export type LoopSignal =
  | "repeat"
  | "cycle"
  | "same_error"
  | "stagnation"
  | "drought"
  | "interleaved"
  | "refused";

/** The verdict of loop detection. Plain JSON. */
export interface LoopVerdict {
  readonly action: "none" | "nudge" | "block" | "stop";
  readonly signal?: LoopSignal;
  /** How often the loop was seen, this call included. */
  readonly count: number;
  /** Length of the cycle, 1 for everything that is not a cycle. */
  readonly period?: number;
  /** The same for the same loop. */
  readonly fingerprint?: string;
  /** One clause: what repeats, how often, since which call. `loopMessage` makes the text for the model. */
  readonly evidence?: string;
  /** The earlier call whose result still holds. */
  readonly previousCallId?: string;
}

/** The number of repetitions from which each action is taken. */
export interface LoopLadder {
  readonly nudge: number;
  readonly block: number;
  readonly stop: number;
}

/** A loop that one signal found. */
export interface LoopSighting {
  readonly signal: LoopSignal;
  readonly ladder: LoopLadder;
  /** How many repetitions there are, without weights. */
  readonly count: number;
  /** The weighted count: one quarter for a repetition while waiting, four quarters for any other. */
  readonly quarters: number;
  /**
   * In how many rounds the repetitions were made. Each round was a chance for the model to notice the loop.
   */
  readonly rounds: number;
  readonly period: number;
  /** Index of the first entry that belongs to the loop. */
  readonly since: number;
}

/**
 * A number of a key that is equal for equal keys. Every call is compared with the 24 before it, several times; comparing
 * numbers before the keys saves 290 ns of a call.
 */
export function markOf(key: string): number {
  return key.charCodeAt(0) ^ (key.charCodeAt(1) << 8) ^ (key.charCodeAt(2) << 16) ^ (key.charCodeAt(3) << 24);
}

/** `mark`: that of the call's arguments. */
export function isSameCall(
  entry: LoopEntry,
  { tool, argsKey }: Pick<LoopCandidate, "tool" | "argsKey">,
  mark: number,
): boolean {
  return entry.argsMark === mark && entry.argsKey === argsKey && entry.tool === tool;
}

export function isSameOutcome(one: LoopEntry, other: LoopEntry): boolean {
  return (
    one.argsMark === other.argsMark &&
    one.resultMark === other.resultMark &&
    one.argsKey === other.argsKey &&
    one.resultKey === other.resultKey &&
    one.tool === other.tool
  );
}

/** A round is one decision of the model. A call without a round is a decision of its own. */
export function isSameRound(one: { readonly round?: string }, other: { readonly round?: string }): boolean {
  return one.round !== undefined && one.round === other.round;
}
