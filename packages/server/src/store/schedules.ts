import { toKey } from "./forms.ts";
import type { ScheduleRow, StoreDatabase } from "./schema.ts";
import { toJson } from "./values.ts";

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

interface ScheduleStep {
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

const DUE_AT_ONCE = 100;

export class ScheduleRepository implements ScheduleStore {
  readonly #db: StoreDatabase;

  constructor(db: StoreDatabase) {
    this.#db = db;
  }

  async add(schedule: NewSchedule): Promise<StoredSchedule> {
    const row: ScheduleRow = {
      id: schedule.id,
      tool_name: toKey(schedule.toolName),
      caller: toKey(schedule.caller),
      state: "active",
      next_run_at: Math.round(schedule.nextRunAt),
      last_run_at: null,
      last_call_id: null,
      runs: 0,
      missed: schedule.missed,
      created_at: Date.now(),
      timing: toJson(schedule.timing),
      input: toJson(schedule.arguments),
      ended_at: null,
    };
    await this.#db.insertInto("schedules").values(row).execute();
    return toSchedule(row);
  }

  async get(id: string): Promise<StoredSchedule | undefined> {
    const row = await this.#db.selectFrom("schedules").selectAll().where("id", "=", id).executeTakeFirst();
    return row === undefined ? undefined : toSchedule(row);
  }

  async list({ state }: { readonly state?: StoredSchedule["state"] } = {}): Promise<StoredSchedule[]> {
    const all = this.#db.selectFrom("schedules").selectAll();
    const rows = await (state === undefined ? all : all.where("state", "=", state))
      // Engines place nulls differently.
      .orderBy(({ case: choose }) => choose().when("next_run_at", "is", null).then(1).else(0).end())
      .orderBy("next_run_at")
      .orderBy("created_at", "desc")
      .orderBy("id")
      .execute();
    return rows.map(toSchedule);
  }

  async listDue(now: number): Promise<StoredSchedule[]> {
    const rows = await this.#db
      .selectFrom("schedules")
      .selectAll()
      .where("state", "=", "active")
      .where("next_run_at", "<=", Math.floor(now))
      .orderBy("next_run_at")
      .orderBy("id")
      .limit(DUE_AT_ONCE)
      .execute();
    return rows.map(toSchedule);
  }

  async nextRunAt(): Promise<number | undefined> {
    const row = await this.#db
      .selectFrom("schedules")
      .select("next_run_at")
      .where("state", "=", "active")
      .orderBy("next_run_at")
      .limit(1)
      .executeTakeFirst();
    return row?.next_run_at ?? undefined;
  }

  async advance(id: string, { dueAt, nextRunAt, callId }: ScheduleStep): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable("schedules")
      .set(({ eb }) => ({
        state: nextRunAt === undefined ? "finished" : "active",
        next_run_at: nextRunAt === undefined ? null : Math.round(nextRunAt),
        ended_at: nextRunAt === undefined ? Date.now() : null,
        ...(callId === undefined
          ? {}
          : { last_run_at: Date.now(), last_call_id: toKey(callId), runs: eb("runs", "+", 1) }),
      }))
      .where("id", "=", id)
      .where("state", "=", "active")
      .where("next_run_at", "=", dueAt)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async cancel(id: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable("schedules")
      .set({ state: "cancelled", next_run_at: null, ended_at: Date.now() })
      .where("id", "=", id)
      .where("state", "=", "active")
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Deletes those that ended before the given time. */
  async prune(oldest: number): Promise<void> {
    await this.#db
      .deleteFrom("schedules")
      .where("state", "!=", "active")
      .where("ended_at", "<", Math.floor(oldest))
      .execute();
  }
}

function toSchedule(row: ScheduleRow): StoredSchedule {
  return {
    id: row.id,
    toolName: row.tool_name,
    // Both were written by `add` above.
    arguments: JSON.parse(row.input) as StoredSchedule["arguments"],
    timing: JSON.parse(row.timing) as StoredSchedule["timing"],
    caller: row.caller,
    missed: row.missed,
    state: row.state,
    ...(row.next_run_at === null ? {} : { nextRunAt: row.next_run_at }),
    ...(row.last_run_at === null ? {} : { lastRunAt: row.last_run_at }),
    ...(row.last_call_id === null ? {} : { lastCallId: row.last_call_id }),
    runs: row.runs,
    createdAt: row.created_at,
    ...(row.ended_at === null ? {} : { endedAt: row.ended_at }),
  };
}
