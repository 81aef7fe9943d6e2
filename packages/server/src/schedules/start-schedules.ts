import type { ToolInfo } from "@toolrack/core";
import { type ScheduleParts, ScheduleRunner } from "./schedule-runner.ts";
import { scheduleTool } from "./schedule-tool.ts";

export interface Schedules {
  /** To be hung on the rack by whoever starts this. */
  readonly tools: readonly ToolInfo[];
  /** Starts no more runs. Those under way are calls like any others: drain them with the rest. */
  close(): Promise<void>;
}

/** Resumes the schedules of the store. To be called when the tools are on the rack: overdue runs begin at once. */
export async function startSchedules(parts: ScheduleParts): Promise<Schedules> {
  const runner = new ScheduleRunner(parts);
  runner.wake();
  return { tools: [scheduleTool(parts, () => runner.wake())], close: () => runner.close() };
}
