import { toKey } from "./keys.ts";
import { findRows, key, plain, rowMap } from "./row-mapping.ts";
import type { StoreDatabase } from "./schema.ts";
import type { RegistryVersion } from "./versions.ts";

/** Somebody let a session go on that loop detection held. */
export interface LoopRelease {
  readonly sessionID: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

const releases = rowMap<LoopRelease>()("loop_releases", {
  sessionID: key("session_id"),
  by: key("released_by"),
  at: plain("released_at"),
});

/** Milliseconds. Older releases are forgotten when a new one is made. */
const LONGEST = 90 * 24 * 60 * 60_000;

/** Who let which session go on, and when. Raises the version of the rack, so that all nodes learn of it. */
export class LoopReleaseRepository {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  /** Resolves when it is safely written. */
  async add(release: LoopRelease): Promise<void> {
    await this.#version.change(async (db) => {
      await db
        .deleteFrom("loop_releases")
        .where("released_at", "<", release.at - LONGEST)
        .execute();
      await db.insertInto("loop_releases").values(releases.toRow(release)).execute();
    });
  }

  /** Those after a time, oldest first. */
  async since(at: number): Promise<LoopRelease[]> {
    const rows = await this.#db
      .selectFrom("loop_releases")
      .selectAll()
      .where("released_at", ">", at)
      .orderBy("released_at")
      .execute();
    return rows.map(releases.toRecord);
  }

  /** When the session was last let go on. */
  async latest(sessionID: string): Promise<number | undefined> {
    const rows = await findRows(this.#db, "loop_releases", { session_id: toKey(sessionID) }, "released_at");
    return rows.map(releases.toRecord).at(-1)?.at;
  }
}

export type LoopReleaseStore = Pick<LoopReleaseRepository, keyof LoopReleaseRepository>;
