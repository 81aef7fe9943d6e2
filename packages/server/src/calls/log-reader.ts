import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { loadLinearPatterns, type Pattern, toPattern } from "@toolrack/core/internal";
import { matchesPattern } from "../config/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { LogLine } from "./log.ts";

export interface LogQuery {
  /** A name, a glob with `*`, or a regular expression between slashes. */
  readonly tool?: string;
  readonly status?: "success" | "error";
  readonly caller?: string;
  readonly minDuration?: number;
  readonly maxDuration?: number;
  /** ISO 8601, or milliseconds since the epoch. */
  readonly startTime?: string | number;
  readonly endTime?: string | number;
}

/** The lines that match, oldest first, rotated files included. Lines that are not JSON are skipped. */
export async function* readLog(file: string, query: LogQuery = {}): AsyncGenerator<LogLine> {
  const fits = await matcher(query);
  for (const path of rotatedFiles(file)) {
    for await (const text of createInterface({ input: createReadStream(path, "utf8") })) {
      const line = parse(text);
      if (line !== undefined && fits(line)) yield line;
    }
  }
}

export async function matcher(query: LogQuery): Promise<(line: LogLine) => boolean> {
  const tool = query.tool === undefined ? undefined : await patternOf(query.tool);
  const start = toTime(query.startTime, "startTime") ?? Number.NEGATIVE_INFINITY;
  const end = toTime(query.endTime, "endTime") ?? Number.POSITIVE_INFINITY;
  const { status, caller, minDuration = 0, maxDuration = Number.POSITIVE_INFINITY } = query;
  return (line) => {
    // Tools may write lines of their own, which need not have every field.
    const time = Date.parse(line.ts);
    const cost = line.cost ?? 0;
    return (
      (tool === undefined || tool.test(line.tool ?? "")) &&
      (status === undefined || line.stat === status) &&
      (caller === undefined || line.caller === caller) &&
      cost >= minDuration &&
      cost <= maxDuration &&
      !(time < start) &&
      !(time > end)
    );
  };
}

/** Callers write the pattern, so a linear-time engine runs it: it cannot block the process. */
async function patternOf(text: string): Promise<Pattern> {
  const end = text.lastIndexOf("/");
  if (end < 2 || !text.startsWith("/")) return { test: (name) => matchesPattern(text, name) };
  await loadLinearPatterns();
  try {
    return toPattern(text.slice(1, end), text.slice(end + 1));
  } catch (thrown) {
    throw new Error(`The pattern ${text} is not a regular expression: ${reasonOf(thrown)}`);
  }
}

function toTime(value: string | number | undefined, name: string): number | undefined {
  if (value === undefined) return undefined;
  const time = typeof value === "number" ? value : Date.parse(value);
  if (Number.isNaN(time))
    throw new Error(`${name} "${value}" is no time. Write it like 2026-03-15T02:29:40Z.`);
  return time;
}

function rotatedFiles(file: string): string[] {
  const aside: string[] = [];
  for (let number = 1; existsSync(`${file}.${number}`); number++) aside.unshift(`${file}.${number}`);
  return existsSync(file) ? [...aside, file] : aside;
}

export function parse(text: string): LogLine | undefined {
  try {
    const line = JSON.parse(text);
    return typeof line === "object" && line !== null && typeof line.ts === "string" ? line : undefined;
  } catch {
    return undefined;
  }
}
