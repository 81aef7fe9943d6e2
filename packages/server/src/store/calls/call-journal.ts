import { randomUUID } from "node:crypto";
import { closeSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import { readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { isRecord, reasonOf } from "../../helpers/index.ts";
import type { OpenedDatabase } from "../database.ts";
import { isConstraintError } from "../database-errors.ts";
import type { Instance } from "../instances.ts";
import type { CallRow } from "../schema.ts";
import { callColumns } from "./call-row.ts";
import { CallTable } from "./call-table.ts";

/** Bytes. A larger row goes straight to the database, because writing it twice costs too much. */
const LARGEST_ROW = 256 * 1024;
/**
 * Bytes of the file. When it is full, the database is far behind, and `CallWriter.finished` waits for the
 * database.
 */
const LARGEST_FILE = 4 * 1024 * 1024;

/**
 * A file beside the database with the rows that the database does not have yet, each a line of JSON. Adding a
 * row costs a fraction of a transaction and survives the end of the process just as well: recording a single
 * call costs 22 µs with the journal and 48 µs without it (`npm run bench -- record`, whose goal is 30). The
 * file is created with its first line.
 */
export class CallJournal {
  readonly path: string;
  readonly #onFailure: (error: unknown) => void;
  readonly #largest: number;
  #file: number | undefined;
  #size = 0;
  /** True while the file may end with half a line that could not be cut off. Then nothing may be added. */
  #isTorn = false;
  #isClosed = false;

  /**
   * `onFailure` is called when the file cannot be written. The journal takes no more rows once it has more
   * than `largest` bytes.
   */
  constructor(path: string, onFailure: (error: unknown) => void, largest = LARGEST_FILE) {
    this.path = path;
    this.#onFailure = onFailure;
    this.#largest = largest;
  }

  /**
   * Adds all rows or none. Returns false when none was added, so that the rows have to wait for the database.
   * Never throws.
   */
  append(calls: readonly { readonly row: CallRow }[]): boolean {
    if (this.#isClosed || this.#isTorn || this.#size > this.#largest) return false;
    let text = "";
    for (const { row } of calls) {
      // `size` counts blobs too, although the line does not contain them: a row with large blobs has waited
      // longer for them than a transaction takes.
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

  /**
   * Empties the journal. To be called when the database has all of its rows, so that a row that is deleted
   * there later is not written again from here.
   */
  clear(): void {
    if (this.#file === undefined || (this.#size === 0 && !this.#isTorn)) return;
    this.#size = 0;
    this.#mend();
  }

  /** Takes no more rows. Removes the file unless `isNeeded`: the database does not have all of its rows. */
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
 * The journals of all instances that have the database open, in the directory of their lock files. The name
 * of a file begins with the id of its instance. The journals of a dead instance belong to the instance that
 * renames them first.
 */
export class CallJournals {
  readonly #database: OpenedDatabase;
  readonly #directory: string;
  readonly #instance: Instance;
  readonly #logger: Pick<Logger, "warn" | "error">;
  /** The names of the journals that this process writes. */
  readonly #own = new Set<string>();
  readonly #told = new Set<string>();

  /** `directory`: where the lock files are that tell which instances live. */
  constructor(
    database: OpenedDatabase,
    directory: string,
    instance: Instance,
    logger: Pick<Logger, "warn" | "error">,
  ) {
    this.#database = database;
    this.#directory = directory;
    this.#instance = instance;
    this.#logger = logger;
  }

  /** Returns a new journal of this instance, for rows that count as safe once they are in it. */
  open(): CallJournal {
    const path = this.#newPath();
    return new CallJournal(path, (error) =>
      this.#tellOnce(
        path,
        `The journal ${path} cannot be written: ${reasonOf(error)}. Calls are answered when the database has their records, which takes longer.`,
      ),
    );
  }

  /** Returns a new journal for rows that are kept in memory too, so that a failure to write it is ignored. */
  openSpare(largest: number): CallJournal {
    return new CallJournal(this.#newPath(), () => {}, largest);
  }

  #newPath(): string {
    const name = nameFor(this.#instance.id);
    this.#own.add(name);
    return join(this.#directory, name);
  }

  /**
   * Writes the calls in the journals of ended processes to the database, each once, and removes these
   * journals. Never rejects: a journal whose calls cannot be written stays for the next time.
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
      // A person may still be able to read parts of the damaged lines.
      if (lines.some(({ row }) => row === undefined)) await rename(path, `${path}.damaged`);
      else await rm(path, { force: true });
    } catch (error) {
      this.#tellOnce(
        path,
        `The calls in ${path} could not be brought into the database: ${reasonOf(error)}. The file stays, and is tried again.`,
      );
    }
  }

  /**
   * Takes over the journals of dead instances. Returns their names, and the names of journals that this
   * instance took over before but could not write to the database.
   */
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
      // The rename fails when another process has renamed the file first.
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
    const replaced = Object.fromEntries(rows.map(({ call_id }) => [call_id, ""]));
    const [first] = rows;
    if (first === undefined) return;
    // All rows of a journal were written by one instance.
    const table = new CallTable(this.#database, first.instance);
    try {
      return await table.write(rows, replaced);
    } catch (error) {
      if (!isConstraintError(error)) throw error;
    }
    // Some rows may be in the database already, because the process ended between its commit and the clearing
    // of the journal. So each row is written alone.
    for (const { line, row } of lines) {
      if (row === undefined) continue;
      try {
        await table.writeAlone(row, { [row.call_id]: "" });
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
  /** Counted from 1. */
  readonly line: number;
  /** Undefined when the line is damaged. */
  readonly row: CallRow | undefined;
}

/** Parses the lines of a journal. Half a line at its end is left out: its call was never reported as safe. */
export function readJournal(text: string): JournalLine[] {
  const lines = text.split("\n").map((json, at) => ({ line: at + 1, row: parseRow(json) }));
  // Behind the last line break is nothing, or a line that a killed process did not finish.
  if (lines.at(-1)?.row === undefined) lines.pop();
  return lines;
}

function parseRow(json: string): CallRow | undefined {
  const value = parseLine(json);
  if (!isRecord(value)) return undefined;
  const { call_id, instance, state } = value;
  if (typeof call_id !== "string" || typeof instance !== "string") return undefined;
  if (state !== "completed" && state !== "error") return undefined;
  // Only the columns that the table has, because another version may have written the line.
  // An older one left out the owner, which must not be null: the row is counted when it is written.
  const found: Record<string, unknown> = { owner: "", ...value };
  const columns = callColumns.map((column) => [column, found[column] ?? null] as const);
  if (columns.some(([, field]) => field !== null && !/^(?:string|number)$/.test(typeof field)))
    return undefined;
  // The object has every column of a row, of a type that the database takes, which `fromEntries` cannot say.
  return Object.fromEntries(columns) as unknown as CallRow;
}

function parseLine(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
