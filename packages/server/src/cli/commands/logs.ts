import { type FileHandle, open, stat } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { type LogLine, type LogQuery, matcher, parse, readLog } from "../../calls/index.ts";
import { defined, reasonOf } from "../../helpers/values.ts";
import type { StoredCall } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { formatDuration, oneLine, padDisplay, parseDuration, printable, traceLines } from "../text.ts";
import { withApp, withStore } from "../workspace.ts";
import { callerText } from "./approvals.ts";

export interface LogsOptions {
  readonly follow?: boolean;
  readonly tool?: string;
  readonly status?: "success" | "error";
  readonly since?: string;
  /** How many calls are shown; 0 shows all. */
  readonly limit: number;
  readonly ids?: boolean;
}

const POLL = 200;

/** `toolrack logs`: the last calls of the log, and with `--follow` those to come. */
export async function logs(cli: Cli, options: LogsOptions): Promise<void> {
  const query = await queryOf(options);
  // Loads no tools: only the config is needed, for the path of the log.
  const file = await withApp(cli, { folders: [] }, async ({ log }) => log.file);
  const follower = options.follow === true ? await LogFollower.atEnd(file) : undefined;
  const lines = await lastLines(file, query, options.limit);
  const show = (line: LogLine) =>
    cli.json ? cli.printJsonLine(line) : cli.print(formatLogLine(cli, line, options.ids === true));
  for (const line of lines) show(line);
  if (follower !== undefined) await follow(cli, follower, lines, query, show);
  else if (lines.length === 0) cli.talk(`No calls in ${file} fit.`);
}

async function queryOf({ tool, status, since }: LogsOptions): Promise<LogQuery> {
  const query = defined({ tool, status, startTime: since === undefined ? undefined : startOf(since) });
  try {
    await matcher(query);
  } catch (thrown) {
    throw usageError(reasonOf(thrown));
  }
  return query;
}

function startOf(since: string): number {
  const time = Date.parse(since);
  // Some engines parse "10m" as a date, so a date must begin with a year.
  if (/^\d{4}-/.test(since) && !Number.isNaN(time)) return time;
  try {
    return Date.now() - parseDuration(since, "--since");
  } catch {
    throw usageError(
      `--since "${since}" is neither a duration, such as 10m, 2h or 7d, nor a time, such as 2026-03-15T02:29:40Z.`,
    );
  }
}

async function lastLines(file: string, query: LogQuery, limit: number): Promise<LogLine[]> {
  let lines: LogLine[] = [];
  for await (const line of readLog(file, query)) {
    lines.push(line);
    // Drops old lines now and then, so that a long log need not fit into memory.
    if (limit > 0 && lines.length >= limit * 2) lines = lines.slice(-limit);
  }
  return limit > 0 ? lines.slice(-limit) : lines;
}

/** Shows new lines until Ctrl-C, the normal end of following. */
async function follow(
  cli: Cli,
  follower: LogFollower,
  shown: readonly LogLine[],
  query: LogQuery,
  show: (line: LogLine) => void,
): Promise<void> {
  const end = new AbortController();
  cli.onInterrupt(() => end.abort());
  const fits = await matcher(query);
  // The follower started before the file was read, so that no line is missed. Lines that both read are shown once.
  const known = new Set(shown.map((line) => JSON.stringify(line)));
  while (!end.signal.aborted) {
    for (const text of await follower.read()) {
      const line = parse(text);
      if (line !== undefined && fits(line) && !known.delete(JSON.stringify(line))) show(line);
    }
    await wait(POLL, undefined, { signal: end.signal }).catch(() => {});
  }
  await follower.close();
}

const CHUNK = 64 * 1024;
const NEWLINE = 0x0a;

interface FoundFile {
  readonly path: string;
  readonly inode: number;
}

/**
 * Reads lines appended to a log that is rotated: `file` becomes `file.1`, that `file.2`. No line is lost or read twice,
 * however often it is rotated between two reads.
 */
export class LogFollower {
  readonly #file: string;
  #handle: FileHandle | undefined;
  #offset = 0;
  #rest = Buffer.alloc(0);

  private constructor(file: string) {
    this.#file = file;
  }

  /** Begins at the present end of the log. */
  static async atEnd(file: string): Promise<LogFollower> {
    const follower = new LogFollower(file);
    follower.#handle = await open(file, "r").catch(() => undefined);
    follower.#offset = (await follower.#handle?.stat())?.size ?? 0;
    return follower;
  }

  /** Returns the complete lines since the last read. */
  async read(): Promise<string[]> {
    const lines: string[] = [];
    await this.#readRest(lines);
    while (await this.#openNext(lines)) await this.#readRest(lines);
    return lines;
  }

  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async #readRest(lines: string[]): Promise<void> {
    const handle = this.#handle;
    if (handle === undefined) return;
    if ((await handle.stat()).size < this.#offset) {
      // The file was truncated.
      this.#offset = 0;
      this.#rest = Buffer.alloc(0);
    }
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, CHUNK, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      this.#addLines(buffer.subarray(0, bytesRead), lines);
    }
  }

  /** Cuts at line ends only, so that no character is ever cut in two. */
  #addLines(bytes: Buffer, lines: string[]): void {
    const all = Buffer.concat([this.#rest, bytes]);
    const end = all.lastIndexOf(NEWLINE);
    if (end >= 0) lines.push(...all.toString("utf8", 0, end).split("\n"));
    this.#rest = Buffer.from(all.subarray(end + 1));
  }

  /** Moves on to the next newer file. Returns false when there is none. */
  async #openNext(lines: string[]): Promise<boolean> {
    const current = (await this.#handle?.stat())?.ino;
    const next = await this.#fileAfter(current);
    if (next === undefined) return false;
    const handle = await open(next.path, "r").catch(() => undefined);
    if ((await handle?.stat())?.ino !== next.inode) {
      // The log was rotated meanwhile; the next read finds the files in their places.
      await handle?.close();
      return false;
    }
    // Reads what was written to the old file before it was rotated.
    await this.#readRest(lines);
    await this.close();
    this.#handle = handle;
    this.#offset = 0;
    this.#rest = Buffer.alloc(0);
    return true;
  }

  /** The file that follows the one with this inode. From newest to oldest, the files are `file`, `file.1`, `file.2`. */
  async #fileAfter(inode: number | undefined): Promise<FoundFile | undefined> {
    let newer: FoundFile | undefined;
    for (let number = 0; ; number++) {
      const path = number === 0 ? this.#file : `${this.#file}.${number}`;
      const found = await inodeAt(path);
      if (found !== undefined && found === inode) return newer;
      if (found !== undefined) newer = { path, inode: found };
      // During a rotation `file` is missing for a moment; the numbered files have no gaps.
      else if (number > 0) break;
      if (inode === undefined) break;
    }
    // The file with this inode is gone, or there was none: continue with the oldest.
    return newer;
  }
}

async function inodeAt(path: string): Promise<number | undefined> {
  return stat(path).then(
    ({ ino }) => ino,
    () => undefined,
  );
}

const NAME_WIDTH = 28;

/** One call as a line for people: time, outcome, duration, tool, caller and error. */
export function formatLogLine(
  cli: Cli,
  line: LogLine,
  withIds: boolean,
  style: Cli["style"] = (how, text) => cli.style(how, text),
): string {
  const isCancelled = line.code === "cancelled";
  const isError = line.stat === "error" && !isCancelled;
  const word = isCancelled ? "cancelled" : isError ? "error  " : "success";
  const name = withIds ? `${line.tool} ${line.callId ?? ""}` : (line.display ?? line.tool);
  const parts = [
    style("dim", localTime(line.ts)),
    style(isError ? "red" : isCancelled ? "yellow" : "green", word),
    padDisplay(typeof line.cost === "number" ? formatDuration(line.cost) : "", 9, "start"),
    padDisplay(oneLine(String(name)), NAME_WIDTH),
    // Tools may write lines of their own, with anything in them.
    callerText({
      caller: String(line.caller ?? ""),
      via: line.via === undefined ? undefined : String(line.via),
    }),
    ...(line.err === undefined ? [] : [oneLine(String(line.err))]),
  ];
  return parts.join("  ");
}

/** The last second that was shown, as a timestamp without its fraction, and how. Many lines show the same one. */
let shown = { second: "", text: "" };

/** `2026-03-15 02:29:40` in local time. */
function localTime(timestamp: string): string {
  const second = /\.\d{3}Z$/.test(timestamp) ? timestamp.slice(0, -".123Z".length) : timestamp;
  if (second !== shown.second) shown = { second, text: readLocalTime(timestamp) };
  return shown.text;
}

function readLocalTime(timestamp: string): string {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return oneLine(timestamp);
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${date} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** `toolrack calls show ID`: a recorded call with its log lines. Works with and without a running server. */
export async function calls(cli: Cli, _action: "show", id: string): Promise<void> {
  const call = await withStore(cli, (store) => store.calls.get(id));
  if (call === undefined) throw unknownCall(cli, id);
  cli.answer({ call }, () => cli.print(linesOf(cli, call).join("\n")));
}

export function unknownCall(cli: Cli, callId: string): CliError {
  const message = `There is no call "${printable(callId)}". ${cli.commandLine("logs --ids")} shows the last ones.`;
  return new CliError(message, { code: "call_not_found", details: { callId } });
}

function linesOf(cli: Cli, call: StoredCall): string[] {
  const { callId, toolName, outcome, duration, timestamp, parameters, log = [], result, trace } = call;
  const title = (text: string) => cli.style("bold", text);
  const time = new Date(timestamp).toISOString();
  const facts = [oneLine(callId), time, outcome, formatDuration(duration), callerText(call)];
  return [
    title(oneLine(toolName)),
    facts.join("  "),
    "",
    title("Arguments"),
    printable(JSON.stringify(parameters, undefined, 2)),
    ...(log.length === 0 ? [] : ["", title("Log")]),
    ...log.map(
      ({ at, level, text }) => `${new Date(at).toISOString()}  ${level.padEnd(8)}  ${printable(text)}`,
    ),
    ...(outcome === "running" ? [] : ["", title("Result"), printable(result.content)]),
    ...(trace === undefined ? [] : ["", ...traceLines(trace, (how, text) => cli.style(how, text))]),
  ];
}
