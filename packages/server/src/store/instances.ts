import { randomUUID } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as wait } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import type { NodeConnection, Pulse } from "./node-connection.ts";
import { deleteRows } from "./row-mapping.ts";
import type { Engine, StoreDatabase } from "./schema.ts";

/** Milliseconds, with MySQL. With PostgreSQL see `node-connection.ts`. */
const HEARTBEAT_INTERVAL = 10_000;
const HEARTBEAT_LIMIT = 60_000;

/**
 * One opening of the store by a process. The row of a running call has the instance's id, so that other
 * processes can tell whether the process that runs the call still lives: by a lock file in a shared
 * directory, or by a heartbeat in a shared database and, with PostgreSQL, by a lock there.
 */
export class Instance {
  readonly id = randomUUID();
  readonly #db: StoreDatabase;
  readonly #engine: Engine;
  readonly #directory: string;
  readonly #unlock: () => void;
  /** The process's own connection to PostgreSQL. */
  #connection: NodeConnection | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<void> = Promise.resolve();
  /** What this node tells of itself with each heartbeat. Undefined for a process that serves nobody. */
  describe: (() => Readonly<Record<string, unknown>>) | undefined;
  readonly #pulseListeners = new Set<(pulse: Pulse) => void>();

  private constructor(db: StoreDatabase, engine: Engine, directory: string) {
    this.#db = db;
    this.#engine = engine;
    this.#directory = directory;
    this.#unlock = lockInstance(directory, this.id);
  }

  /** `url`: the address of the database server, if it is one. */
  static async start(db: StoreDatabase, engine: Engine, directory: string, url = ""): Promise<Instance> {
    const instance = new Instance(db, engine, directory);
    try {
      if (engine === "postgres") {
        // Loaded only where it is used: most workspaces keep their records in SQLite.
        const { NodeConnection } = await import("./node-connection.ts");
        instance.#connection = await NodeConnection.open(url, instance.id);
      }
      await instance.#startBeating();
    } catch (error) {
      await instance.#connection?.close();
      instance.#unlock();
      throw error;
    }
    return instance;
  }

  /** With PostgreSQL, calls the listener with what each heartbeat finds. It must not throw. */
  addPulseListener(listener: (pulse: Pulse) => void): () => void {
    this.#pulseListeners.add(listener);
    return () => this.#pulseListeners.delete(listener);
  }

  get connection(): NodeConnection | undefined {
    return this.#connection;
  }

  /** Returns those of the given instances that no longer live; never this one. */
  async findDead(ids: readonly string[]): Promise<string[]> {
    const beating = new Set(await this.#findBeating());
    return ids.filter((id) => {
      if (id === this.id) return false;
      const lock = probeInstanceLock(this.#directory, id);
      // A process that is stopped keeps the lock of its file. PostgreSQL knows by its silence that it does nothing.
      const isCertain = lock === "held" && this.#connection === undefined;
      return lock === "free" || (!isCertain && !beating.has(id));
    });
  }

  /**
   * Whether the instance lives at this moment. With MySQL that is certain only after its next heartbeat, which is waited
   * for.
   */
  async isAlive(id: string): Promise<boolean> {
    const lock = probeInstanceLock(this.#directory, id);
    if (lock === "free" || (lock === "held" && this.#connection === undefined)) return lock === "held";
    if (this.#connection !== undefined) return (await this.#connection.findLiving()).includes(id);
    let earlier: number | undefined;
    for (;;) {
      const [found] = await this.#db
        .selectFrom("instances")
        .select("heartbeat_at")
        .where("id", "=", id)
        .execute();
      if (found === undefined) return false;
      const beat = Number(found.heartbeat_at);
      if (earlier !== undefined && beat > earlier) return true;
      if (!(await this.#findBeating()).includes(id)) return false;
      earlier = beat;
      await wait(HEARTBEAT_INTERVAL / 10, undefined, { ref: false });
    }
  }

  /**
   * Removes the lock files of processes that have ended. Must be called after their calls were marked as
   * interrupted.
   */
  async removeFreeLocks(): Promise<void> {
    // A process that is just starting does not hold its lock yet.
    const youngest = Date.now() - LOCK_STARTUP;
    const isOld = (id: string) => {
      const found = statSync(lockPath(this.#directory, id), { throwIfNoEntry: false });
      return found !== undefined && found.mtimeMs < youngest;
    };
    const others = lockedInstances(this.#directory).filter((id) => id !== this.id && isOld(id));
    await this.forget(others.filter((id) => probeInstanceLock(this.#directory, id) === "free"));
  }

  async forget(dead: readonly string[]): Promise<void> {
    for (const id of dead) rmSync(lockPath(this.#directory, id), { force: true });
    if (dead.length === 0) return;
    await deleteRows(this.#db, "instances", { id: dead });
    await deleteRows(this.#db, "messages", { node: dead });
  }

  /** Must be called while the database is open. Other processes take this instance for dead from now on. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#beating;
    try {
      if (this.#timer !== undefined) await deleteRows(this.#db, "instances", { id: this.id });
    } finally {
      await this.#connection?.close();
      this.#unlock();
    }
  }

  /** Only nodes of a shared database need a heartbeat: processes on one SQLite file see each other's locks. */
  async #startBeating(): Promise<void> {
    if (this.#engine === "sqlite") return;
    await this.beat();
    let isBeating = false;
    this.#timer = setInterval(() => {
      // A database that hangs gets no second heartbeat.
      if (isBeating) return;
      isBeating = true;
      // A beat that failed is ignored: the next one follows soon.
      this.#beating = this.beat()
        .catch(() => {})
        .finally(() => {
          isBeating = false;
        });
    }, this.#connection?.interval ?? HEARTBEAT_INTERVAL);
    this.#timer.unref();
  }

  /** Writes the heartbeat. With PostgreSQL, this also reads the state of the fleet. */
  async beat(): Promise<void> {
    if (this.#connection !== undefined) {
      const described = this.describe?.();
      const info = described === undefined ? null : JSON.stringify(described);
      const pulse = await this.#connection.pulse(info);
      for (const listener of this.#pulseListeners) listener(pulse);
      return;
    }
    const heartbeat_at = databaseNow(this.#engine);
    const updated = await this.#db
      .updateTable("instances")
      .set({ heartbeat_at })
      .where("id", "=", this.id)
      .executeTakeFirst();
    if (updated.numUpdatedRows > 0n) return;
    await this.#db.insertInto("instances").values({ id: this.id, heartbeat_at, info: null }).execute();
  }

  async #findBeating(): Promise<string[]> {
    if (this.#connection !== undefined) return this.#connection.findLiving();
    const limit = sql<number>`${databaseNow(this.#engine)} - ${sql.lit(HEARTBEAT_LIMIT)}`;
    const rows = await this.#db
      .selectFrom("instances")
      .select("id")
      .where("heartbeat_at", ">", limit)
      .execute();
    return rows.map(({ id }) => id);
  }
}

/** The database's clock, because the clocks of two nodes may differ by minutes. */
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

/**
 * Milliseconds. LONGEST_PROBE: for how long another process that probes a lock may hold it. LOCK_STARTUP: the
 * age below which a lock file is never removed, because its process may not have locked it yet.
 */
const LONGEST_PROBE = 1_000;
const LOCK_STARTUP = 10_000;

/**
 * Keeps a file locked as long as this process lives. The system releases the lock however the process ends,
 * and a lock, unlike a process id, cannot pass to a later process. Node has no file locks, so SQLite's are
 * used. Returns a function that unlocks and removes the file.
 */
function lockInstance(directory: string, id: string): () => void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const path = lockPath(directory, id);
  closeSync(openSync(path, "a", 0o600));
  // Another process that probes this lock may hold it for a moment.
  const database = new DatabaseSync(path, { timeout: LONGEST_PROBE });
  database.exec("begin exclusive");
  return () => {
    database.close();
    rmSync(path, { force: true });
  };
}

/** `absent`: the instance has no lock in this directory, or ended normally. */
function probeInstanceLock(directory: string, id: string): "held" | "free" | "absent" {
  const path = lockPath(directory, id);
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

/** The ids of all instances with a lock file here, living or dead. */
function lockedInstances(directory: string): string[] {
  if (!existsSync(directory)) return [];
  const locks = readdirSync(directory).filter((name) => name.endsWith(".lock"));
  return locks.map((name) => name.slice(0, -".lock".length));
}

/** The ids of the living instances that have the store of this directory open. */
export function livingInstances(directory: string): string[] {
  return lockedInstances(directory).filter((id) => probeInstanceLock(directory, id) === "held");
}

function lockPath(directory: string, id: string): string {
  return join(directory, `${id}.lock`);
}
