import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SqliteReader } from "./sqlite-reader.ts";

describe("a query that looks at many rows", () => {
  let directory: string;
  let reader: SqliteReader;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-reader-"));
    const file = join(directory, "numbers.db");
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

  test("that is short comes before the slices of long ones, and one that nobody waits for is dropped", async () => {
    const ended: string[] = [];
    const long =
      "with recursive c(i) as (select 1 union all select i + 1 from c where i < 300000) select count(*) from c";
    const leaving = new AbortController();
    const ask = (name: string, ...more: [AbortSignal | undefined, "short" | "slice"]) =>
      reader.query(long, [], ...more).then(
        () => ended.push(name),
        (reason) => ended.push(`${name}: ${reason}`),
      );
    const asked = [
      ask("first slice", undefined, "slice"),
      ask("second slice", undefined, "slice"),
      ask("slice of one who left", leaving.signal, "slice"),
      ask("short", undefined, "short"),
      ask("short of one who left", leaving.signal, "short"),
    ];
    leaving.abort("gone");
    await Promise.all(asked);
    // Those that are dropped are told when it is their turn.
    expect(ended).toEqual([
      "first slice",
      "short",
      "short of one who left: gone",
      "second slice",
      "slice of one who left: gone",
    ]);
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
