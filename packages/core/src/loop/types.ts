/** What the pipeline reports of one finished call. Plain JSON. */
export interface LoopRecord {
  readonly callId: string;
  readonly tool: string;
  /** Hash of the canonical validated arguments (or of what the tool declared as its key). */
  readonly argsKey: string;
  /** Hash of the whole result with timestamps, ids and the like masked, taken before it is shortened. */
  readonly resultKey: string;
  /** Hash by which results of calls with different arguments are compared; `resultKey` unless told. */
  readonly exactKey?: string;
  /** Length of its text. A long result that comes again says more than a second "ok". */
  readonly resultLength?: number;
  readonly isError: boolean;
  readonly errorCode?: string;
  /** The failure was of the network or of a service (429, 5xx, connection): no evidence of a loop. */
  readonly infrastructure?: boolean;
  readonly readOnly: boolean;
  /** False when the call was refused before the tool ran: unknown name, bad arguments, denied, blocked. */
  readonly executed: boolean;
  /** The tool declared `loop.repeatable: "poll"`. */
  readonly poll?: boolean;
  /** The model turn that made the call; identical calls of one round count once. */
  readonly round?: string;
  /** When the call started, if it took any time. Milliseconds since the epoch. */
  readonly startedAt?: number;
  /** When the call ended. Milliseconds since the epoch. */
  readonly at: number;
}

/** A call that is about to run. */
export interface LoopCandidate {
  readonly tool: string;
  readonly argsKey: string;
  readonly readOnly: boolean;
  readonly poll?: boolean;
  readonly round?: string;
  /** Now, in milliseconds since the epoch. */
  readonly at: number;
  /** The arguments themselves. Looked at only when near-identical arguments would make a difference. */
  readonly args?: unknown;
}

/** A call as the state remembers it, with what could be said of it when it was recorded. Plain JSON. */
export interface LoopEntry {
  readonly callId: string;
  readonly tool: string;
  readonly argsKey: string;
  /** Of a blocked call: the result it would have had. */
  readonly resultKey: string;
  readonly exactKey: string;
  readonly isError: boolean;
  readonly errorCode: string | undefined;
  readonly readOnly: boolean;
  readonly executed: boolean;
  /** Loop detection itself kept the call from running. */
  readonly blocked: boolean;
  /** The call was refused for another reason, or blocked because it would have been. */
  readonly refused: boolean;
  readonly poll: boolean;
  readonly round: string | undefined;
  readonly at: number;
  /** The how-manieth call of the session it was, from 1. */
  readonly ordinal: number;
  /** This call had not given this result before in the world as it stood. */
  readonly isNew: boolean;
  /** It succeeded, was not read-only and had not done the same before: repeating a check makes sense after it. */
  readonly changedWorld: boolean;
  /** It is part of a wait, which gets four times the patience. */
  readonly waiting: boolean;
  /** Its arguments are nearly those of the entry before it. Known only where `tokens` are. */
  readonly similar: boolean;
  readonly tokens: readonly number[] | undefined;
}

/**
 * All that loop detection knows of a session. Plain JSON, bounded, never changed in place: it can be stored,
 * resumed and shared.
 */
export interface LoopState {
  /** The last 24 calls that count, oldest first. */
  readonly entries: readonly LoopEntry[];
  /** How many calls the session has made. */
  readonly total: number;
  /** Set once the run was stopped. Only `emptyLoopState()` lifts it. */
  readonly stopped?: LoopVerdict;
}

export type LoopAction = "none" | "nudge" | "block" | "stop";

export type LoopSignal =
  | "repeat"
  | "cycle"
  | "same_error"
  | "stagnation"
  | "drought"
  | "interleaved"
  | "refused";

/** What detection says of a session. Plain JSON. */
export interface LoopVerdict {
  readonly action: LoopAction;
  readonly signal?: LoopSignal;
  /** How often it was seen, this call included. */
  readonly count: number;
  /** Length of the cycle, 1 for everything that is not a cycle. */
  readonly period?: number;
  /** The same for the same loop. */
  readonly fingerprint?: string;
  /** One clause: what repeats, how often, since which call. `loopMessage` makes the text for the model of it. */
  readonly evidence?: string;
  /** The earlier call whose result still holds. */
  readonly previousCallId?: string;
}

/** From how many sightings on each action is taken. */
export interface LoopLadder {
  readonly nudge: number;
  readonly block: number;
  readonly stop: number;
}

/** What one signal saw. */
export interface LoopSighting {
  readonly signal: LoopSignal;
  readonly ladder: LoopLadder;
  /** How often, as people count. */
  readonly count: number;
  /** How often in quarters, a sighting while waiting being one quarter and any other four. */
  readonly quarters: number;
  /** In how many rounds, that is after how many chances to notice. */
  readonly rounds: number;
  readonly period: number;
  /** Index of the first entry that belongs to it. */
  readonly since: number;
}

/**
 * One way of seeing a loop. `head` is the call being judged, `entries[0..end)` are the calls before it. Answers
 * `undefined` below the nudge threshold; that is the common case and allocates nothing.
 */
export type LoopSignalFunction = (
  entries: readonly LoopEntry[],
  end: number,
  head: LoopEntry,
) => LoopSighting | undefined;
