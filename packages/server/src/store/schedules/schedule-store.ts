export type ScheduleTiming =
  | { readonly kind: "once"; readonly at: number }
  | { readonly kind: "every"; readonly interval: number }
  | { readonly kind: "cron"; readonly expression: string; readonly timeZone?: string };

/** A tool that is to be called later, once or again and again. Times are milliseconds since the epoch. */
export interface StoredSchedule {
  readonly id: string;
  readonly toolName: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly caller: string;
  readonly timing: ScheduleTiming;
  /** What becomes of a run whose time passed while nothing was there to run it. */
  readonly missed: "run" | "skip";
  readonly state: "active" | "finished" | "cancelled";
  /** Present exactly while it is active. */
  readonly nextRunAt?: number;
  readonly lastRunAt?: number;
  readonly lastCallId?: string;
  readonly runs: number;
  readonly createdAt: number;
  /** When it ran for the last time, or was cancelled. */
  readonly endedAt?: number;
}

export type NewSchedule = Pick<
  StoredSchedule,
  "id" | "toolName" | "arguments" | "caller" | "timing" | "missed"
> & { readonly nextRunAt: number };

export interface ScheduleStep {
  /** The time that is due, as it was read. */
  readonly dueAt: number;
  /** The one after it; without it the schedule is finished. */
  readonly nextRunAt?: number;
  /** The call that runs now; without it the time is passed over. */
  readonly callId?: string;
}

export interface ScheduleStore {
  /** Resolves when it is safely written. */
  add(schedule: NewSchedule): Promise<StoredSchedule>;
  get(id: string): Promise<StoredSchedule | undefined>;
  /** The soonest first; those that will not run any more last. */
  list(query?: { readonly state?: StoredSchedule["state"] }): Promise<StoredSchedule[]>;
  /** Active ones whose time has come, at most 100, the longest overdue first. */
  listDue(now: number): Promise<StoredSchedule[]>;
  /** When the next active one is due. */
  nextRunAt(): Promise<number | undefined>;
  /**
   * Takes a due time off the schedule, before its call is made. True for one caller only, on all nodes and across
   * crashes: whoever gets it makes the call, so that no time is run twice.
   */
  advance(id: string, step: ScheduleStep): Promise<boolean>;
  /** False when it is not active. */
  cancel(id: string): Promise<boolean>;
}
