import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "./database.ts";
import { SqliteReader } from "./sqlite-reader.ts";

describe("a query that looks at many rows", () => {
  let directory: string;
  let file: string;
  let reader: SqliteReader;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-reader-"));
    file = join(directory, "numbers.db");
    const database = new DatabaseSync(file);
    database.exec(
      "pragma journal_mode = wal; create table numbers (n integer); insert into numbers values (7)",
    );
    database.close();
    reader = new SqliteReader(file);
  });
  afterAll(async () => {
    await reader.close();
    await rm(directory, { recursive: true, force: true });
  });

  test("is answered while everything else goes on", async () => {
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 5);
    const count =
      "with recursive c(i) as (select 1 union all select i + 1 from c where i < ?) select count(*) as n from c";
    expect(await reader.query(count, [2_000_000])).toMatchObject([{ n: 2_000_000 }]);
    clearInterval(ticking);
    expect(ticks).toBeGreaterThan(3);
  });

  test("that is short does not wait for long ones, and one that nobody waits for is dropped", async () => {
    const { db, scan, close } = await openDatabase("sqlite", file);
    const ended: string[] = [];
    const leaving = new AbortController();
    const ask = (name: string, most: number, length: "short" | "long", signal?: AbortSignal) => {
      const numbers = sql`(with recursive c(i) as (select 1 union all select i + 1 from c where i < ${most}) select i from c)`;
      return scan(db.selectFrom(numbers.as("c")).select(sql`max(i)`.as("most")), signal, length).then(
        () => ended.push(name),
        (reason) => ended.push(`${name}: ${reason}`),
      );
    };
    // The thread is there by then.
    await ask("first", 1, "short");
    const asked = [
      ask("long", 2_000_000, "long"),
      ask("long of one who left", 2_000_000, "long", leaving.signal),
      ask("short", 10, "short"),
    ];
    leaving.abort("gone");
    await Promise.all(asked);
    await close();
    // Those that are dropped are told when it is their turn.
    expect(ended).toEqual(["first", "short", "long", "long of one who left: gone"]);
  });

  test("of a thread that ended fails, and the next one starts another", async () => {
    const broken = new SqliteReader(join(directory, "missing", "no.db"));
    await expect(broken.query("select 1", [])).rejects.toThrow();
    await expect(broken.query("select 1", [])).rejects.toThrow();
    await broken.close();
    await expect(broken.query("select 1", [])).rejects.toThrow("closed");
  });

  test("may read and nothing else, and one that fails leaves the others alone", async () => {
    const [read, written] = await Promise.allSettled([
      reader.query("select n from numbers", []),
      reader.query("delete from numbers", []),
    ]);
    expect(read).toMatchObject({ status: "fulfilled", value: [{ n: 7 }] });
    expect(written).toMatchObject({
      status: "rejected",
      reason: { message: expect.stringContaining("readonly") },
    });
  });
});
