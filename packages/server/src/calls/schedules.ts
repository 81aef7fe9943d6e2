import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { type Grant, grantOf, masterGrant } from "../access/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { Store, StoredSchedule } from "../store/index.ts";
import type { CallBook } from "./call-book.ts";
import type { CallService } from "./call-service.ts";
import { describeTiming, nextRunAt } from "./timing.ts";

export const SCHEDULE_TOOL = "schedule_tool";

export interface ScheduleParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "schedules" | "tokens">;
  /** Where runs are handed in like all other calls: noted when they begin, limited, and recorded. */
  readonly service: Pick<CallService, "run">;
  readonly book: Pick<CallBook, "of">;
  readonly logger: Logger;
}

/**
 * The longest wait before the store is asked again: another process may have added a schedule and gone. It is also far
 * below the 24 days after which Node's timers fire at once.
 */
const LONGEST_WAIT = 30_000;
/** The store may be about to say that something is due that it does not give away: not to ask it without a pause. */
const SHORTEST_WAIT = 10;
const WAIT_AFTER_FAILURE = 5_000;
/** A time that is longer ago was missed. More than the longest wait, so that nothing is missed by waiting. */
const MISSED_AFTER = 60_000;
/** The clock was set back when it lost so much against one that nobody can set. */
const SET_BACK = 1_000;

/** Runs what is due. Each due time is taken off in the store before its call, so that it runs once at the most. */
export class ScheduleRunner {
  readonly #parts: ScheduleParts;
  /** Schedules with a run under way here. */
  readonly #running = new Set<string>();
  /** Runs belong to no call, also when a call has woken us. */
  readonly #outside = AsyncLocalStorage.snapshot();
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> | undefined;
  #isWanted = false;
  #isClosed = false;
  /** How far the system's clock was ahead of the `performance` clock at the last look. */
  #ahead = Number.POSITIVE_INFINITY;

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
  }

  /** Looks at what is due, and waits for what comes next. To be called at the start and after every change. */
  wake(): void {
    this.#isWanted = true;
    if (this.#isClosed || this.#work !== undefined) return;
    this.#work = this.#outside(() => this.#look());
  }

  /** Starts no more runs. Those under way are calls like any others, and end with them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#work;
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    let wait = LONGEST_WAIT;
    while (this.#isWanted && !this.#isClosed) {
      this.#isWanted = false;
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

  /** Answers how long to wait. */
  async #takeDue(): Promise<number> {
    const { schedules } = this.#parts.store;
    const ahead = Date.now() - performance.now();
    if (ahead < this.#ahead - SET_BACK) await this.#bringForward();
    this.#ahead = ahead;
    for (let hasTaken = true; hasTaken; ) {
      hasTaken = false;
      for (const schedule of await schedules.listDue(Date.now())) {
        if (this.#isClosed) return LONGEST_WAIT;
        if (await this.#take(schedule, schedule.nextRunAt!)) hasTaken = true;
      }
    }
    const next = (await schedules.nextRunAt()) ?? Number.POSITIVE_INFINITY;
    return Math.min(Math.max(next - Date.now(), SHORTEST_WAIT), LONGEST_WAIT);
  }

  /**
   * After the clock was set back, the next run of an interval may be further away than the interval is long. It is an
   * interval from now then. A time of day stays: it was run, and is not run again when the clock passes it once more.
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
    const creator = await creatorOfSchedule(schedule, store.tokens);
    const refusal = typeof next === "string" ? next : this.#refusal(schedule, creator);
    if (refusal !== undefined) {
      logger.warn(`The schedule ${id} of "${toolName}" is cancelled: ${refusal}.`);
      return store.schedules.cancel(id);
    }
    const passOver = this.#reasonToPassOver(schedule, dueAt, now);
    const callId = uuid();
    const step = { dueAt, ...(typeof next === "number" ? { nextRunAt: next } : {}) };
    if (!(await store.schedules.advance(id, passOver === undefined ? { ...step, callId } : step)))
      return false;
    if (passOver === undefined) void this.#run(schedule, creator.grant!, callId);
    else logger.warn(`The schedule ${id} does not run "${toolName}" this time: ${passOver}.`);
    return true;
  }

  #reasonToPassOver({ id, missed }: StoredSchedule, dueAt: number, now: number): string | undefined {
    if (this.#running.has(id)) return "its last run is still under way";
    if (missed === "run" || now - dueAt <= MISSED_AFTER) return undefined;
    return `it was due at ${new Date(dueAt).toISOString()}, when nothing was there to run it`;
  }

  /** What was allowed when it was made may not be any more. */
  #refusal(schedule: StoredSchedule, { grant }: Creator): string | undefined {
    const tool = this.#parts.registry.get(schedule.toolName) ?? { name: schedule.toolName };
    if (tool.name === SCHEDULE_TOOL) return "a schedule may not make schedules";
    if (grant === undefined) return "the token that it was made with was removed or has expired";
    return grant.mayUse(tool) ? undefined : "the token that it was made with may not use that tool";
  }

  /** The whole chain of calls may reach no more than the creator may. Never rejects. */
  async #run(schedule: StoredSchedule, creator: Grant, callId: string): Promise<void> {
    const { service, logger } = this.#parts;
    const { id, toolName, arguments: input } = schedule;
    const grant = { ...creator, caller: `${SCHEDULE_TOOL}_${id}` };
    this.#running.add(id);
    try {
      // Nobody waits for it who could go away.
      const { signal } = new AbortController();
      const { result } = await service.run({ name: toolName, input, grant, signal, callId });
      if (result.error !== undefined) {
        logger.warn(`The schedule ${id} ran "${toolName}", which failed: ${result.error.message}`);
      }
    } catch (thrown) {
      logger.warn(`The schedule ${id} could not run "${toolName}": ${reasonOf(thrown)}`);
    } finally {
      this.#running.delete(id);
    }
  }
}

/** A cron expression or time zone that was right when it was made may be unknown to the Node that runs it now. */
function nextOrReason({ timing }: StoredSchedule, dueAt: number, now: number): number | string | undefined {
  try {
    return nextRunAt(timing, dueAt, now);
  } catch (thrown) {
    return `its next time cannot be told (${reasonOf(thrown)})`;
  }
}

type CreatorStore = Pick<Store, "schedules" | "tokens">;

/** Whoever made a schedule. It is kept with the schedule, whose runs may do no more than its creator may. */
export interface Creator {
  /** `token:<id>`, or the caller as it is when no token is behind it. */
  readonly key: string;
  /** Nobody's when the token was removed or has expired, or nobody knows whose call it was. */
  readonly grant: Grant | undefined;
}

const prefix = "token:";

/** Who makes a call now, by the caller at the beginning of its chain. */
export async function creatorOfCall(origin: string | undefined, store: CreatorStore): Promise<Creator> {
  if (origin === undefined) return { key: "", grant: undefined };
  for (const token of await store.tokens.list()) {
    const grant = grantOf(token);
    if (grant.caller === origin) return { key: prefix + token.id, grant };
  }
  // What runs by a schedule has the rights of whoever made that one.
  const scheduled = origin.startsWith(`${SCHEDULE_TOOL}_`)
    ? await store.schedules.get(origin.slice(SCHEDULE_TOOL.length + 1))
    : undefined;
  return scheduled === undefined
    ? { key: origin, grant: masterGrant }
    : creatorOfSchedule(scheduled, store.tokens);
}

/** Looked up anew each time: what the token may do now counts, also after a restart. */
async function creatorOfSchedule(schedule: StoredSchedule, tokens: Store["tokens"]): Promise<Creator> {
  const key = schedule.caller;
  if (!key.startsWith(prefix)) return { key, grant: masterGrant };
  const token = (await tokens.list()).find(({ id }) => prefix + id === key);
  const isValid = token !== undefined && (token.expiresAt === undefined || token.expiresAt > Date.now());
  return { key, grant: isValid ? grantOf(token) : undefined };
}

/** A token without admin rights sees its own schedules and no others. */
export function maySee({ key, grant }: Creator, schedule: StoredSchedule): boolean {
  return grant !== undefined && (grant.admin || schedule.caller === key);
}

/** The same for a caller with this grant. */
export function creatorOfGrant(grant: Grant): Creator {
  return { key: grant === masterGrant ? grant.caller : prefix + grant.id, grant };
}

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
