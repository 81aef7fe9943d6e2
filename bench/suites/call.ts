import type { CallTarget } from "../contestants/contestant.ts";
import { type ContestantName, contestants } from "../contestants/index.ts";
import { cpuNanosecondsPerOperation } from "../lib/cpu.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median, spread } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatPercent, formatRatio, type Table } from "../lib/table.ts";
import type { Scenario } from "../scenarios/scenario.ts";

interface CallSample {
  readonly nanosecondsPerCall: number;
}

// Loaded in the child only, because they need zod, which the parent may still have to install.
const scenarios: Record<string, () => Promise<Scenario>> = {
  "3 fields": async () => (await import("../scenarios/three-fields.ts")).threeFields,
  realistic: async () => (await import("../scenarios/realistic.ts")).realistic,
};

const goalRatios: Partial<Record<ContestantName, Record<string, number>>> = {
  "ours-json-schema": { "3 fields": 11, realistic: 25 },
  "ours-zod": { "3 fields": 11, realistic: 25 },
  "ours-session": { "3 fields": 35, realistic: 60 },
};

const budget = { warmUpMilliseconds: 700, measureMilliseconds: 700 };

/** One validated call of one tool, in process. */
export const call: Suite<CallSample> = {
  title: "In-process call",
  floor: "bare",
  contestants: [
    "bare",
    "zod",
    "ajv",
    "ours-json-schema",
    "ours-zod",
    "ours-session",
    "mastra",
    "ai",
    "openai-agents",
    "langchain",
    "mcp-sdk-1-server",
    "mcp-sdk-1-client",
    "mcp-sdk-2-server",
    "mcp-sdk-2-client",
  ],
  variants: Object.keys(scenarios),

  async sample({ contestant, variant }) {
    const scenario = await scenarios[variant]!();
    const { setUpCall } = await contestants[contestant].load();
    let runs = 0;
    const counted = (input: unknown) => {
      runs++;
      return scenario.run(input);
    };
    const target = await setUpCall!({ ...scenario, run: counted });
    const encode = (input: unknown) => (target.encode ? target.encode(input) : input);
    const inputs = scenario.inputs.map(encode);

    for (const [index, input] of inputs.entries())
      checkAnswer(target, scenario, index, await target.call(input));
    if (contestant !== "bare") {
      const runsBefore = runs;
      for (const input of scenario.badInputs) await checkRefusal(target, encode(input));
      if (runs !== runsBefore) throw new Error("the tool ran on an input that its schema refuses");
    }

    const mask = inputs.length - 1;
    let calls = 0;
    const runsBefore = runs;
    const nanosecondsPerCall = await cpuNanosecondsPerOperation(async (count) => {
      let output: unknown;
      for (let done = 0; done < count; done++) output = await target.call(inputs[calls++ & mask]);
      checkAnswer(target, scenario, (calls - 1) & mask, output);
    }, budget);
    if (runs - runsBefore !== calls)
      throw new Error(`${calls} calls made the tool run ${runs - runsBefore} times`);
    return { nanosecondsPerCall };
  },

  report(measured) {
    const reports = Object.keys(scenarios).map((variant) => reportVariant(variant, measured));
    return { tables: reports.map(({ table }) => table), goals: reports.flatMap(({ goals }) => goals) };
  },
};

function checkAnswer(target: CallTarget, scenario: Scenario, index: number, output: unknown): void {
  const answer = target.readAnswer(output);
  const expected = scenario.run(scenario.inputs[index]);
  if (answer !== expected)
    throw new Error(`answered ${JSON.stringify(answer)} instead of ${JSON.stringify(expected)}`);
}

async function checkRefusal(target: CallTarget, input: unknown): Promise<void> {
  let answer: string;
  try {
    answer = target.readAnswer(await target.call(input));
  } catch {
    return;
  }
  throw new Error(`accepted the bad input ${JSON.stringify(input)} and answered ${JSON.stringify(answer)}`);
}

function reportVariant(
  variant: string,
  all: readonly Measured<CallSample>[],
): { table: Table; goals: GoalOutcome[] } {
  const figures = all
    .filter((entry) => entry.variant === variant)
    .map(({ contestant, samples }) => ({
      contestant,
      values: samples.map((sample) => sample.nanosecondsPerCall),
    }))
    .sort((a, b) => median(a.values) - median(b.values));
  const floor = figures.find(({ contestant }) => contestant === call.floor);
  const goals: GoalOutcome[] = [];
  const rows = figures.map(({ contestant, values }) => {
    const { title } = contestants[contestant];
    const ratio = floor === undefined ? Number.NaN : median(values) / median(floor.values);
    const limit = goalRatios[contestant]?.[variant];
    const goal = limit === undefined ? undefined : judgeGoal(`${title}, ${variant}`, limit, ratio);
    if (goal) goals.push(goal);
    return [
      title,
      formatNumber(median(values)),
      formatPercent(spread(values)),
      formatRatio(ratio),
      goal ? describeGoal(goal) : "",
    ];
  });
  const columns = ["contestant", "CPU ns/call", "spread", "ratio to bare", "goal"];
  return { table: { title: variant, columns, rows }, goals };
}
