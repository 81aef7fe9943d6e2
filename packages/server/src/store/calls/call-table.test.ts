import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type OpenedDatabase, openDatabase } from "../database.ts";
import { migrate } from "../migrations.ts";
import type { CallRow } from "../schema.ts";
import { blankRow, callColumns } from "./call-row.ts";
import { CallTable } from "./call-table.ts";

let directory: string;
let database: OpenedDatabase;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-table-"));
  database = await openDatabase("sqlite", join(directory, "calls.db"));
  await migrate(database.db, "sqlite");
});

afterAll(async () => {
  await database.close();
  await rm(directory, { recursive: true, force: true });
});

let count = 0;

/** A call that has ended with nothing in it. */
function makeRow(given: Partial<CallRow> = {}): CallRow {
  const ended = {
    state: "completed",
    result_type: "text",
    instance: "one",
    call_id: `call_${count++}`,
  } as const;
  return { ...blankRow, ...ended, ...given };
}

const words: Partial<Record<keyof CallRow, string>> = { state: "error", result_type: "json", error: "{}" };

test.each(callColumns)(
  "what stands in %s is kept, with rows around that have nothing there",
  async (column) => {
    const row = makeRow();
    const isNumber = typeof row[column] === "number" || column.endsWith("duration");
    const value = words[column] ?? (isNumber ? 7 : `said ${column}`);
    const rows = [makeRow(), { ...row, [column]: value }, makeRow()];
    const table = new CallTable(database, "one");
    for (const written of [rows, [{ ...rows[1]!, call_id: `call_${count++}` }], [makeRow(), makeRow()]]) {
      await table.write(written, {});
      const ids = written.map(({ call_id }) => call_id);
      const found = await database.db.selectFrom("calls").selectAll().where("call_id", "in", ids).execute();
      expect(new Set(found)).toEqual(new Set(written));
    }
  },
);

test("rows of which one has the id of another call are written all or none", async () => {
  const table = new CallTable(database, "one");
  const taken = makeRow();
  await table.write([taken], {});
  const rows = [makeRow(), makeRow(), { ...makeRow(), call_id: taken.call_id }, makeRow()];
  await expect(table.write(rows, {})).rejects.toThrow(/UNIQUE/);
  const ids = rows.map(({ call_id }) => call_id);
  const found = await database.db.selectFrom("calls").select("call_id").where("call_id", "in", ids).execute();
  expect(found).toEqual([{ call_id: taken.call_id }]);
});

test("no index has a function in its condition, with which writing a call took a third longer", async () => {
  const { rows } = await sql<{ sql: string }>`
    select sql from sqlite_master where type = 'index' and tbl_name = 'calls' and sql like '%where%'`.execute(
    database.db,
  );
  expect(rows.length).toBeGreaterThan(5);
  for (const { sql: text } of rows) expect(text.split(" where ")[1]).not.toMatch(/\blike\b|\bglob\b|->|\w\(/);
});
