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
      formatNumber(medianOf(entry, "p50")),
      goal === undefined ? "" : describeGoal(goal),
      entry.contestant.startsWith("ours") ? besidePeers(entry, measured) : "",
    ];
  });
  const columns = [
    ...[variant, "contestant", cpu, "CPU to floor", "requests/s", "p50, ms", "goal", "beside the best peer"],
  ];
  return { tables: [{ title, columns, rows }], goals };
}

/** Whether ours takes less CPU than the best peer, and by how much. Hand-written floors are no peers. */
function besidePeers(ours: Measured<McpSample>, measured: readonly Measured<McpSample>[]): string {
  const peers = measured.filter(
    ({ contestant, variant }) => variant === ours.variant && !/^(?:ours|node)-/.test(contestant),
  );
  const [best] = peers.toSorted((one, other) => medianOf(one, "cpu") - medianOf(other, "cpu"));
  if (best === undefined) return "";
  const ratio = medianOf(best, "cpu") / medianOf(ours, "cpu");
  const { title } = contestants[best.contestant];
  return ratio >= 1
    ? `ahead ${formatRatio(ratio)} of ${title}`
    : `behind ${formatRatio(1 / ratio)}: ${title}`;
}
