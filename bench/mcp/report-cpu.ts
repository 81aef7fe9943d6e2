import { type ContestantName, contestants } from "../contestants/index.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { medianOf } from "../lib/median-of.ts";
import type { Measured, Report, Subject } from "../lib/suite.ts";
import { formatNumber, formatRatio } from "../lib/table.ts";
import type { McpSample } from "./server-process.ts";

export interface CpuReportOptions {
  readonly title: string;
  readonly floor: ContestantName;
  /** What the variants are, and whose CPU is measured. */
  readonly columns: readonly [variant: string, cpu: string];
  /** The most times the floor's CPU; undefined for rows that are only shown. */
  readonly limitOf: (subject: Subject) => number | undefined;
}

/** CPU of every contestant beside that of the floor of the same variant. */
export function reportCpu(
  measured: readonly Measured<McpSample>[],
  { title, floor, columns: [variant, cpu], limitOf }: CpuReportOptions,
): Report {
  const goals: GoalOutcome[] = [];
  const rows = measured.map((entry) => {
    const beside = measured.find((one) => one.contestant === floor && one.variant === entry.variant);
    const ratio = medianOf(entry, "cpu") / medianOf(beside, "cpu");
    const limit = limitOf(entry);
    const goal = limit === undefined ? undefined : judgeGoal(entry.variant, limit, ratio);
    if (goal !== undefined) goals.push(goal);
    return [
      entry.variant,
      contestants[entry.contestant].title,
      formatNumber(medianOf(entry, "cpu")),
      formatRatio(ratio),
      formatNumber(medianOf(entry, "perSecond")),
      goal === undefined ? "" : describeGoal(goal),
    ];
  });
  const columns = [variant, "contestant", cpu, "CPU to floor", "requests/s", "goal"];
  return { tables: [{ title, columns, rows }], goals };
}
