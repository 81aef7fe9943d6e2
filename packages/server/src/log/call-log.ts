import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import type { RackEvent } from "@toolrack/core";
import type { LogLine } from "./log-line.ts";
import { toLogLine } from "./log-line.ts";

export interface CallLogOptions {
  /** Absolute. */
  readonly file: string;
  readonly maxBytes?: number;
  readonly keep?: number;
}

const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/**
 * One JSON line for every call. Lines are gathered and written once in a turn of the event loop, so that no call
 * waits for the disk; what is still unwritten when the process ends, for whatever reason, is written then. A log
 * that cannot be written is counted and never fails a call.
 */
export class CallLog {
  readonly file: string;
  readonly #maxBytes: number;
  readonly #keep: number;
  #waiting: string[] = [];
  #scheduled = false;
  #descriptor: number | undefined;
  #size = 0;
  #lost = 0;
  readonly #onExit = () => this.flush();
  readonly #onSignal = (signal: NodeJS.Signals) => {
    this.flush();
    // Listening keeps a signal from ending the process. Where nobody else listens, it still has to.
    if (process.listenerCount(signal) > 1) return;
    process.off(signal, this.#onSignal);
    process.kill(process.pid, signal);
  };

  constructor({ file, maxBytes = 10 * 1024 * 1024, keep = 5 }: CallLogOptions) {
    this.file = file;
    this.#maxBytes = maxBytes;
    this.#keep = keep;
    process.on("exit", this.#onExit);
    process.on("uncaughtExceptionMonitor", this.#onExit);
    for (const signal of signals) process.on(signal, this.#onSignal);
  }

  /** How many lines could not be written. */
  get lost(): number {
    return this.#lost;
  }

  readonly listen = (event: RackEvent): void => {
    if (event.type === "record") this.write(toLogLine(event.record, event.error));
  };

  write(line: LogLine | Record<string, unknown>): void {
    this.#waiting.push(`${JSON.stringify(line)}\n`);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }

  /** Writes what is waiting, now. */
  flush(): void {
    this.#scheduled = false;
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    try {
      const bytes = Buffer.from(lines.join(""));
      if (this.#size + bytes.length > this.#maxBytes && this.#size > 0) this.#rotate();
      writeAll(this.#open(), bytes);
      this.#size += bytes.length;
    } catch {
      this.#lost += lines.length;
      this.#close();
    }
  }

  close(): void {
    this.flush();
    this.#close();
    process.off("exit", this.#onExit);
    process.off("uncaughtExceptionMonitor", this.#onExit);
    for (const signal of signals) process.off(signal, this.#onSignal);
  }

  #open(): number {
    // Somebody may have moved the file away; then a new one begins.
    if (this.#descriptor !== undefined && existsSync(this.file)) return this.#descriptor;
    this.#close();
    mkdirSync(dirname(this.file), { recursive: true });
    this.#descriptor = openSync(this.file, "a", 0o600);
    this.#size = fstatSync(this.#descriptor).size;
    return this.#descriptor;
  }

  #close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
    this.#size = 0;
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
