/** What loop detection remembers of one finished call. Plain JSON. */
export interface LoopRecord {
  readonly callId: string;
  readonly tool: string;
  /** Hash of the canonical validated arguments (or of what the tool declared as its key). */
  readonly argsKey: string;
  /** Hash of the model-visible text with timestamps, ids and the like masked, taken before it is shortened. */
  readonly resultKey: string;
  readonly isError: boolean;
  readonly errorCode?: string;
  readonly readOnly: boolean;
  /** False when the call was refused before the tool ran: unknown name, bad arguments, denied. */
  readonly executed: boolean;
  /** The tool declared `loop.repeatable: "poll"`. */
  readonly poll?: boolean;
  /** The model turn that made the call; identical calls of one round count once. */
  readonly round?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export type LoopAction = "none" | "nudge" | "block" | "stop";

export type LoopSignal =
  | "repeat"
  | "cycle"
  | "same_error"
  | "stagnation"
  | "drought"
  | "interleaved"
  | "sweep"
  | "refused";

/** What detection says of a session. Plain JSON. */
export interface LoopVerdict {
  readonly action: LoopAction;
  readonly signal?: LoopSignal;
  /** How often it was seen. */
  readonly count: number;
  /** Length of the cycle, 1 for a plain repeat. */
  readonly period?: number;
  /** The same for the same loop. */
  readonly fingerprint?: string;
  /** One sentence for the model: what repeats, since which call, and what to do instead. */
  readonly evidence?: string;
  /** The earlier call whose result still holds. */
  readonly previousCallId?: string;
}
