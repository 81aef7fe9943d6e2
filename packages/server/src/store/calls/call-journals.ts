import { randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@toolrack/core";
import { isConstraintError } from "../database/error-kind.ts";
import type { StoreDatabase } from "../database/schema.ts";
import type { Instance } from "../instances/instance.ts";
import { CallJournal } from "./call-journal.ts";
import { CallTable } from "./call-table.ts";
import { type JournalLine, readJournal } from "./read-journal.ts";

export interface CallJournalsParts {
  readonly db: StoreDatabase;
  /** Of the locks that tell which instance lives. */
  readonly directory: string;
  readonly instance: Instance;
  readonly logger: Pick<Logger, "warn" | "error">;
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
  /** The name of the one that is being written. */
  readonly #own: string;
  readonly #told = new Set<string>();

  constructor({ db, directory, instance, logger }: CallJournalsParts) {
    this.#db = db;
    this.#directory = directory;
    this.#instance = instance;
    this.#logger = logger;
    this.#own = nameFor(instance.id);
  }

  /** The one of this instance. */
  open(): CallJournal {
    const path = join(this.#directory, this.#own);
    return new CallJournal(path, (error) =>
      this.#tellOnce(
        path,
        `The journal ${path} cannot be written: ${reasonOf(error)}. Calls are answered when the database has their records, which takes longer.`,
      ),
    );
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
      await this.#bringIn(path, readJournal(await readFile(path, "utf8")));
      await rm(path, { force: true });
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
      (name) => name.endsWith(ENDING) && name !== this.#own,
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
      if (row === undefined) this.#skip(path, line, "it is not the record of a call");
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

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
