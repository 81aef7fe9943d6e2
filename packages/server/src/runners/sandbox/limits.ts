import type { WorkerLimits } from "./types.ts";

export const defaultLimits: WorkerLimits = {
  memoryMb: 256,
  cpuSeconds: 60,
  processes: 64,
  outputBytes: 10 * 1024 * 1024,
  scratchMb: 64,
  maxCallsPerWorker: 1000,
  idleMs: 60_000,
  concurrency: 4,
  workers: 4,
  initMs: 10_000,
  cleanupMs: 2_000,
  graceMs: 1_000,
};

/** In milliseconds. Beyond it a timer would not be late but go off at once. */
const longestTimer = 2 ** 31 - 1;

export function withDefaultLimits(limits: Partial<WorkerLimits> | undefined): WorkerLimits {
  if (limits === undefined) return defaultLimits;
  const { initMs, cleanupMs, graceMs, ...rest } = { ...defaultLimits, ...limits };
  return {
    ...rest,
    initMs: timerMs(initMs),
    cleanupMs: timerMs(cleanupMs),
    graceMs: timerMs(graceMs),
  };
}

export function timerMs(milliseconds: number): number {
  return Math.min(milliseconds, longestTimer);
}
