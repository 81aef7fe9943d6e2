import { InvalidArgumentError } from "@toolrack/core";
import { Cron } from "croner";
import { defined, RecentMap, reasonOf } from "../helpers/index.ts";
import type { ScheduleTiming } from "../store/index.ts";

/** When to run, as the caller of `schedule_tool` writes it. Exactly one of the first four is given. */
export interface GivenTiming {
  readonly time?: string;
  readonly delaySeconds?: number;
  readonly interval?: string;
  readonly cron?: string;
  readonly timeZone?: string;
}

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The last time that is accepted, well before years need a fifth digit. */
const LATEST = Date.UTC(9999, 0);
const moment =
  /^(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;

/** Throws `InvalidArgumentError`, which says what to write instead. */
export function parseTiming(given: GivenTiming, now: number): ScheduleTiming {
  const { time, delaySeconds, interval, cron } = given;
  const keys = Object.keys(defined({ time, delaySeconds, interval, cron }));
  if (keys.length !== 1) {
    throw invalid(
      `Say when with exactly one of time, delaySeconds, interval and cron. Given: ${keys.join(" and ") || "None"}.`,
    );
  }
  if (delaySeconds !== undefined) return { kind: "once", at: checkedTime(now + delaySeconds * 1000, now) };
  if (cron !== undefined) return parseCron(cron, zoneOf(given.timeZone), now);
  if (interval !== undefined) return parseInterval(interval);
  // The original toolbox also accepted intervals as `time`.
  if (time!.trim().startsWith("every@")) return parseInterval(time!);
  return { kind: "once", at: parseMoment(time!, given.timeZone, now) };
}

/**
 * The next time to run; undefined when there is none. An interval or a cron expression gives the first time
 * after `now`. A single time counts when it is after `anchor`, even if it is before `now`. `anchor` is the
 * previous due time, or the time of creation.
 */
export function nextRunAt(timing: ScheduleTiming, anchor: number, now: number): number | undefined {
  if (timing.kind === "once") return timing.at > anchor ? timing.at : undefined;
  if (timing.kind === "cron") return nextOfCron(timing.expression, timing.timeZone, now);
  // Counted from the previous due time, so that late starts do not add up.
  const passed = Math.max(0, Math.floor((now - anchor) / timing.interval));
  return anchor + (passed + 1) * timing.interval;
}

/** The first times to come, `first` among them; at most five. Kept, because those of a cron expression take 0.2 ms. */
export function timesFrom(timing: ScheduleTiming, first: number | undefined): readonly number[] {
  const key = JSON.stringify([timing, first]);
  const known = knownTimes.get(key);
  if (known !== undefined) return known;
  const times: number[] = [];
  for (let at = first; at !== undefined && times.length < MOST_TIMES; at = nextRunAt(timing, at, at))
    times.push(at);
  knownTimes.set(key, times);
  return times;
}
const MOST_TIMES = 5;
const knownTimes = new RecentMap<string, readonly number[]>(2_000);

/** The first times to come of a schedule that would be made now. Throws like `parseTiming`. */
export function previewTiming(given: GivenTiming, now: number): readonly number[] {
  const timing = parseTiming(given, now);
  return timesFrom(timing, firstRunAt(timing, now));
}

/** The first time of a new schedule. `parseTiming` made sure that there is one. */
export function firstRunAt(timing: ScheduleTiming, now: number): number {
  // `nextRunAt` looks only for times after the given one. `now - 1` includes a single run that is due exactly now.
  return nextRunAt(timing, timing.kind === "once" ? now - 1 : now, now)!;
}

export function describeTiming(timing: ScheduleTiming): Record<string, string> {
  if (timing.kind === "once") return { time: new Date(timing.at).toISOString() };
  if (timing.kind === "every") {
    const unit = ["d", "h", "m"].find((candidate) => timing.interval % units[candidate]! === 0) ?? "s";
    return { interval: `every@${timing.interval / units[unit]!}${unit}` };
  }
  return { cron: timing.expression, ...(timing.timeZone !== undefined && { timeZone: timing.timeZone }) };
}

function parseInterval(text: string): ScheduleTiming {
  const [, amount, unit] = /^(?:every@)?(\d+)(s|m|h|d)$/.exec(text.trim()) ?? [];
  const interval = Number(amount) * (units[unit ?? ""] ?? 0);
  if (interval > 0 && interval <= 10_000 * units.d!) return { kind: "every", interval };
  throw invalid(
    `"${text}" is no interval. Write every@ and a whole number of s, m, h or d, such as every@5m; at least 1s, at most 10000d.`,
  );
}

function parseCron(expression: string, timeZone: string, now: number): ScheduleTiming {
  let next: number | undefined;
  try {
    next = nextOfCron(expression, timeZone, now);
  } catch (thrown) {
    throw invalid(
      `"${expression}" is no cron expression: ${reasonOf(thrown)} Write minute, hour, day, month and weekday, such as "0 9 * * 1-5".`,
    );
  }
  if (next === undefined) throw invalid(`No time ever fits the cron expression "${expression}".`);
  return { kind: "cron", expression, timeZone };
}

function parseMoment(text: string, timeZone: string | undefined, now: number): number {
  const [, year, month, day, hour = "0", minute = "00", second = "00", fraction = "0", offset] =
    moment.exec(text.trim()) ?? [];
  if (year === undefined) throw noMoment(text);
  const two = (part: string | undefined) => part!.padStart(2, "0");
  const local = `${year}-${two(month)}-${two(day)}T${two(hour)}:${minute}:${second}`;
  // `Date` would read February 30 as a day in March.
  const plain = new Date(`${local}Z`);
  if (Number.isNaN(plain.getTime()) || plain.getUTCDate() !== Number(day)) throw noMoment(text);
  const milliseconds = Math.floor(Number(fraction) * 1_000);
  if (offset === undefined) {
    const zone = zoneOf(timeZone);
    // The clock of a zone may jump twice a year; croner knows when, to the second.
    const whole = nextOfCron(local, zone, now - 1_000);
    if (whole === undefined || whole + milliseconds < now) throw isOver(`${text} (${zone})`, now);
    return checkedTime(whole + milliseconds, now);
  }
  const at = Date.parse(local + offset.toUpperCase().replace(/^([+-]\d\d)(\d\d)$/, "$1:$2"));
  if (Number.isNaN(at)) throw noMoment(text);
  return checkedTime(at + milliseconds, now);
}

function nextOfCron(expression: string, timeZone: string | undefined, now: number): number | undefined {
  const cron = new Cron(expression, { paused: true, timezone: timeZone });
  return cron.nextRun(new Date(now))?.getTime();
}

/**
 * Returns the zone's IANA name. Default: the server's own zone. The name is stored with the schedule, so that
 * the schedule keeps its zone when the server moves to another.
 */
function zoneOf(timeZone: string | undefined): string {
  try {
    return new Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone;
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

/** An error that tells the caller of `schedule_tool` what to write instead. */
export function invalid(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { toolName: "schedule_tool" });
}
