import { randomUUID } from "node:crypto";
import { closeSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import { readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { isRecord, reasonOf } from "../../helpers/index.ts";
import { isConstraintError } from "../database-errors.ts";
import type { Instance } from "../instances.ts";
import type { CallRow, StoreDatabase } from "../schema.ts";
import { callColumns } from "./call-row.ts";
import { CallTable } from "./call-table.ts";

/** Bytes of a row that are worth writing twice. */
const LARGEST_ROW = 256 * 1024;
/** Bytes of the file. The database is far behind when it is full, and whoever makes calls then waits for it. */
const LARGEST_FILE = 4 * 1024 * 1024;

/**
 * A file beside the database that holds the rows which the database does not have yet, each a line of JSON. Adding to
 * it costs a fraction of a transaction and survives the end of the process just as well: a record of single calls costs
 * 22 µs with it and 48 µs without (`npm run bench -- record`, whose goal is 30). The first line makes the file.
 */
export class CallJournal {
  readonly path: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #largest: number;
  #file: number | undefined;
  #size = 0;
  /** Set when the last line may be half a line that nothing must be added to. */
  #isTorn = false;
  #isClosed = false;

  /** `onFailure` is told when the file cannot be written. It takes nothing more once it has `largest` bytes. */
  constructor(path: string, onFailure: (error: unknown) => void, largest = LARGEST_FILE) {
    this.path = path;
    this.#onFailure = onFailure;
    this.#largest = largest;
  }

  /** Adds all rows or none. False when they have to wait for the database; never throws. */
  append(calls: readonly { readonly row: CallRow }[]): boolean {
    if (this.#isClosed || this.#isTorn || this.#size > this.#largest) return false;
    let text = "";
    for (const { row } of calls) {
      // The size counts blobs too, which are not in the line: writing them took longer than a transaction does.
      if (row.size > LARGEST_ROW) return false;
      text += `${JSON.stringify(row)}\n`;
    }
    try {
      const bytes = Buffer.from(text);
      this.#file ??= openSync(this.path, "ax", 0o600);
      const written = writeSync(this.#file, bytes);
      if (written < bytes.length) throw new Error("no space left for the whole line");
      this.#size += written;
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

const ENDING = ".jsonl";
const LARGEST_BATCH = 500;

/**
 * The journals of all that have the database open, in the directory of their locks. The name of a file begins with the
 * instance that it belongs to. Those of an instance that no longer lives belong to whoever renames them first.
 */
export class CallJournals {
  readonly #db: StoreDatabase;
  readonly #directory: string;
  readonly #instance: Instance;
  readonly #logger: Pick<Logger, "warn" | "error">;
  /** The names of those that are being written. */
  readonly #own = new Set<string>();
  readonly #told = new Set<string>();

  /** `directory`: of the locks that tell which instance lives. */
  constructor(
    db: StoreDatabase,
    directory: string,
    instance: Instance,
    logger: Pick<Logger, "warn" | "error">,
  ) {
    this.#db = db;
    this.#directory = directory;
    this.#instance = instance;
    this.#logger = logger;
  }

  /** A new one of this instance, for rows that are safe once they are in it. */
  open(): CallJournal {
    const path = this.#newPath();
    return new CallJournal(path, (error) =>
      this.#tellOnce(
        path,
        `The journal ${path} cannot be written: ${reasonOf(error)}. Calls are answered when the database has their records, which takes longer.`,
      ),
    );
  }

  /** A new one for rows that are kept in memory too, and are no worse off when it cannot be written. */
  openSpare(largest: number): CallJournal {
    return new CallJournal(this.#newPath(), () => {}, largest);
  }

  #newPath(): string {
    const name = nameFor(this.#instance.id);
    this.#own.add(name);
    return join(this.#directory, name);
  }

  /**
   * Brings the calls of processes that ended into the database, each once, and removes their journals. Never rejects:
   * what cannot be brought in stays for the next time.
   */
  async replay(): Promise<void> {
    try {
      for (const name of await this.#claim()) await this.#replayOne(join(this.#directory, name));
    } catch (error) {
      this.#tellOnce(
        this.#directory,
        `The journals in ${this.#directory} could not be looked for: ${reasonOf(error)}. They stay, and are tried again.`,
      );
    }
  }

  async #replayOne(path: string): Promise<void> {
    try {
      const lines = readJournal(await readFile(path, "utf8"));
      await this.#bringIn(path, lines);
      // Somebody may still read what a person can of a line that is damaged.
      if (lines.some(({ row }) => row === undefined)) await rename(path, `${path}.damaged`);
      else await rm(path, { force: true });
    } catch (error) {
      this.#tellOnce(
        path,
        `The calls in ${path} could not be brought into the database: ${reasonOf(error)}. The file stays, and is tried again.`,
      );
    }
  }

  /** The names of the files that are this instance's to bring in, also those that it could not before. */
  async #claim(): Promise<string[]> {
    const names = (await readdir(this.#directory)).filter(
      (name) => name.endsWith(ENDING) && !this.#own.has(name),
    );
    const claimed = names.filter((name) => holderOf(name) === this.#instance.id);
    if (claimed.length === names.length) return claimed;
    const dead = new Set(await this.#instance.findDead(names.map(holderOf)));
    for (const name of names) {
      if (!dead.has(holderOf(name))) continue;
      const ours = nameFor(this.#instance.id);
      // Another process may have been faster.
      const isOurs = await rename(join(this.#directory, name), join(this.#directory, ours)).then(
        () => true,
        () => false,
      );
      if (isOurs) claimed.push(ours);
    }
    return claimed;
  }

  async #bringIn(path: string, lines: readonly JournalLine[]): Promise<void> {
    for (const { line, row } of lines) {
      if (row === undefined)
        this.#skip(path, line, `it is not the record of a call; the file is kept as ${path}.damaged`);
    }
    for (let at = 0; at < lines.length; at += LARGEST_BATCH) {
      await this.#write(path, lines.slice(at, at + LARGEST_BATCH));
    }
  }

  async #write(path: string, lines: readonly JournalLine[]): Promise<void> {
    const rows = lines.flatMap(({ row }) => row ?? []);
    const ids = rows.map(({ call_id }) => call_id);
    const [first] = rows;
    if (first === undefined) return;
    // A journal is written by one instance.
    const table = new CallTable(this.#db, first.instance);
    try {
      return await table.write(rows, ids);
    } catch (error) {
      if (!isConstraintError(error)) throw error;
    }
    // The process may have ended after the commit of some, and before they were taken out of the journal.
    for (const { line, row } of lines) {
      if (row === undefined) continue;
      try {
        await table.writeAlone(row, true);
      } catch (error) {
        if (!isConstraintError(error)) throw error;
        this.#skip(path, line, reasonOf(error));
      }
    }
  }

  #skip(path: string, line: number, reason: string): void {
    this.#logger.warn(`${path}:${line}: this line was left out, because ${reason}.`);
  }

  #tellOnce(path: string, text: string): void {
    if (this.#told.has(path)) return;
    this.#told.add(path);
    this.#logger.error(text);
  }
}

function nameFor(instance: string): string {
  return `${instance}.${randomUUID()}${ENDING}`;
}

function holderOf(name: string): string {
  return name.slice(0, name.indexOf("."));
}

interface JournalLine {
  /** From 1. */
  readonly line: number;
  /** Undefined when the line is damaged. */
  readonly row: CallRow | undefined;
}

/** The lines of a journal. Half a line at its end is left out: nobody was told that it is safe. */
export function readJournal(text: string): JournalLine[] {
  const lines = text.split("\n").map((json, at) => ({ line: at + 1, row: parseRow(json) }));
  // Behind the last line break is nothing, or what a process that was killed did not write to its end.
  if (lines.at(-1)?.row === undefined) lines.pop();
  return lines;
}

function parseRow(json: string): CallRow | undefined {
  const value = parseLine(json);
  if (!isRecord(value)) return undefined;
  const { call_id, instance, state } = value;
  if (typeof call_id !== "string" || typeof instance !== "string") return undefined;
  if (state !== "completed" && state !== "error") return undefined;
  // Only what the table has, in case that another version wrote the line.
  const columns = callColumns.map((column) => [column, value[column] ?? null] as const);
  if (columns.some(([, field]) => field !== null && !/^(?:string|number)$/.test(typeof field)))
    return undefined;
  // Every column of a row is in it, of a type that the database takes, which `fromEntries` cannot say.
  return Object.fromEntries(columns) as unknown as CallRow;
}

function parseLine(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
