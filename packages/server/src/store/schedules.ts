import { sql } from "kysely";
import type { Instance } from "./instances.ts";
import { toKey } from "./keys.ts";
import { changesRows, deleteInSteps, findRow, json, rowMap, updateRows } from "./row-mapping.ts";
import type { StoreDatabase } from "./schema.ts";

export type ScheduleTiming =
  | { readonly kind: "once"; readonly at: number }
  | { readonly kind: "every"; readonly interval: number }
  | { readonly kind: "cron"; readonly expression: string; readonly timeZone?: string };

/** A tool call that is planned once or repeatedly. Times are milliseconds since the epoch. */
export interface StoredSchedule {
  readonly id: string;
  readonly toolName: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly caller: string;
  readonly timing: ScheduleTiming;
  /** What happens to a run whose time passed while no server ran. */
  readonly missed: "run" | "skip";
  readonly state: "active" | "paused" | "finished" | "cancelled";
  /** Present exactly while the schedule is active. */
  readonly nextRunAt?: number;
  readonly lastRunAt?: number;
  readonly lastCallId?: string;
  readonly runs: number;
  readonly createdAt: number;
  /** When the schedule was finished by its last run, or cancelled. */
  readonly endedAt?: number;
}

export type NewSchedule = Pick<
  StoredSchedule,
  "id" | "toolName" | "arguments" | "caller" | "timing" | "missed"
> & { readonly nextRunAt: number };

export interface ScheduleQuery {
  /** `open`: active or paused. */
  readonly state?: StoredSchedule["state"] | "open" | undefined;
  readonly caller?: string;
}

interface ScheduleStep {
  /** The time that is due, as `nextRunAt` of the schedule was read. */
  readonly dueAt: number;
  /** When the schedule is due next; without it the schedule is finished. */
  readonly nextRunAt?: number;
  /** The call that is made for `dueAt`; without it that time is skipped. */
  readonly callId?: string;
}

const DUE_AT_ONCE = 100;
/** How many of those that have ended are listed. */
const MOST_ENDED = 500;
/** Milliseconds in which the row of a schedule's call is written, after the schedule was moved on to it. */
const TIME_TO_BEGIN = 2_000;

const map = rowMap<StoredSchedule>()("schedules", { arguments: json("input"), timing: json() });

/** In the table, a paused schedule is an active one without a next time. */
const schedules = {
  toRow: (record: StoredSchedule) => map.toRow(record),
  toRecord(row: Parameters<typeof map.toRecord>[0]): StoredSchedule {
    const record = map.toRecord(row);
    return record.state === "active" && record.nextRunAt === undefined
      ? { ...record, state: "paused" }
      : record;
  },
};

export class ScheduleRepository {
  readonly #db: StoreDatabase;
  readonly #instance: Pick<Instance, "id">;

  constructor(db: StoreDatabase, instance: Pick<Instance, "id">) {
    this.#db = db;
    this.#instance = instance;
  }

  async add(schedule: NewSchedule): Promise<StoredSchedule> {
    const row = schedules.toRow({ ...schedule, state: "active", runs: 0, createdAt: Date.now() });
    await this.#db.insertInto("schedules").values(row).execute();
    return schedules.toRecord(row);
  }

  async get(id: string): Promise<StoredSchedule | undefined> {
    const row = await findRow(this.#db, "schedules", { id });
    return row && schedules.toRecord(row);
  }

  /**
   * First those that are open, sorted by `nextRunAt`, paused ones last; then the 500 that ended last. `caller`: only those
   * of this one.
   */
  async list({ state, caller }: ScheduleQuery = {}): Promise<StoredSchedule[]> {
    let rows = this.#ofState(state).selectAll();
    if (caller !== undefined) rows = rows.where("caller", "=", toKey(caller));
    const open = rows
      .where("state", "=", "active")
      // Engines sort nulls differently.
      .orderBy(({ case: choose }) => choose().when("next_run_at", "is", null).then(1).else(0).end())
      .orderBy("next_run_at")
      .orderBy("created_at", "desc")
      .orderBy("id");
    const ended = rows.where("ended_at", "is not", null).orderBy("ended_at", "desc").orderBy("id", "desc");
    const found = [...(await open.execute()), ...(await ended.limit(MOST_ENDED).execute())];
    return found.map(schedules.toRecord);
  }

  /** How many have not ended: the active and the paused ones. */
  async countOpen(): Promise<number> {
    const open = this.#db.selectFrom("schedules").where("state", "=", "active");
    const count = open.select(({ fn }) => fn.countAll().as("open"));
    return Number((await count.executeTakeFirstOrThrow()).open);
  }

  /** Active schedules whose time has come, at most 100, the longest overdue first. */
  async listDue(now: number): Promise<StoredSchedule[]> {
    const due = this.#active().selectAll().where("next_run_at", "<=", Math.floor(now));
    const rows = await due.orderBy("next_run_at").orderBy("id").limit(DUE_AT_ONCE).execute();
    return rows.map(schedules.toRecord);
  }

  async nextRunAt(): Promise<number | undefined> {
    const next = this.#active().select("next_run_at").orderBy("next_run_at").limit(1);
    return (await next.executeTakeFirst())?.next_run_at ?? undefined;
  }

  /**
   * Moves the schedule on from a due time, before the call is made. Of all processes that try this, on any
   * node and after any crash, one gets true and makes the call, so that no due time is run twice. `busy`: nothing was
   * changed, because the schedule's last call still runs on another node. Which calls this process runs, the caller knows.
   */
  async advance(id: string, { dueAt, nextRunAt, callId }: ScheduleStep): Promise<boolean | "busy"> {
    let change = this.#db
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
      .where("next_run_at", "=", dueAt);
    if (callId === undefined) return changesRows(change);
    // The call's row is written before the call begins, a moment after the schedule was moved on.
    const begun = Date.now() - TIME_TO_BEGIN;
    change = change.where(({ not, or, and, eb, exists, selectFrom }) => {
      const last = selectFrom("calls").select("call_id").whereRef("call_id", "=", "schedules.last_call_id");
      return not(
        or([
          exists(last.where("state", "=", "running").where("instance", "!=", this.#instance.id)),
          and([eb(eb.fn.coalesce("last_run_at", eb.val(0)), ">", begun), not(exists(last))]),
        ]),
      );
    });
    if (await changesRows(change)) return true;
    const now = await findRow(this.#db, "schedules", { id, state: "active", next_run_at: dueAt });
    return now !== undefined && "busy";
  }

  /** False when the schedule is not active. */
  pause(id: string): Promise<boolean> {
    const change = this.#db.updateTable("schedules").set({ next_run_at: null }).where("id", "=", id);
    return changesRows(change.where("state", "=", "active").where("next_run_at", "is not", null));
  }

  /** False when the schedule is not paused. */
  resume(id: string, nextRunAt: number): Promise<boolean> {
    const next = { next_run_at: Math.round(nextRunAt) };
    const change = this.#db.updateTable("schedules").set(next).where("id", "=", id);
    return changesRows(change.where("state", "=", "active").where("next_run_at", "is", null));
  }

  /** False when the schedule is neither active nor paused. */
  async cancel(id: string): Promise<boolean> {
    const changes = { state: "cancelled", next_run_at: null, ended_at: Date.now() } as const;
    return (await updateRows(this.#db, "schedules", { id, state: "active" }, changes)) > 0;
  }

  /** Deletes schedules that ended before the given time. */
  async prune(oldest: number): Promise<void> {
    await deleteInSteps(
      this.#db,
      sql`schedules where state <> 'active' and ended_at < ${Math.floor(oldest)}`,
    );
  }

  #active() {
    return this.#ofState("active");
  }

  #ofState(state: ScheduleQuery["state"]) {
    const all = this.#db.selectFrom("schedules");
    if (state === undefined) return all;
    if (state === "finished" || state === "cancelled") return all.where("state", "=", state);
    const open = all.where("state", "=", "active");
    return state === "open" ? open : open.where("next_run_at", state === "active" ? "is not" : "is", null);
  }
}
