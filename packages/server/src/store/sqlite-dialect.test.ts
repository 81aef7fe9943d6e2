import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CompiledQuery, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "./database.ts";
import { together } from "./sqlite.ts";
import { openStore } from "./store.ts";

describe("a SQLite file that another process has locked", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-lock-"));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  test("is waited for while everything else goes on", async () => {
    const store = await openStore({ directory });
    const locker = spawn(
      process.execPath,
      [
        "-e",
        `const { DatabaseSync } = require("node:sqlite");
         const db = new DatabaseSync(process.argv[1]);
         db.exec("begin immediate");
         console.log("locked");
         setTimeout(() => { db.exec("commit"); db.close(); }, 1000);`,
        join(directory, "toolrack.db"),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const ended = once(locker, "exit");
    await once(locker.stdout, "data");
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 10);
    await store.tokens.add({ id: "t", name: "t", scopes: {}, createdAt: 1 }, "hash");
    clearInterval(ticking);
    expect((await store.tokens.findByHash("hash"))?.id).toBe("t");
    // A thread that is blocked for the whole second ticks once at the most.
    expect(ticks).toBeGreaterThan(3);
    await ended;
    await store.close();
  });
});

describe("a SQLite file that has no room left", () => {
  test("says so, also when it took back the transaction by itself", async () => {
    const directory = await mkdtemp(join(tmpdir(), "toolrack-full-"));
    const { db, close } = await openDatabase("sqlite", join(directory, "full.db"));
    try {
      await sql`create table t (text text)`.execute(db);
      await sql.raw("pragma max_page_count = 10").execute(db);
      const writing = db.transaction().execute(async (transaction) => {
        for (let row = 0; row < 100; row++)
          await sql`insert into t values (${"x".repeat(4_000)})`.execute(transaction);
      });
      await expect(writing).rejects.toThrow("is full");
    } finally {
      await close();
      await rm(directory, { recursive: true, force: true });
    }
  });
});

test("statements that are run together are all taken back when one fails, and leave no transaction open", async () => {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-together-"));
  const { db, close } = await openDatabase("sqlite", join(directory, "together.db"));
  const insert = (id: number) => CompiledQuery.raw("insert into t (id) values (?)", [id]);
  try {
    await sql`create table t (id integer primary key)`.execute(db);
    await db.executeQuery(together([insert(1), insert(2)]));
    await expect(db.executeQuery(together([insert(3), insert(1)]))).rejects.toThrow("UNIQUE");
    await db.executeQuery(together([insert(4)]));
    const { rows } = await sql<{ id: number }>`select id from t order by id`.execute(db);
    expect(rows.map(({ id }) => id)).toEqual([1, 2, 4]);
  } finally {
    await close();
    await rm(directory, { recursive: true, force: true });
  }
});
