import { setImmediate as nextTurn } from "node:timers/promises";
import type { BlobDirectory } from "../blobs/blob-directory.ts";
import type { StoreDatabase } from "../database/schema.ts";

export interface Retention {
  /** Milliseconds. */
  readonly maxAge?: number;
  /** Bytes of all calls, blobs included. */
  readonly maxBytes?: number;
}

const ROWS_AT_ONCE = 500;

/** Deletes the oldest finished calls, in small steps so that calls can be written in between. */
export async function pruneCalls(db: StoreDatabase, { maxAge, maxBytes }: Retention): Promise<void> {
  const oldest = maxAge === undefined ? Number.NEGATIVE_INFINITY : Date.now() - maxAge;
  let excess = maxBytes === undefined ? 0 : (await totalSize(db)) - maxBytes;
  for (;;) {
    const rows = await db
      .selectFrom("calls")
      .select(["call_id", "timestamp", "size"])
      .where("state", "!=", "running")
      .orderBy("timestamp")
      .orderBy("call_id")
      .limit(ROWS_AT_ONCE)
      .execute();
    const doomed: string[] = [];
    for (const { call_id, timestamp, size } of rows) {
      if (timestamp >= oldest && excess <= 0) break;
      doomed.push(call_id);
      excess -= size;
    }
    if (doomed.length === 0) return;
    await db.deleteFrom("calls").where("call_id", "in", doomed).where("state", "!=", "running").execute();
    if (doomed.length < ROWS_AT_ONCE) return;
    await nextTurn();
  }
}

/** Deletes the blobs that no call refers to any more. */
export async function collectBlobs(db: StoreDatabase, blobs: BlobDirectory): Promise<number> {
  return blobs.collect(async () => {
    const rows = await db
      .selectFrom("calls")
      .select(["result_blob", "more_blob"])
      .where(({ or, eb }) => or([eb("result_blob", "is not", null), eb("more_blob", "is not", null)]))
      .execute();
    return new Set(rows.flatMap(({ result_blob, more_blob }) => [result_blob ?? "", more_blob ?? ""]));
  });
}

async function totalSize(db: StoreDatabase): Promise<number> {
  const { total } = await db
    .selectFrom("calls")
    .select(({ fn }) => fn.sum("size").as("total"))
    .executeTakeFirstOrThrow();
  // PostgreSQL and MySQL answer with a decimal, which their drivers give as text; without calls there is no sum.
  return Number(total ?? 0);
}
