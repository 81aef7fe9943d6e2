import type { Schedule } from "../../api/index.ts";
import { formatMoment, t, withOffset } from "../../text/index.ts";

export const kinds = ["once", "delay", "interval", "cron"] as const;
export type Kind = (typeof kinds)[number];
export const units = ["s", "m", "h", "d"] as const;
type Unit = (typeof units)[number];
const seconds: Readonly<Record<Unit, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** When to run, as it is typed. Only the fields of its kind count. */
export interface TimingDraft {
  kind: Kind;
  /** As a date-time picker gives it. */
  at: string;
  amount: string;
  unit: Unit;
  cron: string;
  zone: string;
}

/** When to run, as the server takes it. */
export interface Timing {
  readonly [key: string]: string | number | undefined;
  readonly time?: string;
  readonly delaySeconds?: number;
  readonly interval?: string;
  readonly cron?: string;
  readonly timeZone?: string;
}

/** Undefined while something is missing. Whether it makes sense, the server says. */
export function timingOf({ kind, at, amount, unit, cron, zone }: TimingDraft): Timing | undefined {
  const count = Number(amount);
  const isCount = amount.trim() !== "" && count > 0;
  switch (kind) {
    case "once":
      return at === "" ? undefined : { time: withOffset(at) };
    case "delay":
      return isCount ? { delaySeconds: count * seconds[unit] } : undefined;
    case "interval":
      return isCount ? { interval: `every@${count}${unit}` } : undefined;
    case "cron":
      return cron.trim() === "" ? undefined : { cron: cron.trim(), timeZone: zone };
  }
}

/** When a schedule runs, for people. */
export function describeTiming({ time, interval, cron, timeZone = "" }: Schedule): string {
  if (cron !== undefined) return t("schedules.described.cron", { cron, zone: timeZone });
  const [, count = "", unit = "s"] = /^every@(\d+)([smhd])$/.exec(interval ?? "") ?? [];
  if (count !== "") return t("schedules.described.every", { count, unit: t(`schedules.units.${unit}`) });
  return t("schedules.described.once", { time: time === undefined ? "–" : formatMoment(Date.parse(time)) });
}

/** The caller of the calls that a schedule makes. */
export function callerOf({ id }: Schedule): string {
  return `schedule_tool_${id}`;
}
