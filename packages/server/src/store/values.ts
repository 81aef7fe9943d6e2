import { redact } from "@toolrack/core";
import { type Expression, type SqlBool, sql } from "kysely";
import type { Engine } from "./database.ts";
import { InvalidCursorError } from "./errors.ts";
import { toKey } from "./forms.ts";

/** Where a page ended: lists go from the newest to the oldest, and by id within one millisecond. */
interface Cursor {
  readonly time: number;
  readonly id: string;
}

const USUAL_LIMIT = 50;
const LARGEST_LIMIT = 500;

export function pageLimit(limit: number | undefined): number {
  return Math.min(Math.max(1, Math.trunc(limit ?? USUAL_LIMIT) || 1), LARGEST_LIMIT);
}

export function formatCursor({ time, id }: Cursor): string {
  return Buffer.from(JSON.stringify([time, id])).toString("base64url");
}

export function parseCursor(cursor: string): Cursor {
  const value = parse(cursor);
  if (!Array.isArray(value) || value.length !== 2) throw new InvalidCursorError();
  const [time, id] = value;
  if (!Number.isSafeInteger(time) || typeof id !== "string") throw new InvalidCursorError();
  // A cursor with other characters in between would be read all the same.
  if (formatCursor({ time, id }) !== cursor) throw new InvalidCursorError();
  return { time, id: toKey(id) };
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, "base64url").toString());
  } catch {
    throw new InvalidCursorError();
  }
}

/** Whether the column holds the text anywhere, whatever the case of Latin letters. */
export function contains(engine: Engine, column: string, text: string): Expression<SqlBool> {
  const pattern = `%${escapeLike(text)}%`;
  const reference = sql.ref(column);
  switch (engine) {
    case "sqlite":
      return sql`${reference} like ${pattern} escape '!'`;
    case "postgres":
      return sql`${reference} ilike ${pattern} escape '!'`;
    case "mysql":
      // A collation that ignores case would also take every emoji for the same.
      return sql`lower(${reference}) like lower(${pattern}) escape '!'`;
  }
}

/** Whether the column fits a glob of `*` and `?`, case and all. */
export function matchesGlob(engine: Engine, column: string, glob: string): Expression<SqlBool> {
  const reference = sql.ref(column);
  if (!/[*?]/.test(glob)) return sql`${reference} = ${glob}`;
  // SQLite's `like` ignores case; its own `glob` does not, and needs only its brackets taken literally. The plus keeps it
  // from an index that gives the rows in another order: it would sort all that match, where a page needs a few.
  if (engine === "sqlite") return sql`+${reference} glob ${glob.replaceAll("[", "[[]")}`;
  const pattern = escapeLike(glob).replaceAll("*", "%").replaceAll("?", "_");
  return sql`${reference} like ${pattern} escape '!'`;
}

/** The usual backslash means different things to the engines. */
function escapeLike(text: string): string {
  return text.replace(/[!%_]/g, "!$&");
}

/** What this process has promised to write to a database, and a reader of it must see. */
export class PromisedWrites {
  readonly #writers = new Set<PromisedWriter>();

  /** Answers how to take it off again. */
  add(writer: PromisedWriter): () => void {
    this.#writers.add(writer);
    return () => void this.#writers.delete(writer);
  }

  /** To be awaited before calls are read: all of them, or one. Never rejects. */
  async commit(callId?: string): Promise<void> {
    for (const writer of this.#writers) await writer.commit(callId);
  }
}

interface PromisedWriter {
  /** Resolves when the database has the calls that are safe by now, or only the one that is named. Never rejects. */
  commit(callId?: string): Promise<void>;
}

/** Bytes of the longest JSON that is kept of arguments. */
const LONGEST = 1024 * 1024;
const SHOWN = 4_000;

/** JSON of any value. What JSON cannot hold is replaced, never a reason to lose the record. */
export function toJson(value: unknown): string {
  try {
    // Undefined for a function or a symbol.
    return JSON.stringify(value) ?? "null";
  } catch {
    return JSON.stringify(redact(value)) ?? "null";
  }
}

/** JSON of arguments; very long ones give way to their beginning. */
export function toBoundedJson(value: Readonly<Record<string, unknown>>): string {
  const json = toJson(value);
  return Buffer.byteLength(json) <= LONGEST ? json : toJson(tooLarge(json.length, json.slice(0, SHOWN)));
}

/** Stands where arguments were too large to keep, or to show in a list. */
export function tooLarge(length: number, beginning?: string): Record<string, unknown> {
  return { "[too large]": `${length} characters of JSON${beginning === undefined ? "" : `: ${beginning}…`}` };
}

/** The JSON that this store wrote; undefined for none. */
export function fromJson<Value>(json: string | null): Value | undefined {
  // The columns hold what was written with the same types.
  return json === null ? undefined : (JSON.parse(json) as Value);
}
