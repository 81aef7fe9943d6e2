import type { CallLine } from "../api/types.ts";

/** Lines at each end of a long log that are shown at first. */
const SHOWN = 20;

export interface FoldedLines {
  readonly lines: readonly CallLine[];
  /** Before which line the others are left out; -1 when all are there. */
  readonly at: number;
  readonly hidden: number;
}

/** The beginning and the end of a long log, or all of it. */
export function foldLines(lines: readonly CallLine[], showsAll: boolean): FoldedLines {
  const hidden = lines.length - 2 * SHOWN;
  // Less than a few lines are no longer than what would stand for them.
  if (showsAll || hidden < 5) return { lines, at: -1, hidden: 0 };
  return { lines: [...lines.slice(0, SHOWN), ...lines.slice(-SHOWN)], at: SHOWN, hidden };
}

export function logAsText(lines: readonly CallLine[]): string {
  return lines.map(({ at, level, text }) => `${new Date(at).toISOString()} ${level} ${text}`).join("\n");
}

/** `14:03:22.417` */
export function timeOf(at: number, locale: string): string {
  return new Intl.DateTimeFormat(locale, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    hourCycle: "h23",
  }).format(at);
}
