import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { findGrant, type Grant, grantOfCaller, masterGrant } from "../access/index.ts";
import { defined, reasonOf } from "../helpers/index.ts";
import type { Following, ScheduleQuery, Store, StoredSchedule } from "../store/index.ts";
import type { CallBook } from "./call-book.ts";
import type { CallService } from "./call-service.ts";
import { describeTiming, nextRunAt } from "./schedule-timing.ts";

export const SCHEDULE_TOOL = "schedule_tool";

export interface ScheduleParts {
  readonly store: Pick<Store, "schedules" | "tokens" | "follower">;
  readonly service: Pick<CallService, "run">;
  readonly book: Pick<CallBook, "registry" | "firstCallerOf">;
  readonly logger: Logger;
}

/**
 * Milliseconds after which the store is read again at the latest: another process may have added a schedule.
 * Far below 24 days: Node fires a timer with a longer delay at once.
 */
const LONGEST_WAIT = 30_000;
/** The same where the database announces what other processes do. */
const LONGEST_ANNOUNCED = 600_000;
/**
 * Milliseconds. Without this pause, the store would be read in a tight loop while another process is taking a
 * due schedule.
 */
const SHORTEST_WAIT = 10;
const WAIT_AFTER_FAILURE = 5_000;
/**
 * Milliseconds after which a due time that did not run counts as missed. More than `LONGEST_WAIT`, so that no
 * time is missed only because the runner was waiting.
 */
const MISSED_AFTER = 60_000;
/** The system's clock was set back when it lost this many milliseconds against the `performance` clock. */
const SET_BACK_MS = 1_000;

const STILL_RUNNING = "its last run is still under way";

/**
 * Runs due schedules. A schedule's next due time is written to the store before its call is made, so that no
 * due time runs twice.
 */
export class ScheduleRunner {
  readonly #parts: ScheduleParts;
  /** The ids of schedules with a run under way in this process. */
  readonly #running = new Set<string>();
  /**
   * Leaves the async context of the call that wakes the runner, because scheduled runs do not belong to the
   * chain of that call.
   */
  readonly #runOutsideCalls = AsyncLocalStorage.snapshot();
  readonly #following: Following;
  #hasStarted = false;
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> | undefined;
  #isLookWanted = false;
  #isClosed = false;
  /** How far the system's clock was ahead of the `performance` clock at the last check. */
  #clockLead = Number.POSITIVE_INFINITY;

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
    // Another node may have added a schedule, or have run one and then died before its next time.
    this.#following = parts.store.follower.follow("schedules", {
      refresh: async (isAnnounced) => {
        if (isAnnounced && this.#hasStarted) this.wake();
      },
      failed: () => {},
    });
  }

  /**
   * Runs the schedules that are due and sets a timer for the next one. Must be called at the start and after
   * a schedule was added.
   */
  wake(): void {
    this.#isLookWanted = true;
    this.#hasStarted = true;
    if (this.#isClosed || this.#work !== undefined) return;
    this.#work = this.#runOutsideCalls(() => this.#look());
  }

  /** Starts no more runs. Runs under way end like all other calls. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#following.stop();
    await this.#work;
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    let wait = LONGEST_WAIT;
    while (this.#isLookWanted && !this.#isClosed) {
      this.#isLookWanted = false;
      wait = await this.#takeDue().catch((thrown: unknown) => {
        this.#parts.logger.error(`Schedules cannot be read or advanced: ${reasonOf(thrown)}`);
        return WAIT_AFTER_FAILURE;
      });
    }
    this.#work = undefined;
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.wake(), wait);
    this.#timer.unref();
  }

  /** Runs all due schedules. Returns how many milliseconds to wait until the store is read again. */
  async #takeDue(): Promise<number> {
    const { schedules } = this.#parts.store;
    const ahead = Date.now() - performance.now();
    if (ahead < this.#clockLead - SET_BACK_MS) await this.#bringForward();
    this.#clockLead = ahead;
    for (let hasTaken = true; hasTaken; ) {
      hasTaken = false;
      for (const schedule of await schedules.listDue(Date.now())) {
        if (this.#isClosed) return LONGEST_WAIT;
        if (await this.#take(schedule, schedule.nextRunAt!)) hasTaken = true;
      }
    }
    const next = (await schedules.nextRunAt()) ?? Number.POSITIVE_INFINITY;
    const longest = this.#parts.store.follower.isAnnounced("schedules") ? LONGEST_ANNOUNCED : LONGEST_WAIT;
    return Math.min(Math.max(next - Date.now(), SHORTEST_WAIT), longest);
  }

  /**
   * After the clock was set back, the next run of an interval may be further away than the interval is long;
   * then it is set to one interval from now. Schedules with a time of day stay as they are: what has run does
   * not run again when the clock passes its time once more.
   */
  async #bringForward(): Promise<void> {
    const { schedules } = this.#parts.store;
    for (const { id, timing, nextRunAt: dueAt } of await schedules.list({ state: "active" })) {
      if (timing.kind !== "every" || dueAt === undefined) continue;
      const next = Date.now() + timing.interval;
      if (dueAt > next) await schedules.advance(id, { dueAt, nextRunAt: next });
    }
  }

  async #take(schedule: StoredSchedule, dueAt: number): Promise<boolean> {
    const { store, logger } = this.#parts;
    const { id, toolName } = schedule;
    const now = Date.now();
    const next = nextOrReason(schedule, dueAt, now);
    const { grant } = await creatorOfSchedule(schedule, store.tokens);
    const refusal = typeof next === "string" ? next : this.#refusal(schedule, grant);
    if (refusal !== undefined) {
      logger.warn(`The schedule ${id} of "${toolName}" is cancelled: ${refusal}.`);
      return store.schedules.cancel(id);
    }
    let skipReason = this.#reasonToSkip(schedule, dueAt, now);
    const nextRunAt = typeof next === "number" ? next : undefined;
    if (skipReason === undefined) {
      const callId = uuid();
      const isTaken = await store.schedules.advance(id, { dueAt, nextRunAt, callId });
      if (isTaken === "busy") skipReason = STILL_RUNNING;
      else if (isTaken) void this.#run(schedule, grant!, callId);
      if (isTaken !== "busy") return isTaken;
    }
    if (!(await store.schedules.advance(id, { dueAt, nextRunAt }))) return false;
    logger.warn(`The schedule ${id} does not run "${toolName}" this time: ${skipReason}.`);
    return true;
  }

  #reasonToSkip({ id, missed }: StoredSchedule, dueAt: number, now: number): string | undefined {
    if (this.#running.has(id)) return STILL_RUNNING;
    if (missed === "run" || now - dueAt <= MISSED_AFTER) return undefined;
    return `it was due at ${new Date(dueAt).toISOString()}, when nothing was there to run it`;
  }

  /** Why the schedule, which was allowed when it was made, may no longer run; undefined when it may. */
  #refusal({ toolName }: StoredSchedule, grant: Grant | undefined): string | undefined {
    const tool = this.#parts.book.registry.get(toolName) ?? { name: toolName };
    if (tool.name === SCHEDULE_TOOL) return "a schedule may not make schedules";
    if (grant === undefined) return "the token that it was made with was removed or has expired";
    return grant.mayUse(tool) ? undefined : "the token that it was made with may not use that tool";
  }

  /**
   * Makes the schedule's call. The whole chain of calls may use only tools that the schedule's creator may
   * use. Never rejects.
   */
  async #run(schedule: StoredSchedule, creator: Grant, callId: string): Promise<void> {
    const { service, logger } = this.#parts;
    const { id, toolName, arguments: input } = schedule;
    const grant = { ...creator, caller: `${SCHEDULE_TOOL}_${id}` };
    this.#running.add(id);
    try {
      const { result } = await service.run({
        name: toolName,
        input,
        grant,
        callId,
        tid: id,
        via: `schedule ${id}`,
      });
      if (result.error !== undefined)
        logger.warn(`The schedule ${id} ran "${toolName}", which failed: ${result.error.message}`);
    } catch (thrown) {
      logger.warn(`The schedule ${id} could not run "${toolName}": ${reasonOf(thrown)}`);
    } finally {
      this.#running.delete(id);
    }
  }
}

/**
 * Returns the next due time, or the reason why it cannot be computed: the program or Node may have changed
 * since, and no longer know a cron expression or time zone that was valid when the schedule was made.
 */
function nextOrReason({ timing }: StoredSchedule, dueAt: number, now: number): number | string | undefined {
  try {
    return nextRunAt(timing, dueAt, now);
  } catch (thrown) {
    return `its next time cannot be told (${reasonOf(thrown)})`;
  }
}

type CreatorStore = Pick<Store, "schedules" | "tokens">;

/** The caller that made a schedule. The runs of the schedule may do no more than this caller may. */
export interface Creator {
  /** `token:<id>`, or the name of the caller when it has no token. */
  readonly key: string;
  /** Undefined when the token was removed or has expired, or the caller is not known. */
  readonly grant: Grant | undefined;
}

const prefix = "token:";

/** The creator of the schedules that a call makes. `origin` is the caller of the first call of its chain. */
export async function creatorOfCall(origin: string | undefined, store: CreatorStore): Promise<Creator> {
  if (origin === undefined) return { key: "", grant: undefined };
  const grant = await findGrant(store.tokens, ({ caller }) => caller === origin);
  if (grant !== undefined) return { key: prefix + grant.id, grant };
  // A scheduled run has the rights of the creator of its schedule.
  const scheduled = origin.startsWith(`${SCHEDULE_TOOL}_`)
    ? await store.schedules.get(origin.slice(SCHEDULE_TOOL.length + 1))
    : undefined;
  return scheduled === undefined
    ? { key: origin, grant: masterGrant }
    : creatorOfSchedule(scheduled, store.tokens);
}

/** The token's grant is looked up each time, because what the token may do now counts. */
async function creatorOfSchedule({ caller: key }: StoredSchedule, tokens: Store["tokens"]): Promise<Creator> {
  const isToken = key.startsWith(prefix);
  return { key, grant: isToken ? await grantOfCaller(key.slice(prefix.length), tokens) : masterGrant };
}

/** A token without admin rights sees its own schedules and no others. */
export function maySee({ key, grant }: Creator, schedule: StoredSchedule): boolean {
  return grant !== undefined && (grant.admin || schedule.caller === key);
}

/** All that the creator may see. */
export async function visibleSchedules(
  { key, grant }: Creator,
  { schedules }: Pick<Store, "schedules">,
  state: ScheduleQuery["state"],
): Promise<StoredSchedule[]> {
  return grant === undefined ? [] : schedules.list({ state, ...(!grant.admin && { caller: key }) });
}

export function creatorOfGrant(grant: Grant): Creator {
  return { key: grant === masterGrant ? grant.caller : prefix + grant.id, grant };
}

export function scheduleView(schedule: StoredSchedule): Record<string, unknown> {
  const { id, toolName, timing, missed, state, runs, nextRunAt, lastRunAt, lastCallId } = schedule;
  const shown = (at: number | undefined) => (at === undefined ? undefined : new Date(at).toISOString());
  return {
    id,
    toolName,
    toolArgs: schedule.arguments,
    state,
    ...describeTiming(timing),
    ...defined({ nextRun: shown(nextRunAt), lastRun: shown(lastRunAt), lastCallId }),
    runs,
    missed: missed === "run" ? "run_once" : "skip",
  };
}
