import { randomUUID } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type RawBuilder, sql } from "kysely";
import type { Engine, StoreDatabase } from "./schema.ts";

const HEARTBEAT_INTERVAL = 10_000;
const HEARTBEAT_LIMIT = 60_000;

/**
 * This opening of the store. A call under way is marked with it, so that others can tell whether whoever ran the call
 * still lives: by a lock in the directory they share, or else by a heartbeat in the database they share.
 */
export class Instance {
  readonly id = randomUUID();
  readonly #db: StoreDatabase;
  readonly #engine: Engine;
  readonly #directory: string;
  readonly #lock: InstanceLock;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();

  private constructor(db: StoreDatabase, engine: Engine, directory: string) {
    this.#db = db;
    this.#engine = engine;
    this.#directory = directory;
    this.#lock = new InstanceLock(directory, this.id);
  }

  static async start(db: StoreDatabase, engine: Engine, directory: string): Promise<Instance> {
    const instance = new Instance(db, engine, directory);
    try {
      await instance.#startBeating();
    } catch (error) {
      instance.#lock[Symbol.dispose]();
      throw error;
    }
    return instance;
  }

  /** Those of the given instances that no longer live. Never this one. */
  async findDead(ids: readonly string[]): Promise<string[]> {
    const beating = new Set(await this.#findBeating());
    return ids.filter((id) => {
      if (id === this.id) return false;
      const lock = probeInstanceLock(this.#directory, id);
      return lock === "free" || (lock === "absent" && !beating.has(id));
    });
  }

  /** Takes away the locks that nobody holds any more. To be called when what their processes left is settled. */
  async sweep(): Promise<void> {
    // A lock that is just being made is held by nobody yet.
    const youngest = Date.now() - BEING_MADE;
    const others = lockedInstances(this.#directory).filter(
      (id) => id !== this.id && madeAt(lockOf(this.#directory, id)) < youngest,
    );
    await this.forget(others.filter((id) => probeInstanceLock(this.#directory, id) === "free"));
  }

  async forget(dead: readonly string[]): Promise<void> {
    for (const id of dead) rmSync(lockOf(this.#directory, id), { force: true });
    if (dead.length > 0) await this.#db.deleteFrom("instances").where("id", "in", dead).execute();
  }

  /** While the database is still open. Others take it for dead from now on. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating;
    try {
      if (this.#timer !== undefined) {
        await this.#db.deleteFrom("instances").where("id", "=", this.id).execute();
      }
    } finally {
      this.#lock[Symbol.dispose]();
    }
  }

  /** Only nodes of a shared database need a heartbeat: whoever opens a SQLite file sees the locks beside it. */
  async #startBeating(): Promise<void> {
    if (this.#engine === "sqlite") return;
    await this.#beat();
    this.#timer = setInterval(() => {
      // A beat that fails is made up for by the next.
      this.#beating = this.#beat().catch(() => {});
    }, HEARTBEAT_INTERVAL);
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    const heartbeat_at = databaseNow(this.#engine);
    const beaten = await this.#db
      .updateTable("instances")
      .set({ heartbeat_at })
      .where("id", "=", this.id)
      .executeTakeFirst();
    if (beaten.numUpdatedRows > 0n) return;
    await this.#db.insertInto("instances").values({ id: this.id, heartbeat_at }).execute();
  }

  async #findBeating(): Promise<string[]> {
    const limit = sql<number>`${databaseNow(this.#engine)} - ${sql.lit(HEARTBEAT_LIMIT)}`;
    const rows = await this.#db
      .selectFrom("instances")
      .select("id")
      .where("heartbeat_at", ">", limit)
      .execute();
    return rows.map(({ id }) => id);
  }
}

/** The clock of the database, because those of two nodes may differ by minutes. */
function databaseNow(engine: Engine): RawBuilder<number> {
  switch (engine) {
    case "sqlite":
      return sql`cast(unixepoch('subsec') * 1000 as integer)`;
    case "postgres":
      return sql`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
    case "mysql":
      return sql`cast(unix_timestamp(now(3)) * 1000 as signed)`;
  }
}

/** Milliseconds. */
const LONGEST_PROBE = 1_000;
const BEING_MADE = 10_000;

/**
 * A file that is locked as long as its process lives: the system lets go of the lock however the process ends, and no
 * reused process id can be mistaken for it. Node has no file locks of its own, but SQLite does, on every platform.
 */
class InstanceLock implements Disposable {
  readonly #path: string;
  readonly #holder: DatabaseSync;

  constructor(directory: string, id: string) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#path = lockOf(directory, id);
    closeSync(openSync(this.#path, "a", 0o600));
    // Whoever looks for locks that nobody holds may hold this one for a moment.
    this.#holder = new DatabaseSync(this.#path, { timeout: LONGEST_PROBE });
    this.#holder.exec("begin exclusive");
  }

  [Symbol.dispose](): void {
    this.#holder.close();
    rmSync(this.#path, { force: true });
  }
}

/** `absent`: no process with this id has its locks in this directory, or it ended in order. */
function probeInstanceLock(directory: string, id: string): "held" | "free" | "absent" {
  const path = lockOf(directory, id);
  if (!existsSync(path)) return "absent";
  const probe = new DatabaseSync(path);
  try {
    probe.exec("begin exclusive");
    return "free";
  } catch {
    return "held";
  } finally {
    probe.close();
  }
}

/** The ids of all instances that have, or left, a lock here. */
function lockedInstances(directory: string): string[] {
  if (!existsSync(directory)) return [];
  const locks = readdirSync(directory).filter((name) => name.endsWith(".lock"));
  return locks.map((name) => name.slice(0, -".lock".length));
}

/** The ids of the instances whose processes live, and have the store of this directory open. */
export function livingInstances(directory: string): string[] {
  return lockedInstances(directory).filter((id) => probeInstanceLock(directory, id) === "held");
}

/** Infinity when it is gone meanwhile. */
function madeAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY;
}

function lockOf(directory: string, id: string): string {
  return join(directory, `${id}.lock`);
}
