import { closeSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import type { CallRow } from "../database/schema.ts";

/** Bytes of a row that are worth writing twice. */
const LARGEST_ROW = 256 * 1024;
/** Bytes of the file. The database is far behind when it is full, and whoever makes calls then waits for it. */
const LARGEST_FILE = 4 * 1024 * 1024;

/**
 * A file beside the database that holds the rows which the database does not have yet, each a line of JSON. Adding to
 * it costs a fraction of a transaction and survives the end of the process just as well. The first line makes it.
 */
export class CallJournal {
  readonly path: string;
  readonly #onFailure: (error: unknown) => void;
  #file: number | undefined;
  #size = 0;
  /** Set when the last line may be half a line that nothing must be added to. */
  #isTorn = false;
  #isClosed = false;

  /** `onFailure` is told when the file cannot be written. */
  constructor(path: string, onFailure: (error: unknown) => void) {
    this.path = path;
    this.#onFailure = onFailure;
  }

  /** Adds all rows or none. False when they have to wait for the database; never throws. */
  append(rows: readonly CallRow[]): boolean {
    if (this.#isClosed || this.#isTorn || this.#size > LARGEST_FILE) return false;
    let text = "";
    for (const row of rows) {
      // The size counts blobs too, which are not in the line: writing them took longer than a transaction does.
      if (row.size > LARGEST_ROW) return false;
      text += `${JSON.stringify(row)}\n`;
    }
    try {
      this.#write(Buffer.from(text));
      return true;
    } catch (error) {
      this.#mend();
      this.#onFailure(error);
      return false;
    }
  }

  /** To be called when the database has all rows. What is deleted there must not come back from here. */
  clear(): void {
    if (this.#file === undefined || (this.#size === 0 && !this.#isTorn)) return;
    this.#size = 0;
    this.#mend();
  }

  /** Takes nothing from now on. The file stays only for rows that the database does not have. */
  close(isNeeded: boolean): void {
    this.#isClosed = true;
    if (this.#file === undefined) return;
    closeSync(this.#file);
    this.#file = undefined;
    if (isNeeded) return;
    try {
      rmSync(this.path, { force: true });
    } catch (error) {
      this.#onFailure(error);
    }
  }

  #write(bytes: Buffer): void {
    this.#file ??= openSync(this.path, "ax", 0o600);
    const written = writeSync(this.#file, bytes);
    if (written < bytes.length) throw new Error("no space left for the whole line");
    this.#size += written;
  }

  /** Cuts off what is behind the last whole line. */
  #mend(): void {
    if (this.#file === undefined) return;
    try {
      ftruncateSync(this.#file, this.#size);
      this.#isTorn = false;
    } catch {
      this.#isTorn = true;
    }
  }
}
