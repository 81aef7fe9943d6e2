import { type LogLevel, logLine } from "@toolrack/core";

/** What a program printed beside its answer, as lines of the call's log. */
export function logPrinted(context: unknown, level: LogLevel, text: string): void {
  for (const line of text.split("\n")) logLine(context, level, line.trimEnd());
}
