import { setImmediate as nextTurn } from "node:timers/promises";
import { redact } from "@toolrack/core/internal";
import {
  type Expression,
  type Kysely,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
} from "kysely";
import { InvalidCursorError } from "./errors.ts";
import { toKey, toStorableText } from "./keys.ts";
import { type Engine, type StoreDatabase, type Tables, tables } from "./schema.ts";

/** How a member of a record is kept in a column of its row. An undefined member is a null column. */
interface Field<Value> {
  /** Default: the name of the member in lower case, with underscores. */
  readonly column?: string | undefined;
  write(value: Value): string | number;
  /** Gets null only when `hasDefault` is set. Returning undefined leaves the member out. */
  read(column: unknown): Value | undefined;
  readonly hasDefault?: true;
}

type Fields<Item> = { readonly [Key in keyof Item]?: Field<NonNullable<Item[Key]>> };

/**
 * Converts the records of a table to rows and back. Each column is a member of the same name, written as the type of
 * the column says. `fields` are the members that are written otherwise; `others` are columns that are no member.
 */
export function rowMap<Item extends object>() {
  return <Name extends keyof Tables, Other extends keyof Tables[Name] = never>(
    table: Name,
    fields: Fields<Item> = {},
    others: readonly Other[] = [],
  ) => new RowMap<Item, Omit<Tables[Name], Other>>(table, fields, others.map(String));
}

class RowMap<Item extends object, Row extends object> {
  readonly #fields: readonly (readonly [member: string, column: string, field: Field<unknown>])[];

  constructor(table: keyof Tables, fields: Fields<Item>, others: readonly string[]) {
    // `Fields` checks that each field has the type of its member, which `entries` forgets.
    const entries = Object.entries(fields) as [string, Field<unknown>][];
    const special = new Map(entries.map((entry) => [entry[1].column ?? toColumn(entry[0]), entry]));
    const columns = tables[table].flatMap((line) => line.split(", ")).map((text) => text.split(" "));
    this.#fields = columns.flatMap(([column = "", type = ""]) => {
      if (others.includes(column)) return [];
      const [member, field] = special.get(column) ?? [toMember(column), usualField(type)];
      return [[member, column, field]];
    });
  }

  /** All columns of the map; null for members that are missing. */
  toRow(record: Item): Row {
    const values = new Map<string, unknown>(Object.entries(record));
    const columns = this.#fields.map(([member, column, { write }]) => {
      const value = values.get(member) ?? null;
      return [column, value === null ? null : write(value)];
    });
    return Object.fromEntries(columns) as Row; // The columns of the table are those of the map.
  }

  /** Only the columns of the given members; null clears a column. */
  toChanges(changes: { readonly [Key in keyof Item]?: Item[Key] | null | undefined }): Partial<Row> {
    const values = new Map<string, unknown>(Object.entries(changes));
    const columns = this.#fields.flatMap(([member, column, { write }]) => {
      const value = values.get(member);
      return value === undefined ? [] : [[column, value === null ? null : write(value)]];
    });
    return Object.fromEntries(columns) as Partial<Row>; // The columns of the table are those of the map, as in `toRow`.
  }

  readonly toRecord = (row: { readonly [Column in keyof Row]: Row[Column] | null }): Item => {
    const columns: Readonly<Record<string, unknown>> = row;
    const record: Record<string, unknown> = {};
    for (const [member, column, { read, hasDefault }] of this.#fields) {
      const found = columns[column] ?? null;
      const value = found === null && !hasDefault ? undefined : read(found);
      if (value !== undefined) record[member] = value;
    }
    return record as Item; // Columns that may be null belong to optional members.
  };
}

function toColumn(member: string): string {
  return member.replace(/(?<=[a-z])[A-Z]+/g, (letters) => `_${letters}`).toLowerCase();
}

function toMember(column: string): string {
  if (column === "session_id" || column === "message_id") return column.replace("_id", "ID");
  return column.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

function usualField(type: string): Field<unknown> {
  if (type.startsWith("key")) return { ...key(), write: (value) => toKey(String(value)) };
  if (type.startsWith("text")) return { ...text(), write: (value) => toStorableText(String(value)) };
  if (type.startsWith("whole")) return { read: Number, write: (value) => Math.round(Number(value)) };
  // `write` got the type that the table says.
  return { read: (found) => found, write: (value) => value as string | number };
}

/** A column that holds the value itself: numbers, ids and fixed words. */
export function plain<Value extends string | number>(column?: string): Field<Value> {
  return { column, write: (value) => value, read: (found) => found as Value }; // `write` got the same type.
}

/** A text by which rows are looked up; see `toKey`. */
export function key(column?: string): Field<string> {
  return { column, write: toKey, read: String };
}

export function text(column?: string): Field<string> {
  return { column, write: toStorableText, read: String };
}

/** A text that is read as empty when a row that was written by hand leaves it out. */
export function textOrEmpty(column?: string): Field<string> {
  return { column, write: toStorableText, read: (found) => String(found ?? ""), hasDefault: true };
}

export function flag(column?: string): Field<boolean> {
  return { column, write: Number, read: (found) => found !== 0 };
}

/** JSON that only this store writes. */
export function json<Value>(column?: string): Field<Value> {
  // The columns hold what was written with the same types.
  return { column, write: toJson, read: (found) => JSON.parse(String(found)) as Value };
}

/**
 * JSON in a row that somebody may have written by hand. `accept` gets the parsed value, or undefined when the
 * column is not JSON, and the column's text.
 */
export function looseJson<Value>(
  accept: (value: unknown, written: string) => Value | undefined,
): Field<Value> {
  const read = (found: unknown) => accept(parseJson(String(found)), String(found));
  return { write: toJson, read };
}

function parseJson(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    return undefined;
  }
}

/**
 * LONGEST_JSON: bytes of the longest arguments that are kept whole. SHOWN_CHARACTERS: how many characters are
 * kept of longer ones.
 */
const LONGEST_JSON = 1024 * 1024;
const SHOWN_CHARACTERS = 4_000;

/** JSON of any value. Values that JSON cannot hold are replaced, so that no record is lost. */
export function toJson(value: unknown): string {
  try {
    // `stringify` returns undefined for a function or a symbol.
    return JSON.stringify(value) ?? "null";
  } catch {
    return JSON.stringify(redact(value)) ?? "null";
  }
}

/** JSON of arguments; very long arguments are cut to their beginning. */
export function toBoundedJson(value: Readonly<Record<string, unknown>>): string {
  const written = toJson(value);
  if (Buffer.byteLength(written) <= LONGEST_JSON) return written;
  return toJson(tooLarge(written.length, written.slice(0, SHOWN_CHARACTERS)));
}

/** Replaces arguments that are too large to keep, or to show in a list. */
export function tooLarge(length: number, beginning?: string): Record<string, unknown> {
  return { "[too large]": `${length} characters of JSON${beginning === undefined ? "" : `: ${beginning}…`}` };
}

/** Parses JSON that this store wrote; undefined for null. */
export function fromJson<Value>(written: string | null): Value | undefined {
  // The columns hold what was written with the same types.
  return written === null ? undefined : (JSON.parse(written) as Value);
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next?: string;
}

const USUAL_LIMIT = 50;
const LARGEST_LIMIT = 500;

export function pageLimit(limit: number | undefined): number {
  return Math.min(Math.max(1, Math.trunc(limit ?? USUAL_LIMIT) || 1), LARGEST_LIMIT);
}

interface PageQuery<Selected, Row, Item> {
  readonly limit: number | undefined;
  /** `next` of the page before. */
  readonly cursor: string | undefined;
  /**
   * `time` and `id` name the columns by which rows are sorted: the newest first, and by id within one
   * millisecond.
   */
  readonly time: string;
  readonly id: string;
  readonly toItem: (row: Row) => Item;
  readonly placeOf: (item: Item) => Cursor;
  readonly isId?: (id: string) => boolean;
  /** Runs the query for rows behind `after`. Default: `execute`. */
  readonly run?: (query: Selected, after: Cursor | undefined) => Promise<Row[]>;
}

/** Reads one page of the selection. Throws `InvalidCursorError`. */
export async function readPage<Table extends keyof Tables, Row, Item>(
  selection: SelectQueryBuilder<Tables, Table, Row>,
  query: PageQuery<SelectQueryBuilder<Tables, Table, Row>, Row, Item>,
): Promise<Page<Item>> {
  const { cursor, toItem, placeOf, isId = () => true, run = (wanted) => wanted.execute() } = query;
  const limit = pageLimit(query.limit);
  const [time, id] = [sql.ref(query.time), sql.ref(query.id)];
  let wanted = selection;
  const after = cursor === undefined ? undefined : parseCursor(cursor);
  if (after !== undefined) {
    if (!isId(after.id)) throw new InvalidCursorError();
    // The second condition implies the first, but only the first can use an index.
    wanted = wanted
      .where(sql<SqlBool>`${time} <= ${after.time}`)
      .where(sql<SqlBool>`(${time} < ${after.time} or ${id} < ${after.id})`);
  }
  const ordered = wanted.orderBy(time, "desc").orderBy(id, "desc");
  const rows = await run(ordered.limit(limit + 1), after);
  const items = rows.slice(0, limit).map(toItem);
  const last = items.at(-1);
  return rows.length > limit && last !== undefined ? { items, next: formatCursor(placeOf(last)) } : { items };
}

interface Cursor {
  readonly time: number;
  readonly id: string;
}

function formatCursor({ time, id }: Cursor): string {
  return Buffer.from(JSON.stringify([time, id])).toString("base64url");
}

function parseCursor(cursor: string): Cursor {
  const value = parseJson(Buffer.from(cursor, "base64url").toString());
  if (!Array.isArray(value) || value.length !== 2) throw new InvalidCursorError();
  const [time, id] = value;
  if (!Number.isSafeInteger(time) || typeof id !== "string") throw new InvalidCursorError();
  // Decoding ignores foreign characters, so a changed cursor would pass otherwise.
  if (formatCursor({ time, id }) !== cursor) throw new InvalidCursorError();
  return { time, id: toKey(id) };
}

/** Whether the column contains the text, without regard to the case of Latin letters. */
export function contains(engine: Engine, column: string, wanted: string): Expression<SqlBool> {
  const pattern = `%${escapeLike(wanted)}%`;
  const reference = sql.ref(column);
  switch (engine) {
    case "sqlite":
      return sql`${reference} like ${pattern} escape '!'`;
    case "postgres":
      return sql`${reference} ilike ${pattern} escape '!'`;
    case "mysql":
      // A collation that ignores case would also treat all emoji as equal.
      return sql`lower(${reference}) like lower(${pattern}) escape '!'`;
  }
}

/** Whether the column matches a glob of `*` and `?`; case counts. */
export function matchesGlob(engine: Engine, column: string, glob: string): Expression<SqlBool> {
  const reference = sql.ref(column);
  if (!/[*?]/.test(glob)) return sql`${reference} = ${glob}`;
  // SQLite's `like` ignores case, so `glob` is used, with brackets taken literally. The plus keeps SQLite
  // from using an index whose order is not that of the page: it would have to sort all matches, while a page
  // needs a few.
  if (engine === "sqlite") return sql`+${reference} glob ${glob.replaceAll("[", "[[]")}`;
  const pattern = escapeLike(glob).replaceAll("*", "%").replaceAll("?", "_");
  return sql`${reference} like ${pattern} escape '!'`;
}

/** Escapes with `!`, because the engines treat a backslash differently. */
function escapeLike(wanted: string): string {
  return wanted.replace(/[!%_]/g, "!$&");
}

/**
 * Conditions on columns, which must all hold. A value: the column equals it. A list: the column equals one of
 * its values. Null: the column is null.
 */
type Where<Row> = { readonly [Column in keyof Row]?: Row[Column] | readonly Row[Column][] };

/** The tables without the types of their columns, which `Where` and the results have. */
type AnyDatabase = Kysely<Record<string, Record<string, unknown>>>;

/** Reads the rows that meet the conditions, sorted by the columns of `order`. */
export async function findRows<Name extends keyof Tables>(
  db: StoreDatabase,
  table: Name,
  where: Where<Tables[Name]>,
  ...order: (keyof Tables[Name] & string)[]
): Promise<Tables[Name][]> {
  let rows = untyped(db).selectFrom(String(table)).selectAll();
  rows = rows.where((expression) => expression.and(equalities(where)));
  for (const column of order) rows = rows.orderBy(sql.ref(column));
  return (await rows.execute()) as Tables[Name][]; // The table has no other columns.
}

export async function findRow<Name extends keyof Tables>(
  db: StoreDatabase,
  table: Name,
  where: Where<Tables[Name]>,
): Promise<Tables[Name] | undefined> {
  return (await findRows(db, table, where))[0];
}

/** Changes the rows that meet the conditions. Returns how many. */
export async function updateRows<Name extends keyof Tables>(
  db: StoreDatabase,
  table: Name,
  where: Where<Tables[Name]>,
  changes: Partial<Tables[Name]>,
): Promise<number> {
  const rows = untyped(db).updateTable(String(table)).set(changes);
  const done = await rows.where((expression) => expression.and(equalities(where))).executeTakeFirst();
  return Number(done.numUpdatedRows);
}

/** Deletes the rows that meet the conditions. Returns how many. */
export async function deleteRows<Name extends keyof Tables>(
  db: StoreDatabase,
  table: Name,
  where: Where<Tables[Name]>,
): Promise<number> {
  const rows = untyped(db).deleteFrom(String(table));
  const done = await rows.where((expression) => expression.and(equalities(where))).executeTakeFirst();
  return Number(done.numDeletedRows);
}

const DELETED_AT_ONCE = 200;

/** Deletes rows, given as a table that has ids and a condition, some at a time, so that others are served in between. */
export async function deleteInSteps(db: StoreDatabase, rows: RawBuilder<unknown>): Promise<void> {
  for (let count = DELETED_AT_ONCE; count === DELETED_AT_ONCE; await nextTurn()) {
    const some = sql<{ id: string }>`select id from ${rows} limit ${sql.lit(DELETED_AT_ONCE)}`;
    const ids = (await some.execute(db)).rows.map(({ id }) => id);
    count = ids.length;
    if (count > 0) await sql`delete from ${rows} and id in (${sql.join(ids)})`.execute(db);
  }
}

function untyped(db: StoreDatabase): AnyDatabase {
  return db as unknown as AnyDatabase; // The same tables; see `AnyDatabase`.
}

function equalities(where: object): Expression<SqlBool>[] {
  return Object.entries(where).map(([column, value]) => {
    if (value === null) return sql<SqlBool>`${sql.ref(column)} is null`;
    if (!Array.isArray(value)) return sql<SqlBool>`${sql.ref(column)} = ${value}`;
    return value.length === 0
      ? sql<SqlBool>`1 = 0`
      : sql<SqlBool>`${sql.ref(column)} in (${sql.join(value)})`;
  });
}

/** Runs the statement. True when it changed a row. */
export async function changesRows(change: {
  executeTakeFirst(): Promise<{ numUpdatedRows: bigint } | { numDeletedRows: bigint }>;
}): Promise<boolean> {
  const done = await change.executeTakeFirst();
  return ("numUpdatedRows" in done ? done.numUpdatedRows : done.numDeletedRows) > 0n;
}
