import { fullSize, type GrowthRow, measureRack } from "../growth/rack.ts";
import { type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median } from "../lib/statistics.ts";
import type { Suite } from "../lib/suite.ts";
import { formatNumber } from "../lib/table.ts";

/** What a rack costs that has grown: many tools, event readers, upstream servers and large results. */
export const growthRack: Suite<readonly GrowthRow[]> = {
  title: "A rack that has grown",
  floor: "ours-http",
  contestants: ["ours-http"],
  variants: ["rack"],
  sample: () => measureRack(fullSize),

  report(measured) {
    const samples = measured.flatMap((entry) => entry.samples);
    const goals: GoalOutcome[] = [];
    const rows = (samples[0] ?? []).map(({ what, unit, goal }, at) => {
      const value = median(samples.map((sample) => sample[at]!.value));
      if (goal !== undefined) goals.push(judgeGoal(what, 1, value / goal));
      return [what, formatNumber(value), unit, goal === undefined ? "" : `≤ ${formatNumber(goal)}`];
    });
    const { tools, readers, megabytes, upstreams } = fullSize;
    const title = `${tools} tools, ${readers} event readers, results of ${megabytes} MB, ${upstreams} stdio upstreams`;
    return { tables: [{ title, columns: ["what", "value", "unit", "goal"], rows }], goals };
  },
};
