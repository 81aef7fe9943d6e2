import { language } from "./i18n.ts";

/** Formats numbers, sizes, durations and times in the language of the console. */

const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** `22B`, `1.2 kB` */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return withUnit(value, units[unit]!, digits, unit === 0 ? "narrow" : "short");
}

/** `<0.1 ms`, `12 ms`, `3.4 s`, `2 min 5 s` */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 0.05) return `<${formatDuration(0.1)}`;
  if (milliseconds < 1_000) return withUnit(milliseconds, "millisecond", milliseconds < 10 ? 1 : 0);
  if (milliseconds < 60_000) return withUnit(milliseconds / 1_000, "second", milliseconds < 10_000 ? 2 : 1);
  const minutes = withUnit(Math.floor(milliseconds / 60_000), "minute", 0);
  return `${minutes} ${withUnit(Math.floor((milliseconds % 60_000) / 1_000), "second", 0)}`;
}

function withUnit(value: number, unit: string, digits: number, unitDisplay: "narrow" | "short" = "short") {
  return number({ style: "unit", unit, unitDisplay, maximumFractionDigits: digits }).format(value);
}

export function formatNumber(value: number): string {
  return number({ maximumFractionDigits: 0 }).format(value);
}

/** What models cost, which is often a fraction of a cent: `0.0156`, `12.30`. */
export function formatCost(value: number): string {
  const digits =
    value >= 1 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumSignificantDigits: 3 };
  return number(digits).format(value);
}

export function formatPercent(part: number): string {
  return number({ style: "percent", maximumFractionDigits: part > 0 && part < 0.1 ? 1 : 0 }).format(part);
}

/** `3 min. ago`, in the largest unit that fits, up to days. */
export function formatAgo(at: number, now: number): string {
  const seconds = (at - now) / 1_000;
  const size = Math.abs(seconds);
  const format = formatter("ago", (locale) => {
    return new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
  });
  if (size < 5) return format.format(0, "second");
  if (size < 60) return format.format(Math.round(seconds), "second");
  if (size < 3_600) return format.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return format.format(Math.round(seconds / 3_600), "hour");
  return format.format(Math.round(seconds / 86_400), "day");
}

export function formatMoment(at: number): string {
  return moment({ dateStyle: "medium", timeStyle: "medium" }).format(at);
}

/** `14:03:22.417` */
export function timeOf(at: number): string {
  return moment({ ...hours, second: "2-digit", fractionalSecondDigits: 3 }).format(at);
}

const hours = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const DAY = 86_400;

/** Labels for an axis of times in seconds: the time of day, or the date at midnight and for steps of days. */
export function momentLabels(moments: readonly number[], timeZone?: string): string[] {
  const zone = timeZone === undefined ? {} : { timeZone };
  const time = moment({ ...hours, ...zone });
  const day = moment({ month: "short", day: "numeric", ...zone });
  const isLong = (moments[1] ?? 0) - (moments[0] ?? 0) >= DAY;
  return moments.map((at) => {
    const label = time.format(at * 1_000);
    return isLong || label === "00:00" ? day.format(at * 1_000) : label;
  });
}

function number(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  return formatter(JSON.stringify(options), (locale) => new Intl.NumberFormat(locale, options));
}

function moment(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  return formatter(JSON.stringify(options), (locale) => new Intl.DateTimeFormat(locale, options));
}

/** Kept by language and options, because formatters are slow to create and lists need them for every row. */
const formatters = new Map<string, unknown>();

function formatter<Format>(key: string, make: (locale: string) => Format): Format {
  const name = `${language.value} ${key}`;
  if (!formatters.has(name)) formatters.set(name, make(language.value));
  // Every key has one kind of formatter, because options for numbers and dates have different members.
  return formatters.get(name) as Format;
}
