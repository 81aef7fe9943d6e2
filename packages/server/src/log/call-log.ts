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
import { LineGatherer } from "./line-gatherer.ts";
import { type LogLine, logText } from "./log-line.ts";

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
