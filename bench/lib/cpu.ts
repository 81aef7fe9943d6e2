import { setImmediate } from "node:timers/promises";

const batchMilliseconds = 10;

export interface CpuBudget {
  readonly warmUpMilliseconds: number;
  readonly measureMilliseconds: number;
}

/**
 * CPU nanoseconds per operation, garbage collection and helper threads included. `run(count)` performs that many
 * operations. Every bound is CPU time, because a busy neighbour would cut a warm-up short that is bounded by the clock.
 */
export async function cpuNanosecondsPerOperation(
  run: (count: number) => unknown,
  { warmUpMilliseconds, measureMilliseconds }: CpuBudget,
): Promise<number> {
  let count = 1;
  while ((await cpuMilliseconds(() => run(count))) < batchMilliseconds) count *= 2;
  await repeat(run, count, warmUpMilliseconds);
  return repeat(run, count, measureMilliseconds);
}

/** CPU time of this process that `work` took. */
export async function cpuMilliseconds(work: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

async function repeat(run: (count: number) => unknown, count: number, milliseconds: number): Promise<number> {
  let spent = 0;
  let operations = 0;
  while (spent < milliseconds) {
    spent += await cpuMilliseconds(async () => {
      await run(count);
      // A loop of awaits alone never leaves the microtask queue: timers and weak references would pile up
      // as they never do in a real program.
      await setImmediate();
    });
    operations += count;
  }
  return (spent * 1e6) / operations;
}
