import { fullWeight } from "./thresholds.ts";
import type { LoopEntry } from "./types.ts";

interface Call {
  readonly tool: string;
  readonly argsKey: string;
}

/** The arguments are compared first: they nearly always differ, the tool often does not. */
export function isSameCall(one: Call, other: Call): boolean {
  return one.argsKey === other.argsKey && one.tool === other.tool;
}

export function isSameOutcome(one: LoopEntry, other: LoopEntry): boolean {
  return one.argsKey === other.argsKey && one.resultKey === other.resultKey && one.tool === other.tool;
}

/** A round is one decision of the model. A call without a round is a decision of its own. */
export function isSameRound(one: { readonly round?: string }, other: { readonly round?: string }): boolean {
  return one.round !== undefined && one.round === other.round;
}

/** Quarters that an entry adds to a count. */
export function weightOf(entry: LoopEntry): number {
  return entry.waiting ? 1 : fullWeight;
}
