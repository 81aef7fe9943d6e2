import type { ContestantName } from "../contestants/index.ts";
import type { GoalOutcome } from "./goal.ts";
import type { Table } from "./table.ts";

/** What one sample is taken of. */
export interface Subject {
  readonly contestant: ContestantName;
  readonly variant: string;
}

/** Everything one run learned about a subject: one sample per round, or why there is none. */
export interface Measured<Sample> extends Subject {
  readonly samples: readonly Sample[];
  readonly failure?: string;
}

export interface Report {
  readonly tables: readonly Table[];
  readonly goals: readonly GoalOutcome[];
}

/**
 * One thing to measure. `sample` runs in a process of its own, once per subject and round; it throws when the
 * contestant answers wrongly. `report` runs in the parent and sees all rounds.
 */
export interface Suite<Sample = unknown> {
  readonly title: string;
  /** Always measured, also when `--only` leaves it out: every ratio is a ratio to it. */
  readonly floor: ContestantName;
  /** Measured always, like the floor, because a goal compares with them. */
  readonly references?: readonly ContestantName[];
  readonly contestants: readonly ContestantName[];
  readonly variants: readonly string[];
  /** Milliseconds that a sample may take. Default: three minutes. */
  readonly limit?: number;
  /** Whether the contestant can do this. Default: all do everything. */
  takesPart?(subject: Subject): boolean;
  sample(subject: Subject): Promise<Sample>;
  report(measured: readonly Measured<Sample>[]): Report;
}
