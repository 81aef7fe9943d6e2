import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { Blobs } from "../blobs.ts";
import type { OpenedDatabase } from "../database.ts";
import { CallCounts, countedColumns, keptFor, spanLengths, spans, WITH_BLOB } from "./call-counts.ts";

/** What is kept of calls. Everything here is done in small steps, so that calls can be written in between. */
interface Retention {
  /** Milliseconds after which a call is deleted. */
  readonly maxAge?: number;
  /** The most bytes that all calls together may take, blobs included. */
  readonly maxBytes?: number;
  /** Stops the work between two steps. */
  readonly signal?: AbortSignal;
}

const ROWS_AT_ONCE = 200;

/** Deletes the oldest finished calls, and their blobs unless these are young. */
export async function pruneCalls(
  database: OpenedDatabase,
  blobs: Blobs,
  { maxAge, maxBytes, signal }: Retention,
): Promise<void> {
  const { db, engine } = database;
  const oldest = maxAge === undefined ? Number.NEGATIVE_INFINITY : Date.now() - maxAge;
  while (signal?.aborted !== true) {
    const begun = performance.now();
    let excess = maxBytes === undefined ? 0 : (await bytesOf(database)) - maxBytes;
    if (maxAge === undefined && excess <= 0) return;
    const rows = await db
      .selectFrom("calls")
      .select(["call_id", "owner", ...countedColumns])
      .where("state", "!=", "running")
      .orderBy("timestamp")
      .orderBy("call_id")
      .limit(ROWS_AT_ONCE)
      .execute();
    const expired = rows.filter(({ timestamp, size }) => {
      const isExpired = timestamp < oldest || excess > 0;
      excess -= size;
      return isExpired;
    });
    if (expired.length === 0) return;
    const ids = expired.map(({ call_id }) => call_id);
    // Rows of older versions that were not counted yet cannot be taken back.
    const mark = (await markOf(database)) ?? Number.POSITIVE_INFINITY;
    const counted = expired.filter(({ owner, timestamp }) => owner !== null || timestamp <= mark);
    const counts = new CallCounts(0).forget(counted);
    await db.transaction().execute(async (transaction) => {
      await transaction
        .deleteFrom("calls")
        .where("call_id", "in", ids)
        .where("state", "!=", "running")
        .execute();
      for (const statement of counts.statements(engine)) await transaction.executeQuery(statement);
    });
    const named = expired.flatMap(({ result_blob, more_blob }) => [result_blob ?? "", more_blob ?? ""]);
    await blobs.remove(named.filter(Boolean), (names) => referencedBlobs(database, names));
    if (expired.length < rows.length) return;
    // Other work gets as much time as this took.
    await sleep(performance.now() - begun);
  }
}

/** Deletes the blobs that no call refers to any more. */
export async function collectBlobs(database: OpenedDatabase, blobs: Blobs): Promise<void> {
  await blobs.collect((names) => referencedBlobs(database, names));
}

/** Which of the blobs a call refers to. */
async function referencedBlobs({ db, scan }: OpenedDatabase, names: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  for (const column of ["result_blob", "more_blob"] as const) {
    const named = db.selectFrom("calls").select(sql<string>`${sql.ref(column)}`.as("name"));
    const rows = await scan(named.where(column, "in", names).where(column, "is not", null));
    for (const { name } of rows) found.add(name);
  }
  return found;
}

/** Bytes that an empty SQLite file may have before it counts. */
const EMPTY_FILE = 1024 * 1024;

/**
 * The bytes that all calls take, by the running totals. With SQLite at least what its file has in use, indexes included:
 * what is bounded is the disk.
 */
async function bytesOf({ db, engine }: OpenedDatabase): Promise<number> {
  const kept = (bucket: number) =>
    db
      .selectFrom("call_counts")
      .select(({ fn }) => fn.sum("total").as("bytes"))
      .where("span", "=", "kept")
      .where("bucket", "=", bucket)
      .executeTakeFirstOrThrow();
  // Without calls the sum is null.
  const all = Number((await kept(0)).bytes ?? 0);
  if (engine !== "sqlite") return all;
  const pragma = async (name: "page_count" | "freelist_count" | "page_size") => {
    const { rows } = await sql<Record<string, number>>`pragma ${sql.raw(name)}`.execute(db);
    return rows[0]?.[name] ?? 0;
  };
  const pages = (await pragma("page_count")) - (await pragma("freelist_count"));
  const file = pages * (await pragma("page_size")) - EMPTY_FILE;
  return Math.max(all, file + Number((await kept(WITH_BLOB)).bytes ?? 0));
}

/** Deletes counts that are older than their span is kept, and those of days older than `oldest`. */
export async function pruneCounts(
  database: OpenedDatabase,
  oldest: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const [span, length] of spanLengths) {
    const limit = Math.max(oldest, Date.now() - keptFor[span]) - length;
    const slices = sql`call_counts where span = ${span}`;
    while (signal?.aborted !== true && (await deleteCounts(database, slices, limit))) await nextTurn();
  }
  const days = sql`tool_days where starts_at >= 0`;
  while (signal?.aborted !== true && (await deleteCounts(database, days, oldest - spans.day)))
    await nextTurn();
}

/** A slice of time has a row for each tool: they are deleted some at a time, so that others are served in between. */
const COUNTS_AT_ONCE = 1_000;

/** Deletes some counts of the oldest slice. Returns false when that begins at the limit or later. */
async function deleteCounts(
  { db }: OpenedDatabase,
  slices: RawBuilder<unknown>,
  limit: number,
): Promise<boolean> {
  const { rows } = await sql<{ first: number | null }>`select min(starts_at) as first from ${slices}`.execute(
    db,
  );
  const first = rows[0]?.first ?? limit;
  if (first >= limit) return false;
  const slice = sql`from ${slices} and starts_at = ${first}`;
  const some = sql<{ name: string }>`select tool_name as name ${slice} limit ${sql.lit(COUNTS_AT_ONCE)}`;
  const names = new Set((await some.execute(db)).rows.map(({ name }) => name));
  await sql`delete ${slice} and tool_name in (${sql.join([...names])})`.execute(db);
  return true;
}

/** Gives free pages of a SQLite file back to the disk. */
export async function shrinkFile({ db }: OpenedDatabase, signal: AbortSignal | undefined): Promise<void> {
  const freePages = async () => {
    const { rows } = await sql<{ freelist_count: number }>`pragma freelist_count`.execute(db);
    return rows[0]?.freelist_count ?? 0;
  };
  for (let free = await freePages(); free > 0 && signal?.aborted !== true; ) {
    await sql`pragma incremental_vacuum(100)`.execute(db);
    const left = await freePages();
    // An old file without `auto_vacuum` gives nothing back; calls are written into its free pages.
    if (left >= free) return;
    free = left;
    await nextTurn();
  }
}

const FILLED_AT_ONCE = 500;
/** Milliseconds between two steps. */
const REST = 10;

/**
 * Counts the calls of a database that an older version has written, the oldest first. The mark `filled` in the table says
 * up to which time they are counted; it moves in the transaction that counts, so that no call is counted twice.
 */
export async function fillCounts(database: OpenedDatabase, signal: AbortSignal | undefined): Promise<void> {
  const { db, engine, scan } = database;
  while (signal?.aborted !== true) {
    const mark = await markOf(database);
    if (mark === undefined) return;
    const later = db.selectFrom("calls").where("timestamp", ">", mark);
    const [last] = await scan(
      later.select("timestamp").orderBy("timestamp").limit(1).offset(FILLED_AT_ONCE),
      undefined,
      "long",
    );
    // All calls of one millisecond are counted together.
    const end = last?.timestamp ?? Number.MAX_SAFE_INTEGER;
    const rows = await scan(
      later
        .select(["call_id", "parent_call_id", "caller", "owner", ...countedColumns])
        .where("timestamp", "<=", end)
        .orderBy("timestamp")
        .orderBy("call_id"),
      undefined,
      "long",
    );
    const old = rows.filter(({ owner, state }) => owner === null && state !== "running");
    const owners = await ownersOf(database, old);
    const isMoved = await db.transaction().execute(async (transaction) => {
      const filled = transaction
        .updateTable("call_counts")
        .set({ total: end })
        .where("span", "=", "filled")
        .where("total", "=", mark);
      // Another node may be doing the same.
      if ((await filled.executeTakeFirst()).numUpdatedRows === 0n) return false;
      for (const [callId, owner] of owners)
        await transaction.updateTable("calls").set({ owner }).where("call_id", "=", callId).execute();
      for (const statement of new CallCounts(0).add(old).statements(engine))
        await transaction.executeQuery(statement);
      if (last === undefined)
        await transaction.deleteFrom("call_counts").where("span", "=", "filled").execute();
      return true;
    });
    if (!isMoved) return;
    await sleep(REST);
  }
}

async function markOf({ db }: OpenedDatabase): Promise<number | undefined> {
  const mark = db.selectFrom("call_counts").select("total").where("span", "=", "filled");
  return (await mark.executeTakeFirst())?.total;
}

interface OldCall {
  readonly call_id: string;
  readonly parent_call_id: string | null;
  readonly caller: string;
}

/** The owners of those calls whose chain was begun with a token that exists. A call comes after the one that made it. */
async function ownersOf({ db }: OpenedDatabase, calls: readonly OldCall[]): Promise<Map<string, string>> {
  // The names by which `Grant.caller` tells tokens apart.
  const tokens = new Set(
    (await db.selectFrom("tokens").select(["id", "name"]).execute()).map(({ id, name }) => `${name}_${id}`),
  );
  if (tokens.size === 0) return new Map();
  const parents = calls.flatMap(({ parent_call_id }) => parent_call_id ?? []);
  const known = new Map<string, string | null>();
  if (parents.length > 0) {
    const rows = db.selectFrom("calls").select(["call_id", "owner"]).where("call_id", "in", parents);
    for (const { call_id, owner } of await rows.execute()) known.set(call_id, owner);
  }
  const owners = new Map<string, string>();
  for (const { call_id, parent_call_id, caller } of calls) {
    const owner =
      parent_call_id === null
        ? tokens.has(caller) && caller
        : owners.get(parent_call_id) || known.get(parent_call_id);
    if (owner) owners.set(call_id, owner);
  }
  return owners;
}
