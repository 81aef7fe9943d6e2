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

/** Bytes. A larger row is not worth writing twice. */
const LARGEST_ROW = 256 * 1024;
/** Bytes. With a full journal the database is far behind, and calls wait for it. */
const LARGEST_FILE = 4 * 1024 * 1024;

/**
 * A file beside the database with the rows that the database does not have yet, one line of JSON each. An append costs
 * a fraction of a transaction and survives the end of the process as well: recording single calls costs 22 µs with it
 * and 48 µs without (`npm run bench -- record`, goal 30). The first append creates the file.
 */
export class CallJournal {
  readonly path: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #largest: number;
  #file: number | undefined;
  #size = 0;
  /** The last line may be incomplete, so that nothing may be appended. */
  #isTorn = false;
  #isClosed = false;

  /** `onFailure` is called when the file cannot be written. Appends fail once the file has `largest` bytes. */
  constructor(path: string, onFailure: (error: unknown) => void, largest = LARGEST_FILE) {
    this.path = path;
    this.#onFailure = onFailure;
    this.#largest = largest;
  }

  /** Adds all rows or none. False when the rows must go to the database directly; never throws. */
  append(rows: readonly CallRow[]): boolean {
    if (this.#isClosed || this.#isTorn || this.#size > this.#largest) return false;
    let text = "";
    for (const row of rows) {
      // The size includes blobs, which are not in the line; writing those took longer than a transaction anyway.
      if (row.size > LARGEST_ROW) return false;
      text += `${JSON.stringify(row)}\n`;
    }
    try {
      this.#write(Buffer.from(text));
      return true;
    } catch (error) {
      this.#truncate();
      this.#onFailure(error);
      return false;
    }
  }

  /** Must be called when the database has all rows: a row that is deleted there must not come back from here. */
  clear(): void {
    if (this.#file === undefined || (this.#size === 0 && !this.#isTorn)) return;
    this.#size = 0;
    this.#truncate();
  }

  /** Refuses all later appends. Deletes the file unless it is needed: the database does not have all its rows. */
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

  /** Cuts off everything after the last complete line. */
  #truncate(): void {
    if (this.#file === undefined) return;
    try {
      ftruncateSync(this.#file, this.#size);
      this.#isTorn = false;
    } catch {
      this.#isTorn = true;
    }
  }
}

const EXTENSION = ".jsonl";
const LARGEST_BATCH = 500;

/**
 * The journals of all instances of one database, in the directory of their locks. A file's name begins with the id of
 * its instance. The journal of a dead instance belongs to the first process that renames it.
 */
export class CallJournals {
  readonly #db: StoreDatabase;
  readonly #directory: string;
  readonly #instance: Instance;
  readonly #logger: Pick<Logger, "warn" | "error">;
  readonly #own = new Set<string>();
  readonly #loggedPaths = new Set<string>();

  /** `directory`: where the instances have their locks. */
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

  /** A new journal for rows that count as safe once they are in it. */
  open(): CallJournal {
    const path = this.#newPath();
    return new CallJournal(path, (error) =>
      this.#logOnce(
        path,
        `The journal ${path} cannot be written: ${reasonOf(error)}. Calls are answered when the database has their records, which takes longer.`,
      ),
    );
  }

  /** A new journal for rows that are kept in memory too, so that failures to write it are ignored. */
  openSpare(largest: number): CallJournal {
    return new CallJournal(this.#newPath(), () => {}, largest);
  }

  #newPath(): string {
    const name = nameFor(this.#instance.id);
    this.#own.add(name);
    return join(this.#directory, name);
  }

  /**
   * Writes the calls of dead processes into the database, each once, and removes their journals. Never rejects: a
   * journal that fails stays for the next time.
   */
  async replay(): Promise<void> {
    try {
      for (const name of await this.#claim()) await this.#replayOne(join(this.#directory, name));
    } catch (error) {
      this.#logOnce(
        this.#directory,
        `The journals in ${this.#directory} could not be looked for: ${reasonOf(error)}. They stay, and are tried again.`,
      );
    }
  }

  async #replayOne(path: string): Promise<void> {
    try {
      const lines = readJournal(await readFile(path, "utf8"));
      await this.#importLines(path, lines);
      // A person may still be able to read the damaged line.
      if (lines.some(({ row }) => row === undefined)) await rename(path, `${path}.damaged`);
      else await rm(path, { force: true });
    } catch (error) {
      this.#logOnce(
        path,
        `The calls in ${path} could not be brought into the database: ${reasonOf(error)}. The file stays, and is tried again.`,
      );
    }
  }

  /** Claims the journals of dead instances by renaming them. Returns the names, with those that failed before. */
  async #claim(): Promise<string[]> {
    const names = (await readdir(this.#directory)).filter(
      (name) => name.endsWith(EXTENSION) && !this.#own.has(name),
    );
    const claimed = names.filter((name) => instanceIdOf(name) === this.#instance.id);
    if (claimed.length === names.length) return claimed;
    const dead = new Set(await this.#instance.findDead(names.map(instanceIdOf)));
    for (const name of names) {
      if (!dead.has(instanceIdOf(name))) continue;
      const ours = nameFor(this.#instance.id);
      // Another process may have renamed it first.
      const isOurs = await rename(join(this.#directory, name), join(this.#directory, ours)).then(
        () => true,
        () => false,
      );
      if (isOurs) claimed.push(ours);
    }
    return claimed;
  }

  async #importLines(path: string, lines: readonly JournalLine[]): Promise<void> {
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
    // All rows of a journal are of one instance.
    const table = new CallTable(this.#db, first.instance);
    try {
      return await table.write(rows, ids);
    } catch (error) {
      if (!isConstraintError(error)) throw error;
    }
    // The process may have died after it had committed some rows and before it cleared the journal.
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

  #logOnce(path: string, text: string): void {
    if (this.#loggedPaths.has(path)) return;
    this.#loggedPaths.add(path);
    this.#logger.error(text);
  }
}

function nameFor(instance: string): string {
  return `${instance}.${randomUUID()}${EXTENSION}`;
}

function instanceIdOf(name: string): string {
  return name.slice(0, name.indexOf("."));
}

interface JournalLine {
  /** From 1. */
  readonly line: number;
  /** Undefined when the line is damaged. */
  readonly row: CallRow | undefined;
}

/** Reads the lines of a journal. Leaves out an incomplete last line: nobody was told that it is safe. */
export function readJournal(text: string): JournalLine[] {
  const lines = text.split("\n").map((json, at) => ({ line: at + 1, row: parseRow(json) }));
  // After the last line break comes nothing, or a line that a killed process did not finish.
  if (lines.at(-1)?.row === undefined) lines.pop();
  return lines;
}

function parseRow(json: string): CallRow | undefined {
  const value = parseLine(json);
  if (!isRecord(value)) return undefined;
  const { call_id, instance, state } = value;
  if (typeof call_id !== "string" || typeof instance !== "string") return undefined;
  if (state !== "completed" && state !== "error") return undefined;
  // Only the columns of this version's table: another version may have written the line.
  const columns = callColumns.map((column) => [column, value[column] ?? null] as const);
  if (columns.some(([, field]) => field !== null && !/^(?:string|number)$/.test(typeof field)))
    return undefined;
  // All columns are there with types that the database takes, which `fromEntries` does not know.
  return Object.fromEntries(columns) as unknown as CallRow;
}

function parseLine(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
