import { type Cost, type GrowthPart, notFlat } from "../growth/part.ts";
import { store } from "../growth/store.ts";
import { type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio, type Table } from "../lib/table.ts";

type GrowthSample = Readonly<Record<string, Cost>>;

const parts: Readonly<Record<string, GrowthPart>> = { store };

/** Milliseconds of the main thread that nothing may take. */
const LONGEST_BLOCK = 50;

/** What becomes dearer as calls, tools and readers pile up: CPU at each size, as ratios to the smallest. */
export const growth: Suite<GrowthSample> = {
  title: "Growth",
  floor: "ours-record",
  contestants: ["ours-record"],
  variants: Object.entries(parts).flatMap(([name, { sizes }]) => sizes.map((size) => `${name} ${size}`)),

  sample({ variant }) {
    const [name = "", size] = variant.split(" ");
    return parts[name]!.measure(Number(size));
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const tables = Object.entries(parts).map(([name, part]): Table => {
      const costs = part.sizes.map((size) =>
        medians(measured.find(({ variant }) => variant === `${name} ${size}`)?.samples ?? []),
      );
      const steep = new Map(notFlat(costs, part).map(({ operation, factor }) => [operation, factor]));
      const rows = Object.keys(costs[0] ?? {}).map((operation) => {
        const curve = costs.map((cost) => cost[operation]?.cpu ?? Number.NaN);
        const block = costs.at(-1)?.[operation]?.block ?? Number.NaN;
        goals.push(judgeGoal(`${operation}: ms of the main thread`, LONGEST_BLOCK, block));
        const limit = part.bounded[operation];
        if (limit !== undefined) goals.push(judgeGoal(`${operation}: ms of CPU`, limit, curve.at(-1)!));
        else if (!part.linear.includes(operation))
          goals.push(judgeGoal(`${operation}: flat`, 0, steep.has(operation) ? 1 : 0));
        return [
          operation,
          formatNumber(curve[0] ?? Number.NaN),
          ...curve.slice(1).map((cpu) => formatRatio(cpu / curve[0]!)),
          formatNumber(curve.at(-1) ?? Number.NaN),
          formatNumber(block),
          steep.has(operation) ? "not flat" : part.linear.includes(operation) ? "looks at all" : "",
          limit === undefined ? "" : `≤ ${limit} ms`,
        ];
      });
      const [smallest = 0, ...larger] = part.sizes.map((size) => size.toLocaleString("en-US"));
      const columns = [
        "operation",
        `CPU at ${smallest}, ms`,
        ...larger.map((size) => `at ${size}`),
        "CPU, ms",
        "longest block, ms",
        "",
        "goal",
      ];
      return { title: `Growth of ${part.title}`, columns, rows };
    });
    return { tables, goals };
  },
};

function medians(samples: readonly GrowthSample[]): GrowthSample {
  const names = Object.keys(samples[0] ?? {});
  const middle = (name: string, of: keyof Cost) => median(samples.map((sample) => sample[name]![of]));
  return Object.fromEntries(
    names.map((name) => [name, { cpu: middle(name, "cpu"), block: middle(name, "block") }]),
  );
}
