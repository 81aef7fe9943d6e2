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

export function withDefaultLimits(limits: Partial<WorkerLimits> | undefined): WorkerLimits {
  return limits === undefined ? defaultLimits : { ...defaultLimits, ...limits };
}
