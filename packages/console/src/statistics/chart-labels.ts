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
