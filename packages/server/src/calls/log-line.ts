import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import type { ToolCallRecord, ToolError } from "@toolrack/core";
import { loadLinearPatterns, type Pattern, redact, toPattern } from "@toolrack/core/internal";
import { matchesPattern } from "../config/index.ts";
import { reasonOf } from "../helpers/index.ts";

/**
 * How many characters of an error or a stack are logged. The whole output of a failed command does not belong
 * in a log.
 */
const LONGEST = 4_000;
/** How many characters of the error's message are logged above its stack. `err` has more of the message. */
const LONGEST_HEAD = 1_000;

/** One line of `ToolBox.log`. The first eight fields are those of the toolbox contract. */
export interface LogLine {
  /** ISO 8601. */
  readonly ts: string;
  readonly tool: string;
  readonly caller: string;
  readonly args: Record<string, unknown>;
  readonly stat: "success" | "error";
  /** How many milliseconds the call took. */
  readonly cost: number;
  readonly err?: string;
  readonly trace?: string;
  readonly callId: string;
  readonly parentCallId?: string;
  readonly tid?: string;
  readonly session?: string;
  /** The tool's display name, when it differs from `tool`. */
  readonly display?: string;
  readonly code?: string;
}

export function toLogLine(record: ToolCallRecord, error: ToolError | undefined): LogLine {
  const { toolName, displayName, callId, parentCallId, tid, sessionID } = record;
  return {
    ts: isoTime(record.timestamp),
    tool: toolName,
    caller: record.caller,
    args: record.parameters,
    stat: record.status === "error" ? "error" : "success",
    cost: Math.round(record.duration * 1000) / 1000,
    err: record.error && shorten(record.error.message, LONGEST),
    code: record.error?.code,
    trace: error && traceOf(error, record),
    callId,
    parentCallId,
    tid,
    session: sessionID === "" ? undefined : sessionID,
    display: displayName === toolName ? undefined : displayName,
  };
}

/**
 * `secondText` is the text of `second`, kept because formatting a whole date takes longer than the rest of a
 * line.
 */
let second = Number.NaN;
let secondText = "";

export function isoTime(milliseconds: number): string {
  const now = Math.floor(milliseconds / 1_000);
  if (now !== second) {
    secondText = new Date(now * 1_000).toISOString().slice(0, -"000Z".length);
    second = now;
  }
  return `${secondText}${String(Math.floor(milliseconds) - now * 1_000).padStart(3, "0")}Z`;
}

/**
 * The last line is cached: the log and the command line ask for the same record one right after the other.
 */
let latest: { readonly record: ToolCallRecord; readonly text: string } | undefined;

/** The line as JSON, without a line break. */
export function logText(record: ToolCallRecord, error: ToolError | undefined): string {
  if (latest?.record !== record) latest = { record, text: JSON.stringify(toLogLine(record, error)) };
  return latest.text;
}

/**
 * The error's stack below the record's message. The error's own message is not used: its secrets are not
 * masked.
 */
function traceOf(error: ToolError, { error: response }: ToolCallRecord): string | undefined {
  if (error.stack === undefined || response === undefined) return undefined;
  const head = shorten(`${response.name}: ${response.message}`, LONGEST_HEAD);
  const cause = response.details?.cause;
  const isNews = cause !== undefined && cause !== response.message;
  const causes = isNews ? [`Caused by: ${shorten(cause, LONGEST_HEAD)}`] : [];
  return shorten([head, ...causes, ...framesOf(error)].join("\n"), LONGEST);
}

/**
 * The frames of the error's stack, with secrets masked. The message is cut off first, because its lines may
 * look like frames and hold secrets.
 */
function framesOf({ stack = "", message, input }: ToolError): string[] {
  const start = message === "" ? -1 : stack.indexOf(message);
  const below = start === -1 ? stack : stack.slice(start + message.length);
  const frames = below.split("\n").filter((line) => line.trimStart().startsWith("at "));
  const values = new Set<string>();
  redact(input, { found: values });
  return frames.map((line) => String(redact(line, { values })));
}

function shorten(text: string, longest: number): string {
  if (text.length <= longest) return text;
  return `${text.slice(0, longest)}… [cut; ${text.length.toLocaleString("en-US")} characters in all]`;
}

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
