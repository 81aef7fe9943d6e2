import type { StoredSchedule } from "../store/schedules/schedule-store.ts";
import { describeTiming } from "./timing.ts";

/** A schedule as people and models are shown it. */
export function scheduleView(schedule: StoredSchedule): Record<string, unknown> {
  const { id, toolName, timing, missed, state, runs, lastCallId } = schedule;
  return {
    id,
    toolName,
    toolArgs: schedule.arguments,
    state,
    ...describeTiming(timing),
    ...(schedule.nextRunAt === undefined ? {} : { nextRun: new Date(schedule.nextRunAt).toISOString() }),
    ...(schedule.lastRunAt === undefined ? {} : { lastRun: new Date(schedule.lastRunAt).toISOString() }),
    ...(lastCallId === undefined ? {} : { lastCallId }),
    runs,
    missed: missed === "run" ? "run_once" : "skip",
  };
}
