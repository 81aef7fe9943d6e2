import { AsyncLocalStorage } from "node:async_hooks";
import { InvalidArgumentError, type Logger, type ToolInfo, type ToolRegistry } from "@toolrack/core";
import { Cron } from "croner";
import { v7 as uuid } from "uuid";
import { type Grant, grantOf, masterGrant } from "../access/index.ts";
import type { ScheduleTiming, Store, StoredSchedule } from "../store/index.ts";
import type { CallBook } from "./call-book.ts";
import type { CallService } from "./call-service.ts";
import { SCHEDULE_TOOL, scheduleTool } from "./schedule-tool.ts";

export interface ScheduleParts {
  readonly registry: ToolRegistry;
  readonly store: Pick<Store, "schedules" | "tokens">;
  /** Where runs are handed in like all other calls: noted when they begin, limited, and recorded. */
  readonly desk: Pick<CallService, "run">;
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
class ScheduleRunner {
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
        this.#parts.logger.error(`Schedules cannot be read or advanced: ${textOf(thrown)}`);
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
    const { desk, logger } = this.#parts;
    const { id, toolName, arguments: input } = schedule;
    const grant = { ...creator, caller: `${SCHEDULE_TOOL}_${id}` };
    this.#running.add(id);
    try {
      // Nobody waits for it who could go away.
      const { signal } = new AbortController();
      const { result } = await desk.run({ name: toolName, input, grant, signal, callId });
      if (result.error !== undefined) {
        logger.warn(`The schedule ${id} ran "${toolName}", which failed: ${result.error.message}`);
      }
    } catch (thrown) {
      logger.warn(`The schedule ${id} could not run "${toolName}": ${textOf(thrown)}`);
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
    return `its next time cannot be told (${textOf(thrown)})`;
  }
}

function textOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

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

/** The same for the bearer of a token. */
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

/** When to run, as the caller of `schedule_tool` writes it. Exactly one of the first four is given. */
export interface TimingWish {
  readonly time?: string | undefined;
  readonly delaySeconds?: number | undefined;
  readonly interval?: string | undefined;
  readonly cron?: string | undefined;
  readonly timeZone?: string | undefined;
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** Beyond it, dates can no longer be shown. */
const LATEST = Date.UTC(9999, 0);
const moment =
  /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;

/** Throws `InvalidArgumentError`, which says what to write instead. */
export function parseTiming(wish: TimingWish, now: number): ScheduleTiming {
  const { time, delaySeconds, interval, cron } = wish;
  const given = Object.entries({ time, delaySeconds, interval, cron }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length !== 1) {
    const problem = given.length === 0 ? "None" : given.map(([key]) => key).join(" and ");
    throw invalid(`Say when with exactly one of time, delaySeconds, interval and cron. Given: ${problem}.`);
  }
  if (delaySeconds !== undefined) return { kind: "once", at: checkedTime(now + delaySeconds * 1000, now) };
  if (cron !== undefined) return parseCron(cron, zoneOf(wish.timeZone), now);
  if (interval !== undefined) return parseInterval(interval);
  // The older tool also took intervals here.
  if (time!.trim().startsWith("every@")) return parseInterval(time!);
  return { kind: "once", at: parseMoment(time!, wish.timeZone, now) };
}

/** The first time to run after `now`; nothing when there is none. `anchor` is the time before, or the creation. */
export function nextRunAt(timing: ScheduleTiming, anchor: number, now: number): number | undefined {
  if (timing.kind === "once") return timing.at > anchor ? timing.at : undefined;
  if (timing.kind === "cron") return nextOfCron(timing.expression, timing.timeZone, now);
  // Counted from the time before, so that runs that begin a little late do not add up.
  const passed = Math.max(0, Math.floor((now - anchor) / timing.interval));
  return anchor + (passed + 1) * timing.interval;
}

export function describeTiming(timing: ScheduleTiming): Record<string, string> {
  if (timing.kind === "once") return { time: new Date(timing.at).toISOString() };
  if (timing.kind === "every") return { interval: formatInterval(timing.interval) };
  const { expression, timeZone } = timing;
  return { cron: expression, ...(timeZone === undefined ? {} : { timeZone }) };
}

function parseInterval(text: string): ScheduleTiming {
  const [, amount, unit] = /^(?:every@)?(\d+)(s|m|h|d)$/.exec(text.trim()) ?? [];
  const interval = Number(amount) * (units[unit ?? ""] ?? 0);
  if (interval > 0 && interval <= 10_000 * units.d!) return { kind: "every", interval };
  throw invalid(
    `"${text}" is no interval. Write every@ and a whole number of s, m, h or d, such as every@5m; at least 1s, at most 10000d.`,
  );
}

function formatInterval(interval: number): string {
  const unit = ["d", "h", "m"].find((candidate) => interval % units[candidate]! === 0) ?? "s";
  return `every@${interval / units[unit]!}${unit}`;
}

function parseCron(expression: string, timeZone: string, now: number): ScheduleTiming {
  let next: number | undefined;
  try {
    next = nextOfCron(expression, timeZone, now);
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    throw invalid(
      `"${expression}" is no cron expression: ${reason} Write minute, hour, day, month and weekday, such as "0 9 * * 1-5".`,
    );
  }
  if (next === undefined) throw invalid(`No time ever fits the cron expression "${expression}".`);
  return { kind: "cron", expression, timeZone };
}

function parseMoment(text: string, timeZone: string | undefined, now: number): number {
  const [, year, month, day, hour = "0", minute = "00", second = "00", offset] =
    moment.exec(text.trim()) ?? [];
  if (year === undefined) throw noMoment(text);
  const two = (part: string | undefined) => part!.padStart(2, "0");
  const local = `${year}-${two(month)}-${two(day)}T${two(hour)}:${minute}:${second}`;
  // Dates such as February 30 would be taken for the days after.
  const plain = new Date(`${local}Z`);
  if (Number.isNaN(plain.getTime()) || plain.getUTCDate() !== Number(day)) throw noMoment(text);
  if (offset === undefined) return momentIn(local, zoneOf(timeZone), text, now);
  const at = Date.parse(local + offset.toUpperCase().replace(/^([+-]\d\d)(\d\d)$/, "$1:$2"));
  if (Number.isNaN(at)) throw noMoment(text);
  return checkedTime(at, now);
}

/** The clock of a zone jumps twice a year; croner knows where. */
function momentIn(local: string, timeZone: string, text: string, now: number): number {
  const at = nextOfCron(local, timeZone, now);
  if (at === undefined) throw isOver(`${text} (${timeZone})`, now);
  return checkedTime(at, now);
}

function nextOfCron(expression: string, timeZone: string | undefined, now: number): number | undefined {
  const cron = new Cron(expression, {
    paused: true,
    ...(timeZone === undefined ? {} : { timezone: timeZone }),
  });
  return cron.nextRun(new Date(now))?.getTime();
}

/** The server's own when none is given: kept with the schedule, so that it stays when the server moves. */
function zoneOf(timeZone: string | undefined): string {
  try {
    return new Intl.DateTimeFormat("en", timeZone === undefined ? {} : { timeZone }).resolvedOptions()
      .timeZone;
  } catch {
    throw invalid(`"${timeZone}" is no time zone. Use an IANA name such as Asia/Shanghai.`);
  }
}

function checkedTime(at: number, now: number): number {
  const rounded = Math.round(at);
  if (rounded > LATEST) throw invalid("The time is after the year 9998. Choose an earlier one.");
  if (rounded < now) throw isOver(new Date(rounded).toISOString(), now);
  return rounded;
}

function isOver(when: string, now: number): InvalidArgumentError {
  return invalid(`${when} is over: it is ${new Date(now).toISOString()} now. Choose a later time.`);
}

function noMoment(text: string): InvalidArgumentError {
  return invalid(
    `"${text}" is no time. Write 2026-03-15T09:30:00+08:00, or 2026-03-15 09:30:00 with a timeZone.`,
  );
}

function invalid(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { toolName: "schedule_tool" });
}
