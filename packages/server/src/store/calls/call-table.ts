import { createHash } from "node:crypto";
import { CompiledQuery } from "kysely";
import { isDuplicateKey } from "../database-errors.ts";
import type { CallRow, StoreDatabase } from "../schema.ts";
import { blankRow, callColumns } from "./call-row.ts";

/** Rows and bytes that one statement inserts at the most: servers limit both parameters and packets. */
const LARGEST_STATEMENT = 32;
const LONGEST_STATEMENT = 1024 * 1024;

/** Puts batches of rows into `calls`. */
export class CallTable {
  readonly #db: StoreDatabase;
  readonly #instance: string;
  /** The text of the statement by its number of rows: building it anew costs more than running it. */
  readonly #inserts = new Map<number, string>();

  constructor(db: StoreDatabase, instance: string) {
    this.#db = db;
    this.#instance = instance;
  }

  /** Writes all rows or none. The started rows of the calls in `replaced` give way to them. */
  async write(rows: readonly CallRow[], replaced: readonly string[]): Promise<void> {
    const statements = splitRows(rows).map((group) => this.#insert(group));
    const [only] = statements;
    // One statement is a transaction of its own.
    if (replaced.length === 0 && statements.length === 1 && only !== undefined) {
      await this.#db.executeQuery(only);
      return;
    }
    await this.#db.transaction().execute(async (transaction) => {
      if (replaced.length > 0) await this.#deleteStarted(transaction, replaced);
      for (const statement of statements) await transaction.executeQuery(statement);
    });
  }

  /**
   * Writes one row that could not be written together with others; a finished call never fails for its id.
   * A caller may choose an id that an earlier call had. Neither record may be lost for that, or a call could be hidden by
   * repeating an id: the later one gets an id of its own.
   */
  async writeAlone(row: CallRow, isReplacing: boolean): Promise<void> {
    try {
      await this.write([row], isReplacing ? [row.call_id] : []);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      if (row.state === "running" || (await this.#isWritten(row))) return;
      await this.#writeBeside({ ...row, call_id: idBeside(row) });
    }
  }

  async #writeBeside(row: CallRow): Promise<void> {
    try {
      await this.write([row], []);
    } catch (error) {
      if (!isDuplicateKey(error) || !(await this.#isWritten(row))) throw error;
    }
  }

  /** The row itself, when a connection broke between its commit and the answer. */
  async #isWritten({ call_id, timestamp, state }: CallRow): Promise<boolean> {
    const found = await this.#db
      .selectFrom("calls")
      .select("call_id")
      .where("call_id", "=", call_id)
      .where("instance", "=", this.#instance)
      .where("timestamp", "=", timestamp)
      .where("state", "=", state)
      .executeTakeFirst();
    return found !== undefined;
  }

  async #deleteStarted(db: StoreDatabase, callIds: readonly string[]): Promise<void> {
    await db
      .deleteFrom("calls")
      .where("call_id", "in", callIds)
      .where("instance", "=", this.#instance)
      // Another node may have taken this one for dead.
      .where("state", "in", ["running", "interrupted"])
      .execute();
  }

  #insert(rows: readonly CallRow[]): CompiledQuery {
    const values: unknown[] = [];
    for (const row of rows) for (const column of callColumns) values.push(row[column]);
    return CompiledQuery.raw(this.#insertText(rows), values);
  }

  #insertText(rows: readonly CallRow[]): string {
    const known = this.#inserts.get(rows.length);
    if (known !== undefined) return known;
    // Of a row that stands for each, only the number and the columns matter here.
    const { sql } = this.#db
      .insertInto("calls")
      .values(rows.map(() => blankRow))
      .compile();
    this.#inserts.set(rows.length, sql);
    return sql;
  }
}

/** Always the same for the same row, so that one which is written again from a journal is not kept twice. */
function idBeside(row: CallRow): string {
  const hash = createHash("sha256").update(JSON.stringify(callColumns.map((column) => row[column])));
  return `${row.call_id}~${hash.digest("hex").slice(0, 12)}`;
}

function splitRows(rows: readonly CallRow[]): CallRow[][] {
  const groups: CallRow[][] = [];
  let group: CallRow[] = [];
  let length = 0;
  for (const row of rows) {
    // The size counts blobs too, which are not sent: the group is then smaller than it might be.
    if (group.length === LARGEST_STATEMENT || (group.length > 0 && length + row.size > LONGEST_STATEMENT)) {
      groups.push(group);
      group = [];
      length = 0;
    }
    group.push(row);
    length += row.size;
  }
  if (group.length > 0) groups.push(group);
  return groups;
}
