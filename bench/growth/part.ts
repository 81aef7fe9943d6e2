/** Something that was measured at one size. */
export interface Figure {
  readonly what: string;
  readonly unit: string;
  readonly value: number;
  /** What it may be at the most, at the largest size. Not set for a figure that is only shown. */
  readonly goal?: number;
  /** It may grow with the size: its goal is the bound, or it looks at everything, off the main thread. */
  readonly grows?: true;
}

/** Something that grows, and what is done with it at each size. */
export interface GrowthPart {
  /** What there is so much of, such as `recorded calls`. */
  readonly title: string;
  /** By their names, the smallest first. */
  readonly sizes: readonly string[];
  /** Sets a place of this size up, does every operation several times and says what each cost. Removes the place. */
  measure(size: string): Promise<readonly Figure[]>;
}

/** Milliseconds of the main thread that nothing may take in one go. */
const LONGEST_BLOCK = 50;

interface CostOptions {
  readonly times?: number;
  readonly goal?: number;
  readonly grows?: true;
}

/**
 * Two figures of an operation in this process: the CPU of the whole process, with its helper threads, and the CPU of its
 * longest turn of the event loop, for which nobody else is served. Of several times the least: a busy neighbour only adds.
 */
export async function costOf(
  what: string,
  operation: () => Promise<unknown>,
  { times = 9, goal, grows }: CostOptions = {},
): Promise<Figure[]> {
  // The first run compiles code and statements.
  await operation();
  let value = Number.POSITIVE_INFINITY;
  for (let n = 0; n < times; n++) {
    const before = process.cpuUsage();
    await operation();
    value = Math.min(value, sum(process.cpuUsage(before)));
  }
  const unit = "ms CPU";
  return [
    { what, unit, value, ...(goal !== undefined && { goal }), ...(grows && { grows }) },
    {
      what: `${what}, in one go`,
      unit,
      value: await longestTurn(operation),
      goal: LONGEST_BLOCK,
      grows: true,
    },
  ];
}

/** The CPU of the longest turn of the event loop while the operation is under way. */
async function longestTurn(operation: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 3; n++) {
    let longest = 0;
    let before = process.threadCpuUsage();
    let turn = setImmediate(function look() {
      longest = Math.max(longest, sum(process.threadCpuUsage(before)));
      before = process.threadCpuUsage();
      turn = setImmediate(look);
    });
    await operation();
    clearImmediate(turn);
    least = Math.min(least, Math.max(longest, sum(process.threadCpuUsage(before))));
  }
  return least;
}

function sum({ user, system }: { readonly user: number; readonly system: number }): number {
  return (user + system) / 1_000;
}

/** Below it a figure in milliseconds counts as the same: it is nothing, or noise. */
const NOISE = 2;
/** Something that grew by this factor is not flat. Deeper indexes and colder caches are below it. */
const FLAT = 3;

/** By how much a figure that must not grow has grown from the smallest size to the largest; undefined when it is flat. */
export function growthOf(smallest: Figure, largest: Figure): number | undefined {
  if (largest.grows) return undefined;
  const factor = largest.value / Math.max(smallest.value, smallest.unit.startsWith("ms") ? NOISE : 0.1);
  return factor > FLAT ? factor : undefined;
}

/** What is not flat, and what misses its goal at the largest size. */
export function problemsOf(smallest: readonly Figure[], largest: readonly Figure[]): string[] {
  return largest.flatMap((figure, at) => {
    const factor = growthOf(smallest[at]!, figure);
    const { what, value, unit, goal = Number.POSITIVE_INFINITY } = figure;
    if (factor !== undefined) return [`${what}: ${factor.toFixed(1)} times as much`];
    return value > goal ? [`${what}: ${value.toFixed(1)} ${unit}, not ${goal}`] : [];
  });
}
