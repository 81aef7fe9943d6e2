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
import type { RackEvent } from "@toolrack/core";
import { type LogLine, logText } from "./log-line.ts";

/** How long a line waits for others to be written with it, in milliseconds. */
const GATHER = 10;

/**
 * Lines that are written together: each writing is a system call, and costs more than a small call of a tool. What still
 * waits when the process ends, for whatever reason but SIGKILL, is written then.
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

  /** With its end. */
  add(line: string): void {
    this.#waiting.push(line);
    this.#timer ??= setTimeout(() => this.flush(), GATHER).unref();
  }

  /** Writes what is waiting, now. */
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
  /** Absolute. */
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

/**
 * One JSON line for every call. Lines are gathered for a moment, so that no call waits for the disk; what is still
 * unwritten when the process ends, for whatever reason but SIGKILL, is written then. A log that cannot be written is
 * counted and never fails a call.
 */
export class CallLog {
  readonly file: string;
  readonly #maxBytes: number;
  readonly #keep: number;
  readonly #lines = new LineGatherer((lines) => this.#append(lines));
  #opened: OpenFile | undefined;
  #lost = 0;

  constructor({ file, maxBytes = 10 * 1024 * 1024, keep = 5 }: CallLogOptions) {
    this.file = file;
    this.#maxBytes = maxBytes;
    this.#keep = keep;
  }

  /** How many lines could not be written. */
  get lost(): number {
    return this.#lost;
  }

  readonly listen = (event: RackEvent): void => {
    if (event.type === "record") this.#lines.add(`${logText(event.record, event.error)}\n`);
  };

  write(line: LogLine | Record<string, unknown>): void {
    this.#lines.add(`${JSON.stringify(line)}\n`);
  }

  /** Writes what is waiting, now. */
  flush(): void {
    this.#lines.flush();
  }

  close(): void {
    this.#lines.close();
    this.#close();
  }

  #append(lines: readonly string[]): void {
    try {
      const bytes = Buffer.from(lines.join(""));
      let { descriptor, size } = this.#open();
      if (size + bytes.length > this.#maxBytes && size > 0) {
        this.#rotate();
        ({ descriptor, size } = this.#open());
      }
      writeAll(descriptor, bytes);
    } catch {
      this.#lost += lines.length;
      this.#close();
    }
  }

  /** The file as it is now: others write it and put it aside too. */
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

  /** `ToolBox.log` becomes `ToolBox.log.1`, that `.2`, and so on; the oldest goes. */
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

function writeAll(descriptor: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(descriptor, bytes, written);
}

interface Flushed {
  flush(): void;
}

const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const open = new Set<Flushed>();

/**
 * Flushes a log when the process ends, for whatever reason, until the answer is called. However many logs there are,
 * they share one listener for each event: listeners of their own would take each other for somebody who handles the
 * signal.
 */
function flushAtEnd(log: Flushed): () => void {
  if (open.size === 0) listen();
  open.add(log);
  return () => {
    if (open.delete(log) && open.size === 0) stopListening();
  };
}

function listen(): void {
  process.on("exit", flushAll);
  process.on("uncaughtExceptionMonitor", flushAll);
  for (const signal of signals) process.on(signal, onSignal);
}

function stopListening(): void {
  process.off("exit", flushAll);
  process.off("uncaughtExceptionMonitor", flushAll);
  for (const signal of signals) process.off(signal, onSignal);
}

function flushAll(): void {
  for (const log of open) log.flush();
}

function onSignal(signal: NodeJS.Signals): void {
  flushAll();
  // Listening keeps a signal from ending the process. Where nobody else listens, it still has to.
  if (process.listenerCount(signal) > 1) return;
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}

/** Shorter values of the environment are rather switches than secrets. */
const SHORTEST = 8;

const secretName = /(^|_)(API_?)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?)S?(_|$)/i;
/** Names of these say where a secret lies, not what it is; and `PWD` alone is the working directory. */
const placeName = /(_(FILE|PATH|DIR|SOCK)|^(OLD)?PWD)$/i;

/**
 * The secret values that a workspace can know: passwords of its databases and in addresses such as `DATABASE_URL`, and
 * variables named like secrets.
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

/** As it is written in the URL, and as the driver sends it. One that is the user's name again is no secret. */
function passwordsOf(url: string): string[] {
  const [, user, password] = /:\/\/([^\s/?#@:]*):([^\s/?#]+)@/.exec(url) ?? [];
  if (password === undefined || password === user) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}
