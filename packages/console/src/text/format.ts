const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** `22B`, `1.2 kB` */
export function formatBytes(bytes: number, locale: string): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return number(locale, {
    style: "unit",
    unit: units[unit]!,
    unitDisplay: unit === 0 ? "narrow" : "short",
    maximumFractionDigits: unit === 0 || value >= 100 ? 0 : 1,
  }).format(value);
}

/** `<0.1 ms`, `12 ms`, `3.4 s`, `2 min 5 s` */
export function formatDuration(milliseconds: number, locale: string): string {
  // Nothing takes no time at all.
  if (milliseconds < 0.05) return `<${formatDuration(0.1, locale)}`;
  if (milliseconds < 1_000) {
    const digits = milliseconds < 10 ? 1 : 0;
    return number(locale, {
      style: "unit",
      unit: "millisecond",
      unitDisplay: "short",
      maximumFractionDigits: digits,
    }).format(milliseconds);
  }
  if (milliseconds < 60_000) {
    return number(locale, {
      style: "unit",
      unit: "second",
      unitDisplay: "short",
      maximumFractionDigits: milliseconds < 10_000 ? 2 : 1,
    }).format(milliseconds / 1_000);
  }
  const minutes = number(locale, { style: "unit", unit: "minute", unitDisplay: "short" }).format(
    Math.floor(milliseconds / 60_000),
  );
  const seconds = number(locale, {
    style: "unit",
    unit: "second",
    unitDisplay: "short",
    maximumFractionDigits: 0,
  }).format(Math.floor((milliseconds % 60_000) / 1_000));
  return `${minutes} ${seconds}`;
}

export function formatNumber(value: number, locale: string, digits = 0): string {
  return number(locale, { maximumFractionDigits: digits }).format(value);
}

export function formatPercent(part: number, locale: string): string {
  return number(locale, { style: "percent", maximumFractionDigits: part > 0 && part < 0.1 ? 1 : 0 }).format(
    part,
  );
}

/** `3 minutes ago`, as exact as is useful. */
export function formatAgo(at: number, now: number, locale: string): string {
  const seconds = (at - now) / 1_000;
  const relative = relativeFormat(locale);
  const size = Math.abs(seconds);
  if (size < 5) return relative.format(0, "second");
  if (size < 60) return relative.format(Math.round(seconds), "second");
  if (size < 3_600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return relative.format(Math.round(seconds / 3_600), "hour");
  return relative.format(Math.round(seconds / 86_400), "day");
}

export function formatMoment(at: number, locale: string): string {
  return momentFormat(locale).format(at);
}

/** Formatters are slow to make, and lists need them for every row. */
const numbers = new Map<string, Intl.NumberFormat>();
function number(locale: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = locale + JSON.stringify(options);
  let format = numbers.get(key);
  if (format === undefined) {
    format = new Intl.NumberFormat(locale, options);
    numbers.set(key, format);
  }
  return format;
}

const relatives = new Map<string, Intl.RelativeTimeFormat>();
function relativeFormat(locale: string): Intl.RelativeTimeFormat {
  let format = relatives.get(locale);
  if (format === undefined) {
    format = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
    relatives.set(locale, format);
  }
  return format;
}

const moments = new Map<string, Intl.DateTimeFormat>();
function momentFormat(locale: string): Intl.DateTimeFormat {
  let format = moments.get(locale);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
    moments.set(locale, format);
  }
  return format;
}

const DAY = 86_400;

/** Moments on an axis, given in seconds: times of the day, and the day itself where one begins. */
export function momentLabels(moments: readonly number[], locale: string, timeZone?: string): string[] {
  const zone = timeZone === undefined ? {} : { timeZone };
  const time = new Intl.DateTimeFormat(locale, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...zone,
  });
  const day = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", ...zone });
  const isLong = (moments[1] ?? 0) - (moments[0] ?? 0) >= DAY;
  return moments.map((moment) => {
    const label = time.format(moment * 1_000);
    return isLong || label === "00:00" ? day.format(moment * 1_000) : label;
  });
}
