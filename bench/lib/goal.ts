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

export function describeGoal({ limit, met }: GoalOutcome): string {
  return `goal ≤ ${formatRatio(limit)}: ${met ? "met" : "not met"}`;
}
