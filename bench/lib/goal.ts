import { formatRatio } from "./table.ts";

/** A number we promise ourselves: the measured ratio must not be above the limit. */
export interface GoalOutcome {
  readonly what: string;
  readonly limit: number;
  readonly ratio: number;
  readonly met: boolean;
}

export function judgeGoal(what: string, limit: number, ratio: number): GoalOutcome {
  return { what, limit, ratio, met: ratio <= limit };
}

/** `format`: how the limit is written, when it is no ratio. */
export function describeGoal({ limit, met }: GoalOutcome, format = formatRatio): string {
  return `goal ≤ ${format(limit)}: ${met ? "met" : "not met"}`;
}
