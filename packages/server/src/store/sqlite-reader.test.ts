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
