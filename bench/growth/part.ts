/** What one operation costs, in milliseconds of CPU. */
export interface Cost {
  /** Of the whole process, with its helper threads. */
  readonly cpu: number;
  /** Of the main thread alone, in one go: for so long nobody else is served. */
  readonly block: number;
}

/** Something that grows, and what is done with it at each size. */
export interface GrowthPart {
  /** What there is so much of, such as `recorded calls`. */
  readonly title: string;
  readonly sizes: readonly number[];
  /** Sets a place of this size up, does every operation several times and says what each cost. Removes the place. */
  measure(size: number): Promise<Readonly<Record<string, Cost>>>;
  /** Operations that look at everything there is, off the main thread: their CPU grows, what they take of the main thread in one go must not. */
  readonly linear: readonly string[];
  /** Operations that grow to a limit, whatever the size: milliseconds of CPU that they may take at the most. */
  readonly bounded: Readonly<Record<string, number>>;
}

/** The median cost of an operation. */
export async function costOf(operation: () => Promise<unknown>, times = 9): Promise<Cost> {
  // The first run compiles code and statements.
  await operation();
  const costs: number[] = [];
  for (let n = 0; n < times; n++) {
    const before = process.cpuUsage();
    await operation();
    costs.push(sum(process.cpuUsage(before)));
  }
  return { cpu: costs.sort((a, b) => a - b)[times >> 1]!, block: await longestTurn(operation) };
}

/** The CPU of the longest turn of the event loop while the operation is under way. */
async function longestTurn(operation: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let before = process.threadCpuUsage();
  let turn = setImmediate(function look() {
    longest = Math.max(longest, sum(process.threadCpuUsage(before)));
    before = process.threadCpuUsage();
    turn = setImmediate(look);
  });
  await operation();
  clearImmediate(turn);
  return Math.max(longest, sum(process.threadCpuUsage(before)));
}

function sum({ user, system }: { readonly user: number; readonly system: number }): number {
  return (user + system) / 1_000;
}

/** Milliseconds. Below it a cost counts as the same: it is nothing, or noise. */
const NOISE = 2;
/** Something that grew by this factor is not flat. Deeper indexes and colder caches are below it. */
const FLAT = 3;

/** Which operations are not flat, from the smallest size to the largest, each with its factor. */
export function notFlat(
  costs: readonly Readonly<Record<string, Cost>>[],
  { linear, bounded }: Pick<GrowthPart, "linear" | "bounded">,
): { readonly operation: string; readonly factor: number }[] {
  const [smallest, largest] = [costs[0] ?? {}, costs.at(-1) ?? {}];
  return Object.keys(smallest).flatMap((operation) => {
    if (Object.hasOwn(bounded, operation)) return [];
    const of: keyof Cost = linear.includes(operation) ? "block" : "cpu";
    const [before, after] = [smallest[operation]![of], largest[operation]?.[of] ?? 0];
    const factor = after / Math.max(before, NOISE);
    return factor > FLAT ? [{ operation, factor }] : [];
  });
}
