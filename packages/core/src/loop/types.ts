import { type ArgumentsKey, isSameKey, textOf } from "./arguments.ts";

/** A call that is about to run. */
export interface LoopCandidate {
  readonly tool: string;
  /** Of the canonical validated arguments, or of what the tool declared as its key. */
  readonly argsKey: string | ArgumentsKey;
  /** The tool says that it only reads. */
  readonly readOnly: boolean;
  /** The tool says that it changes something, so its name does not count. */
  readonly changes?: boolean;
  /** The tool declared `loop.repeatable: "poll"`. */
  readonly poll?: boolean;
  /** The model turn that made the call; identical calls of one round count once. */
  readonly round?: string;
  /** Read where they tell what a call does, and to see whether two calls are nearly the same. */
  readonly args?: unknown;
}

/** A finished call as the pipeline reports it. */
export interface LoopRecord extends Omit<LoopCandidate, "args"> {
  readonly callId: string;
  /** Hash of the whole result with timestamps, ids and the like masked, taken before it is shortened. */
  readonly resultKey: number;
  /** Hash to compare results of calls with different arguments. Default: `resultKey`. */
  readonly exactKey?: number;
  /** The text of the result reads like an error. */
  readonly saysError?: boolean;
  /** A short answer that many questions can have, such as "healthy". */
  readonly isShort?: boolean;
  /** Length of the text. Repeating a long result means more than a second "ok". */
  readonly resultLength?: number;
  readonly isError: boolean;
  readonly errorCode?: string;
  /** The network or a service failed (429, 5xx, connection): not evidence of a loop. */
  readonly infrastructure?: boolean;
  /** False when the call was refused before the tool ran: unknown name, bad arguments, denied, blocked. */
  readonly executed: boolean;
  /** When the tool began, if it took any time, and when it ended. Milliseconds. */
  readonly startedAt?: number;
  readonly at: number;
}

/** What was inferred, because the tool did not say it. */
export type Inferred = "readOnly" | "error";

/** A call in the state, with what was known when it was recorded. */
export interface LoopEntry
  extends Readonly<Pick<LoopRecord, "callId" | "tool" | "argsKey" | "readOnly" | "isError" | "executed">> {
  /** For a blocked call: the predicted result. */
  readonly resultKey: number;
  readonly exactKey: number;
  readonly errorCode: string | undefined;
  /** That the call only reads, or that it failed, was inferred. */
  readonly inferred: Inferred | undefined;
  /** Loop detection itself kept the call from running. */
  readonly blocked: boolean;
  /** Refused for another reason, or blocked because it would have been refused. */
  readonly refused: boolean;
  readonly poll: boolean;
  readonly round: string | undefined;
  /** The number of the call in its session, from 1. */
  readonly ordinal: number;
  /** Milliseconds that the session had spent inside tools when the call ended, and those of the call itself. */
  readonly busy: number;
  readonly took: number;
  /** The same call had not given this result since the last change by any call (`changedWorld`). */
  readonly isNew: boolean;
  /** The tool gave this answer before, to whatever arguments, since the last change. */
  readonly isKnown: boolean;
  /** The same call gave the same result of some length before: so the tool probably only reads. */
  readonly isStable: boolean;
  /**
   * The call succeeded, was not read-only and had not given the same result before, so repeating a check
   * after it makes sense.
   */
  readonly changedWorld: boolean;
  /** The call is part of a wait, which may repeat four times as often. */
  readonly waiting: boolean;
  /** A short answer that many questions can have: given to other arguments it tells something new. */
  readonly isShort: boolean;
  /** The call failed, or its answer reads like an error. */
  readonly isComplaint: boolean;
  /** The call before got the same answer to arguments that differ only in their numbers: one of a row is asked for after the other. */
  readonly isNext: boolean;
  /** A step such as a key that was pressed, shortly acknowledged: the same call again goes one further. */
  readonly isStep: boolean;
  /** It showed at length what another tool had shown: so it changed nothing that can be seen. */
  readonly isShown: boolean;
  /** The arguments are nearly those of the entry before. Known only with `tokens`. */
  readonly similar: boolean;
  readonly tokens: readonly number[] | undefined;
}

/** What loop detection knows about a session. JSON can hold it, and it is bounded: it can be stored, resumed and shared. */
export interface LoopState {
  /** The last 24 calls that count, oldest first. */
  readonly entries: readonly LoopEntry[];
  /** How many calls the session has made. */
  readonly total: number;
  /** Milliseconds that the session has spent inside tools, and when the last of them ended. */
  readonly busy?: number;
  readonly busyUntil?: number;
  /** Marks of the answers since the last change, also of calls that are no longer among the entries. */
  readonly answers?: readonly number[];
  /** Set once the run was stopped. Only `emptyLoopState()` lifts it. */
  readonly stopped?: LoopVerdict;
}

export type LoopSignal =
  | "repeat"
  | "cycle"
  | "same_error"
  | "stagnation"
  | "drought"
  | "known_answers"
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
  /** What the verdict rests on that no tool has said: that calls only read, or that they failed. */
  readonly inferred?: readonly Inferred[];
  /** The calls that count, oldest first, without the judged one if it has not run. */
  readonly calls?: readonly string[];
  /** One sentence: what would clear it. */
  readonly clears?: string;
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
  /** The weighted count: four quarters for a repetition, less for one while waiting or by inference. */
  readonly quarters: number;
  /**
   * In how many rounds the repetitions were made. Each round was a chance for the model to notice the loop.
   */
  readonly rounds: number;
  readonly period: number;
  /** Indexes of the entries that count, the newest first. */
  readonly indexes: readonly number[];
}

export function isSameOutcome(one: LoopEntry, other: LoopEntry): boolean {
  return (
    one.resultKey === other.resultKey && one.tool === other.tool && isSameKey(one.argsKey, other.argsKey)
  );
}

/** A text that is the same for the same call with the same result. */
export function outcomeKey({ tool, argsKey, resultKey }: LoopEntry): string {
  return `${tool} ${textOf(argsKey)} ${resultKey}`;
}

/** A round is one decision of the model. A call without a round is a decision of its own. */
export function isSameRound(one: { readonly round?: string }, other: { readonly round?: string }): boolean {
  return one.round !== undefined && one.round === other.round;
}
