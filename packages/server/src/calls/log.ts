import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import type { ToolCallRecord, ToolError, ToolResult } from "@toolrack/core";
import type { CallTrace } from "../store/index.ts";
import type { CallFollower, LiveCall } from "./call-book.ts";
import { LONGEST_STACK, shorten, wholeStackOf } from "./call-trace.ts";

/** Milliseconds that a line waits, so that several are written together. */
const GATHER_MS = 10;

/**
 * Writes lines in groups: each write is a system call, which costs more than a small tool call. Lines that still wait
 * when the process ends are written then, except after SIGKILL.
 */
export class LineGatherer {
  readonly #write: (lines: readonly string[]) => void;
  readonly #forget: () => void;
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** `write` must not throw. */
  constructor(write: (lines: readonly string[]) => void) {
    this.#write = write;
    this.#forget = flushAtEnd(this);
  }

  /** The line must end with a line break. */
  add(line: string): void {
    this.#waiting.push(line);
    this.#timer ??= setTimeout(() => this.flush(), GATHER_MS).unref();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    this.#write(lines);
  }

  close(): void {
    this.flush();
    this.#forget();
  }
}

export interface CallLogOptions {
  /** The absolute path of the log. */
  readonly file: string;
  readonly maxBytes?: number;
  readonly keep?: number;
}

interface OpenFile {
  readonly descriptor: number;
  readonly ino: number;
  readonly dev: number;
  readonly size: number;
}

/** How much is kept in memory while the log cannot be written. Beyond that the oldest lines are dropped. */
const MOST_HELD = { lines: 10_000, characters: 16 * 1024 * 1024 };
/** Milliseconds between two attempts to write. */
const RETRY_MS = 1_000;

/**
 * Writes one JSON line for every call. No call waits for the disk. Lines that cannot be written, for example on a full
 * disk, are kept in memory and tried again; that never fails a call.
 */
export class CallLog implements CallFollower {
  readonly file: string;
  readonly #maxBytes: number;
  readonly #keep: number;
  readonly #lines = new LineGatherer((lines) => this.#append(lines));
  #opened: OpenFile | undefined;
  /** Lines that could not be written, oldest first. */
  #held: string[] = [];
  /** Set when the file ends with a part of the first held line. */
  #isTorn = false;
  #retry: NodeJS.Timeout | undefined;
  #lost = 0;

  constructor({ file, maxBytes = 10 * 1024 * 1024, keep = 5 }: CallLogOptions) {
    this.file = file;
    this.#maxBytes = maxBytes;
    this.#keep = keep;
  }

  /** How many lines could not be written yet. */
  get held(): number {
    return this.#held.length;
  }

  /** How many lines were dropped. */
  get lost(): number {
    return this.#lost;
  }

  ended(
    call: LiveCall | undefined,
    record: ToolCallRecord,
    _result: ToolResult,
    _trace: CallTrace | undefined,
    error: ToolError | undefined,
  ): void {
    this.#lines.add(`${logText(record, error, call?.via)}\n`);
  }

  write(line: LogLine | Record<string, unknown>): void {
    this.#lines.add(`${JSON.stringify(line)}\n`);
  }

  flush(): void {
    this.#lines.flush();
    if (this.#held.length > 0) this.#append([]);
  }

  close(): void {
    this.#lines.close();
    this.flush();
    clearTimeout(this.#retry);
    this.#lost += this.#held.length;
    this.#held = [];
    this.#close();
  }

  #append(lines: readonly string[]): void {
    const waiting = this.#held.length === 0 ? lines : [...this.#held, ...lines];
    if (lines.length > 0 && this.#retry !== undefined) {
      this.#hold(waiting);
      return;
    }
    let written = 0;
    try {
      // A line break ends the partial line in the file. Readers skip a partial line.
      const bytes = Buffer.from((this.#isTorn ? "\n" : "") + waiting.join(""));
      let { descriptor, size } = this.#open();
      if (size + bytes.length > this.#maxBytes && size > 0) {
        this.#rotate();
        ({ descriptor, size } = this.#open());
      }
      while (written < bytes.length) written += writeSync(descriptor, bytes, written);
      this.#hold([]);
      this.#isTorn = false;
    } catch {
      this.#close();
      this.#hold(this.#unwritten(waiting, written));
      this.#retry ??= setTimeout(() => {
        this.#retry = undefined;
        if (this.#held.length > 0) this.#append([]);
      }, RETRY_MS).unref();
    }
  }

  /** The lines that are not completely in the file after `bytes` bytes were written. */
  #unwritten(lines: readonly string[], bytes: number): readonly string[] {
    if (bytes === 0) return lines;
    let rest = this.#isTorn ? bytes - 1 : bytes;
    for (const [at, line] of lines.entries()) {
      const length = Buffer.byteLength(line);
      if (length > rest) {
        this.#isTorn = rest > 0;
        return lines.slice(at);
      }
      rest -= length;
    }
    return [];
  }

  #hold(lines: readonly string[]): void {
    if (lines.length === 0 && this.#held.length === 0) return;
    let characters = lines.reduce((sum, line) => sum + line.length, 0);
    let first = 0;
    while (lines.length - first > MOST_HELD.lines || characters > MOST_HELD.characters) {
      characters -= lines[first++]!.length;
    }
    this.#lost += first;
    this.#held = lines.slice(first);
  }

  /** Opens the file again when another process has rotated it. */
  #open(): OpenFile {
    if (this.#opened !== undefined) {
      const now = statSync(this.file, { throwIfNoEntry: false });
      const { descriptor, ino, dev } = this.#opened;
      if (now?.ino === ino && now.dev === dev) return { descriptor, ino, dev, size: now.size };
    }
    this.#close();
    mkdirSync(dirname(this.file), { recursive: true });
    const descriptor = openSync(this.file, "a", 0o600);
    const { ino, dev, size } = fstatSync(descriptor);
    this.#opened = { descriptor, ino, dev, size };
    return this.#opened;
  }

  #close(): void {
    if (this.#opened !== undefined) closeSync(this.#opened.descriptor);
    this.#opened = undefined;
  }

  /** `ToolBox.log` becomes `ToolBox.log.1`, which becomes `.2`, and so on; the oldest is removed. */
  #rotate(): void {
    this.#close();
    if (this.#keep === 0) {
      rmSync(this.file, { force: true });
      return;
    }
    for (let number = this.#keep; number >= 1; number--) {
      const from = number === 1 ? this.file : `${this.file}.${number - 1}`;
      if (existsSync(from)) renameSync(from, `${this.file}.${number}`);
    }
  }
}

const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const openLogs = new Set<LineGatherer>();

/**
 * Makes sure that a log is flushed when the process ends. Returns a function that stops this. All logs share
 * one listener for each event: several listeners would each believe that somebody else handles the signal.
 */
function flushAtEnd(log: LineGatherer): () => void {
  if (openLogs.size === 0) listen("on");
  openLogs.add(log);
  return () => {
    if (openLogs.delete(log) && openLogs.size === 0) listen("off");
  };
}

function listen(change: "on" | "off"): void {
  for (const event of ["exit", "uncaughtExceptionMonitor"]) process[change](event, flushAll);
  for (const signal of signals) process[change](signal, onSignal);
}

function flushAll(): void {
  for (const log of openLogs) log.flush();
}

function onSignal(signal: NodeJS.Signals): void {
  flushAll();
  // A listener keeps a signal from ending the process. When nobody else listens, the process is ended here.
  if (process.listenerCount(signal) > 1) return;
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}

/** Shorter values in the environment are more likely switches than secrets. */
const SHORTEST = 8;

const secretName = /(^|_)(API_?)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?)S?(_|$)/i;
/**
 * Variables with these names say where a secret lies and do not hold it. `PWD` alone is the working
 * directory.
 */
const placeName = /(_(FILE|PATH|DIR|SOCK)|^(OLD)?PWD)$/i;

/**
 * The secret values that the config and the environment contain: passwords in database URLs and in variables
 * such as `DATABASE_URL`, and the values of variables named like secrets.
 */
export function knownSecrets(
  databases: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const secrets = new Set<string>();
  for (const url of Object.values(databases)) for (const password of passwordsOf(url)) secrets.add(password);
  for (const [name, value = ""] of Object.entries(environment)) {
    for (const password of passwordsOf(value)) secrets.add(password);
    if (value.length >= SHORTEST && secretName.test(name) && !placeName.test(name)) secrets.add(value);
  }
  return [...secrets];
}

/** The password as written in the URL, and decoded. A password that equals the user's name is no secret. */
function passwordsOf(url: string): string[] {
  const [, user, password] = /:\/\/([^\s/?#@:]*):([^\s/?#]+)@/.exec(url) ?? [];
  if (password === undefined || password === user) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}

/** One line of `ToolBox.log`. The first eight fields are those of the toolbox contract. */
export interface LogLine {
  /** ISO 8601. */
  readonly ts: string;
  readonly tool: string;
  readonly caller: string;
  /** By what the caller made the call: `console`, a program, an MCP client with its version, a chat or a schedule. */
  readonly via?: string | undefined;
  readonly args: Record<string, unknown>;
  readonly stat: "success" | "error";
  /** How many milliseconds the call took, without waiting for a person. */
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

export function toLogLine(record: ToolCallRecord, error: ToolError | undefined, via?: string): LogLine {
  const { toolName, displayName, callId, parentCallId, tid, sessionID } = record;
  return {
    ts: isoTime(record.timestamp),
    tool: toolName,
    caller: record.caller,
    via,
    args: record.parameters,
    stat: record.status === "error" ? "error" : "success",
    cost: Math.round((record.duration - (record.flags?.waited ?? 0)) * 1000) / 1000,
    err: record.error && shorten(record.error.message, LONGEST_STACK),
    code: record.error?.code,
    trace: error && wholeStackOf(error, record),
    callId,
    parentCallId,
    tid,
    session: sessionID === "" ? undefined : sessionID,
    display: displayName === toolName ? undefined : displayName,
  };
}

/** The millisecond that was written last, and its text: formatting a date takes longer than the rest of a line. */
let last = Number.NaN;
let lastText = "";

export function isoTime(milliseconds: number): string {
  const now = Math.floor(milliseconds);
  if (now !== last) {
    lastText = new Date(now).toISOString();
    last = now;
  }
  return lastText;
}

/**
 * The last line is cached: the log and the command line ask for the same record one right after the other.
 */
let latest: { readonly record: ToolCallRecord; readonly text: string } | undefined;

/** The line as JSON, without a line break. */
function logText(record: ToolCallRecord, error: ToolError | undefined, via?: string): string {
  if (latest?.record !== record) latest = { record, text: JSON.stringify(toLogLine(record, error, via)) };
  return latest.text;
}

/** Gathers the line of every call, with a type in front: what `serve --json` prints. */
export function callLines(lines: LineGatherer): CallFollower {
  return {
    ended(call, record, _result, _trace, error) {
      lines.add(`{"type":"call",${logText(record, error, call?.via).slice(1)}\n`);
    },
  };
}
