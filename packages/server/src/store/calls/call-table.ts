import { createHash } from "node:crypto";
import { CompiledQuery } from "kysely";
import type { OpenedDatabase } from "../database.ts";
import { isDuplicateKey, isTransientError } from "../database-errors.ts";
import type { CallRow, Engine, StoreDatabase } from "../schema.ts";
import { together } from "../sqlite.ts";
import { CallCounts, countedColumns, countingText, partOf } from "./call-counts.ts";
import { blankRow, callColumns } from "./call-row.ts";

/**
 * The most rows (LARGEST_STATEMENT) and bytes (LONGEST_STATEMENT) of one insert, because database servers
 * limit parameters and packets.
 */
const LARGEST_STATEMENT = 32;
const LONGEST_STATEMENT = 1024 * 1024;

/**
 * The started rows that are replaced, by the ids of their calls: which process may have the row when this one does not have
 * it, because that one hands the call over; an empty text when none may.
 */
export type Replaced = Readonly<Record<string, string>>;

type CallTableDatabase = Pick<OpenedDatabase, "db" | "engine" | "prepared">;

const assigned = callColumns.map((name) => `${name} = excluded.${name}`);
/**
 * Writes and counts a batch on PostgreSQL in one way there and back. The division fails, and with it all of the statement,
 * when not every row was written: another row has its id, and is not the started row that it replaces.
 */
const batchText = `with written AS (insert into calls (${callColumns})
    select ${callColumns} from json_populate_recordset(null::calls, $1)
    on conflict (call_id) do update set ${assigned}
      where $2::jsonb ? calls.call_id and calls.state = 'running' and (calls.instance = excluded.instance
        or calls.lane is not null and calls.instance = $2::jsonb ->> calls.call_id) returning 1),
  counts AS (${countingText("call_counts", "$4")}),
  days AS (${countingText("tool_days", "$5")})
  select 1 / (case when (select count(*) from written) = $3 then 1 else 0 end)`;

/** Puts batches of rows into `calls`, and counts them in the same transaction. */
export class CallTable {
  readonly #db: StoreDatabase;
  readonly #prepared: OpenedDatabase["prepared"];
  readonly #engine: Engine;
  readonly #instance: string;
  readonly #part: number;
  /** The insert's text by its number of rows: building it costs more than running it. */
  readonly #inserts = new Map<number, string>();

  constructor({ db, engine, prepared }: CallTableDatabase, instance: string) {
    this.#db = db;
    this.#prepared = prepared;
    this.#engine = engine;
    this.#instance = instance;
    this.#part = partOf(engine, instance);
  }

  /** Writes all rows or none. */
  async write(rows: readonly CallRow[], replaced: Replaced): Promise<void> {
    const counts = new CallCounts(this.#part).add(rows);
    if (await this.#writeTogether(rows, replaced, counts)) return;
    const isReplacing = Object.keys(replaced).length > 0;
    const plain = this.#engine === "sqlite" ? rows.filter(isPlain) : [];
    const others = plain.length === 0 ? rows : rows.filter((row) => !isPlain(row));
    const inserts = [
      ...splitRows(plain).map(insertPlain),
      ...splitRows(others).map((group) => this.#insert(group)),
    ];
    if (this.#engine === "sqlite" && !isReplacing) {
      await this.#db.executeQuery(together([...inserts, ...counts.statements("sqlite")]));
      return;
    }
    const [only] = inserts;
    // One statement is a transaction of its own. Rows of running calls are not counted.
    if (!isReplacing && inserts.length === 1 && only !== undefined && counts.isEmpty) {
      await this.#db.executeQuery(only);
      return;
    }
    await this.#db.transaction().execute(async (transaction) => {
      if (isReplacing) await this.#deleteStarted(transaction, replaced, counts);
      for (const statement of [...inserts, ...counts.statements(this.#engine)])
        await transaction.executeQuery(statement);
    });
  }

  /** Returns false when nothing was written: the rows need a transaction, which also finds out why. */
  async #writeTogether(rows: readonly CallRow[], replaced: Replaced, counts: CallCounts): Promise<boolean> {
    const size = rows.reduce((sum, row) => sum + row.size, 0);
    if (this.#prepared === undefined || size > LONGEST_STATEMENT) return false;
    const values = [JSON.stringify(rows), JSON.stringify(replaced), String(rows.length), ...counts.toJson()];
    try {
      await this.#prepared({ name: "calls", text: batchText, values });
      return true;
    } catch (error) {
      if (isTransientError(error)) throw error;
      return false;
    }
  }

  /**
   * Writes one row that failed together with others. A caller may reuse the id of an earlier call; the later record
   * then gets an id of its own, so that no record is lost and no call can be hidden by repeating an id. Returns false for
   * the record of a call of a lane that another process has by now or has ended: that one is right.
   */
  async writeAlone(row: CallRow, replaced: Replaced): Promise<boolean> {
    try {
      await this.write([row], replaced);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      if (row.state === "running" || (await this.#isWritten(row))) return true;
      if (row.lane !== null) return false;
      await this.#writeUnderNewId({ ...row, call_id: deriveId(row) });
    }
    return true;
  }

  async #writeUnderNewId(row: CallRow): Promise<void> {
    try {
      await this.write([row], {});
    } catch (error) {
      if (!isDuplicateKey(error) || !(await this.#isWritten(row))) throw error;
    }
  }

  /**
   * True when this very row is in the table: an earlier attempt committed it, and the connection broke before
   * the answer.
   */
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

  async #deleteStarted(db: StoreDatabase, replaced: Replaced, counts: CallCounts): Promise<void> {
    const callIds = Object.keys(replaced);
    const own = db.deleteFrom("calls").where("call_id", "in", callIds).where("instance", "=", this.#instance);
    const { numDeletedRows } = await own.where("state", "=", "running").executeTakeFirstOrThrow();
    if (Number(numDeletedRows) === callIds.length) return;
    for (const [callId, instance] of Object.entries(replaced))
      if (instance !== "")
        await db
          .deleteFrom("calls")
          .where("call_id", "=", callId)
          .where("instance", "=", instance)
          .where("state", "=", "running")
          .where("lane", "is not", null)
          .execute();
    // Another node may have taken this instance for dead, marked the call as interrupted and counted it.
    const interrupted = await db
      .selectFrom("calls")
      .select(countedColumns)
      .where("call_id", "in", callIds)
      .where("instance", "=", this.#instance)
      .where("state", "=", "interrupted")
      .execute();
    if (interrupted.length === 0) return;
    counts.takeBack(interrupted);
    await own.where("state", "=", "interrupted").execute();
  }

  #insert(rows: readonly CallRow[]): CompiledQuery {
    const values: unknown[] = [];
    for (const row of rows) for (const column of callColumns) values.push(row[column]);
    return CompiledQuery.raw(this.#insertText(rows), values);
  }

  #insertText(rows: readonly CallRow[]): string {
    const known = this.#inserts.get(rows.length);
    if (known !== undefined) return known;
    // Only the number of rows and the columns matter here, not the values.
    const { sql } = this.#db
      .insertInto("calls")
      .values(rows.map(() => blankRow))
      .compile();
    const text = this.#engine === "sqlite" ? sql.replace("insert", FAILING_INSERT) : sql;
    this.#inserts.set(rows.length, text);
    return text;
  }
}

/** An insert that leaves it to the transaction around it to undo rows: see `beginsWith` in `schema.ts`. */
const FAILING_INSERT = "insert or fail";

/** Whether the row has nothing but `plainValues`, as most have. */
function isPlain(row: CallRow): boolean {
  return (
    row.state === "completed" &&
    row.parent_call_id === null &&
    row.root_call_id === null &&
    row.replay_of === null &&
    row.message_id === "" &&
    row.tid === null &&
    row.depth === 0 &&
    row.result_blob === null &&
    row.more_blob === null &&
    row.error === null &&
    row.log === null &&
    row.lane === null
  );
}

/** The values of a plain row that SQLite is given. The others stand in the statement: binding them took as long as an index. */
function plainValues(row: CallRow): (string | number | null)[] {
  return [
    row.call_id,
    row.tool_name,
    row.display_name,
    row.session_id,
    row.caller,
    row.owner,
    row.timestamp,
    row.duration,
    row.run_duration,
    row.instance,
    row.size,
    row.result_type,
    row.result_size,
    row.parameters_hash,
    row.after_duration,
    row.flags,
    row.parameters,
    row.result_text,
    row.more,
  ];
}

/** The columns of `plainValues`, and for each of the others what `isPlain` asks for. */
const plainColumns = plainValues(
  Object.fromEntries(callColumns.map((name) => [name, name])) as unknown as CallRow, // Each value is a text.
).map(String);
const fixedColumns = callColumns.filter((name) => !plainColumns.includes(name));
const fixedValues = fixedColumns.map((name) => (name === "state" ? "completed" : blankRow[name]));
const fixedText = JSON.stringify(fixedValues).slice(1, -1).replaceAll('"', "'");
/** The inserts by their number of rows. */
const plainTexts: string[] = [];

function insertPlain(rows: readonly CallRow[]): CompiledQuery {
  const values: unknown[] = [];
  for (const row of rows) values.push(...plainValues(row));
  plainTexts[rows.length] ??=
    `${FAILING_INSERT} into calls (${[...plainColumns, ...fixedColumns]}) values ${rows
      .map(() => `(${plainColumns.map(() => "?")}, ${fixedText})`)
      .join()}`;
  return CompiledQuery.raw(plainTexts[rows.length]!, values);
}

/** The same row always gets the same id, so that a row that is replayed from a journal is not kept twice. */
function deriveId(row: CallRow): string {
  const hash = createHash("sha256").update(JSON.stringify(callColumns.map((column) => row[column])));
  return `${row.call_id}~${hash.digest("hex").slice(0, 12)}`;
}

function splitRows(rows: readonly CallRow[]): CallRow[][] {
  const groups: CallRow[][] = [];
  let group: CallRow[] = [];
  let length = 0;
  for (const row of rows) {
    // The size includes blobs, which are not sent, so a group may be smaller than possible.
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
