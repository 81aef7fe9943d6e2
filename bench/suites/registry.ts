import type { RackTarget } from "../contestants/contestant.ts";
import { contestants } from "../contestants/index.ts";
import { cpuMilliseconds, cpuNanosecondsPerOperation } from "../lib/cpu.ts";
import { describeGoal, type GoalOutcome, judgeGoal } from "../lib/goal.ts";
import { median } from "../lib/statistics.ts";
import type { Measured, Suite } from "../lib/suite.ts";
import { formatNumber, formatRatio, type Table } from "../lib/table.ts";

/** CPU nanoseconds: per tool for `register` and `list`, per operation for the others. */
interface RegistrySample {
  readonly register: number;
  /** Absent when the contestant has no public look-up. */
  readonly lookUp?: number;
  readonly list: number;
  readonly call: number;
  readonly addAndCall: number;
}

const sizes = [1_000, 10_000, 100_000];

interface Measure {
  readonly key: keyof RegistrySample;
  readonly title: string;
  /** How much more a hundred times the tools may cost us per tool or look-up. */
  readonly growthLimit?: number;
}

// Caches miss and the collector has more to walk, for a Map too; a single look-up feels it most. Registering in
// quadratic time or looking up in linear time would show as a hundred.
const measures: readonly Measure[] = [
  { key: "register", title: "register n tools, CPU ns per tool", growthLimit: 10 },
  { key: "lookUp", title: "look one of n up, CPU ns", growthLimit: 20 },
  { key: "list", title: "list n tools, CPU ns per tool", growthLimit: 10 },
  { key: "call", title: "call one of n, CPU ns" },
  { key: "addAndCall", title: "add one to n and call it, CPU ns" },
];

const warmUpMilliseconds = 200;
const measureMilliseconds = 300;
const addedTools = 200;

/** How the cost of a rack grows with the tools on it. All tools share one schema. */
export const registry: Suite<RegistrySample> = {
  title: "Registry",
  floor: "map",
  contestants: ["map", "ours-json-schema", "mastra", "mcp-sdk-1-server", "mcp-sdk-2-server"],
  variants: sizes.map(String),

  async sample({ contestant, variant }) {
    const { threeFields } = await import("../scenarios/three-fields.ts");
    const { setUpRack } = await contestants[contestant].load();
    let runs = 0;
    const counted = (input: unknown) => {
      runs++;
      return threeFields.run(input);
    };
    const makeRack = () => setUpRack!({ ...threeFields, run: counted });
    const { inputs } = threeFields;
    const size = Number(variant);
    const names = Array.from({ length: size }, (_, index) => `tool_${index}`);
    const fill = () => fillRack(makeRack(), names);

    await spend(warmUpMilliseconds, () => fillRack(makeRack(), names.slice(0, 1000)));
    let rack = fill();
    let filled = 0;
    const spent = await spend(measureMilliseconds, () => {
      rack = fill();
      filled += size;
    });
    const register = (spent * 1e6) / filled;

    await checkRack(rack, names);
    await spend(warmUpMilliseconds, () => rack.list());
    let listed = 0;
    const listSpent = await spend(measureMilliseconds, async () => {
      listed += (await rack.list()).length;
    });
    const list = (listSpent * 1e6) / listed;

    const order = shuffle(names);
    const lookUp = rack.get && (await measureLookUp(rack.get, order));
    let calls = 0;
    const call = await cpuNanosecondsPerOperation(
      async (count) => {
        for (let done = 0; done < count; done++, calls++) {
          await rack.call(order[calls % size]!, inputs[calls % inputs.length]);
        }
      },
      { warmUpMilliseconds, measureMilliseconds },
    );
    const addAndCall = await measureAddAndCall(rack, inputs);
    calls += addedTools;
    if (runs !== calls) throw new Error(`${calls} calls made the tools run ${runs} times`);
    return { register, lookUp, list, call, addAndCall };
  },

  report(measured) {
    const reports = measures.map((entry) => reportMeasure(entry, measured));
    return { tables: reports.map(({ table }) => table), goals: reports.flatMap(({ goals }) => goals) };
  },
};

/** Ends with a look-up, so that work put off until the first read is counted. */
function fillRack(rack: RackTarget, names: readonly string[]): RackTarget {
  for (const name of names) rack.add(name);
  rack.get?.(names[0]!);
  return rack;
}

async function measureLookUp(get: (name: string) => unknown, order: readonly string[]): Promise<number> {
  let next = 0;
  let missing = 0;
  const nanoseconds = await cpuNanosecondsPerOperation(
    (count) => {
      for (let done = 0; done < count; done++) {
        if (get(order[next]!) === undefined) missing++;
        next = next + 1 === order.length ? 0 : next + 1;
      }
    },
    { warmUpMilliseconds, measureMilliseconds },
  );
  if (missing > 0) throw new Error(`${missing} look-ups found nothing`);
  return nanoseconds;
}

/** What a change costs the calls after it: a rack that rebuilds itself shows here. */
async function measureAddAndCall(rack: RackTarget, inputs: readonly unknown[]): Promise<number> {
  const spent = await cpuMilliseconds(async () => {
    for (let index = 0; index < addedTools; index++) {
      rack.add(`added_${index}`);
      await rack.call(`added_${index}`, inputs[index]);
    }
  });
  return (spent * 1e6) / addedTools;
}

async function checkRack(rack: RackTarget, names: readonly string[]): Promise<void> {
  const listed = await rack.list();
  if (listed.length !== names.length) throw new Error(`listed ${listed.length} of ${names.length} tools`);
  const unknown = findQuietly(rack, "no_such_tool");
  if (unknown !== undefined) throw new Error("found a tool that was never added");
}

function findQuietly(rack: RackTarget, name: string): unknown {
  try {
    return rack.get?.(name);
  } catch {
    return undefined;
  }
}

/** Repeats `work`, at least once, until it has taken that much CPU time; says how much it took. */
async function spend(milliseconds: number, work: () => unknown): Promise<number> {
  let spent = 0;
  while (spent < milliseconds) spent += await cpuMilliseconds(work);
  return spent;
}

/** The same order in every run. */
function shuffle(names: readonly string[]): string[] {
  const shuffled = [...names];
  let seed = 1;
  for (let index = shuffled.length - 1; index > 0; index--) {
    seed = (seed * 48_271) % 2_147_483_647;
    const other = seed % (index + 1);
    [shuffled[index], shuffled[other]] = [shuffled[other]!, shuffled[index]!];
  }
  return shuffled;
}

function reportMeasure(
  { key, title, growthLimit }: Measure,
  all: readonly Measured<RegistrySample>[],
): { table: Table; goals: GoalOutcome[] } {
  const nanoseconds = (contestant: string, size: number): number => {
    const entry = all.find(
      (candidate) => candidate.contestant === contestant && candidate.variant === String(size),
    );
    const values = entry?.samples.map((sample) => sample[key] ?? Number.NaN) ?? [];
    return values.length > 0 ? median(values) : Number.NaN;
  };
  const smallest = sizes[0]!;
  const largest = sizes.at(-1)!;
  const growth = (contestant: string) => nanoseconds(contestant, largest) / nanoseconds(contestant, smallest);

  const goals: GoalOutcome[] = [];
  const shown = registry.contestants.filter((contestant) =>
    Number.isFinite(nanoseconds(contestant, smallest)),
  );
  const rows = shown.map((contestant) => {
    const limit = contestant.startsWith("ours") ? growthLimit : undefined;
    const goal = limit === undefined ? undefined : judgeGoal(`growth: ${title}`, limit, growth(contestant));
    if (goal) goals.push(goal);
    return [
      contestants[contestant].title,
      ...sizes.map((size) => formatNumber(nanoseconds(contestant, size))),
      formatRatio(growth(contestant)),
      goal ? describeGoal(goal) : "",
      formatRatio(nanoseconds(contestant, largest) / nanoseconds(registry.floor, largest)),
    ];
  });
  const sizeColumns = sizes.map((size) => `n = ${size.toLocaleString("en-US")}`);
  const columns = ["contestant", ...sizeColumns, "growth", "goal", "ratio to Map"];
  return { table: { title, columns, rows }, goals };
}
