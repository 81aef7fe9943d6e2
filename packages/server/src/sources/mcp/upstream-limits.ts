import type { ServerLimits } from "./config/server-entry.ts";

const defaults = {
  connect: 60_000,
  list: 30_000,
  concurrency: 16,
  queue: 256,
  question: 300_000,
  refresh: 600_000,
} as const satisfies ServerLimits;

/** The limits that every server has, and those that it may have. */
export type UpstreamLimits = Required<Pick<ServerLimits, keyof typeof defaults>> & ServerLimits;

export function limitsOf(given: ServerLimits | undefined): UpstreamLimits {
  return { ...defaults, ...given };
}
