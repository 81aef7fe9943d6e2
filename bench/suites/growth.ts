import { crowd } from "../growth/crowd.ts";
import { others } from "../growth/others.ts";
import { type Figure, type GrowthPart, growthOf } from "../growth/part.ts";
import { rack } from "../growth/rack.ts";
import { skill } from "../growth/skill.ts";
import { store } from "../growth/store.ts";
import { type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio, type Table } from "../lib/table.ts";

type GrowthSample = readonly Figure[];

const parts: Readonly<Record<string, GrowthPart>> = { store, others, crowd, rack, skill };

/** What becomes dearer as calls, tools, readers, results and servers pile up: at each size, as ratios to the smallest. */
export const growth: Suite<GrowthSample> = {
  title: "Growth",
  floor: "ours-record",
  contestants: ["ours-record"],
  variants: Object.entries(parts).flatMap(([name, { sizes }]) => sizes.map((size) => `${name} ${size}`)),
  // To make 5,000,000 calls takes some minutes.
  limit: 60 * 60_000,

  sample({ variant }) {
    const [name = "", size = ""] = variant.split(" ");
    return parts[name]!.measure(size);
  },

  report(measured) {
    const goals: GoalOutcome[] = [];
    const notFlat: string[][] = [];
    const tables = Object.entries(parts).map(([name, { title, sizes }]): Table => {
      const curves = sizes.map((size) =>
        medians(measured.find(({ variant }) => variant === `${name} ${size}`)?.samples ?? []),
      );
      const [smallest = []] = curves;
      const rows = smallest.map((first, at) => {
        const values = curves.map((figures) => figures[at]?.value ?? Number.NaN);
        const last = curves.at(-1)?.[at] ?? first;
        const factor = growthOf(first, last);
        if (factor !== undefined) notFlat.push([`${first.what} (${title})`, formatRatio(factor)]);
        const { what, unit, goal } = last;
        if (goal !== undefined) goals.push(judgeGoal(`${what}: ${unit}`, 1, last.value / goal));
        const verdict = factor === undefined ? (last.grows ? "may grow" : "flat") : "not flat";
        return [
          what,
          unit,
          formatNumber(values[0] ?? Number.NaN),
          ...values.slice(1).map((value) => formatRatio(value / values[0]!)),
          curveOf(values),
          formatNumber(last.value),
          goal === undefined ? "" : `≤ ${formatNumber(goal)}${last.value > goal ? " missed" : ""}`,
          verdict,
        ];
      });
      const [first = "", ...larger] = sizes;
      const columns = [
        "what",
        "unit",
        `at ${first}`,
        ...larger.map((size) => `at ${size}`),
        "curve",
        "then",
        "goal",
        "verdict",
      ];
      return { title: `Growth of ${title}`, columns, rows };
    });
    const steep = { title: "What is not flat", columns: ["what", "grew"], rows: notFlat };
    return { tables: [...tables, steep], goals };
  },
};

const bars = [..."▁▂▃▄▅▆▇█"];

/** A bar for each size: the lowest for the smallest value, one higher for each doubling. */
function curveOf(values: readonly number[]): string {
  const least = Math.max(Math.min(...values), Number.MIN_VALUE);
  const heights = values.map((value) => Math.round(Math.log2(Math.max(value, least) / least)));
  return heights.map((height) => bars[Math.min(height, bars.length - 1)] ?? "?").join("");
}

function medians(samples: readonly GrowthSample[]): GrowthSample {
  return (samples[0] ?? []).map((figure, at) => ({
    ...figure,
    value: median(samples.flatMap((sample) => sample[at]?.value ?? [])),
  }));
}
