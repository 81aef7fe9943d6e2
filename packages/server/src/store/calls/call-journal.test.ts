import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallRow } from "../schema.ts";
import { makeRecord, textResult } from "../testing/records.fixture.ts";
import { CallJournal, readJournal } from "./call-journal.ts";
import { prepareFinished, toFinishedRow } from "./call-row.ts";

const makeRow = (content: string) =>
  toFinishedRow(prepareFinished(makeRecord(), textResult(content), "instance"));
const append = (journal: CallJournal, ...rows: CallRow[]) => journal.append(rows.map((row) => ({ row })));
const failed = (error: unknown) => {
  throw error;
};

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-journal-"));
  path = join(directory, "journal.jsonl");
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const rowsIn = (file: string) => readJournal(readFileSync(file, "utf8")).map(({ row }) => row);

describe("a journal", () => {
  test("holds rows as they were given, for this user only, until it is cleared, and is gone when it is closed", () => {
    const journal = new CallJournal(path, failed);
    const rows = [makeRow("one\ntwo \u2028 '\"\\ 😀"), makeRow(""), makeRow("三")];
    expect(existsSync(path)).toBe(false);
    expect(append(journal, ...rows.slice(0, 2))).toBe(true);
    expect(append(journal, ...rows.slice(2))).toBe(true);
    expect(rowsIn(path)).toEqual(rows);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    journal.clear();
    expect(rowsIn(path)).toEqual([]);
    append(journal, rows[2]!);
    expect(rowsIn(path)).toEqual([rows[2]]);
    journal.close(false);
    expect(existsSync(path)).toBe(false);
    expect(append(journal, ...rows)).toBe(false);
  });

  test("stays when it is closed while it is needed", () => {
    const journal = new CallJournal(path, failed);
    append(journal, makeRow("kept"));
    journal.close(true);
    expect(rowsIn(path)).toHaveLength(1);
  });

  test("takes no row that is large, and none when it is full, until it is cleared", () => {
    const journal = new CallJournal(path, failed);
    const row = makeRow("x".repeat(60_000));
    expect(append(journal, row, { ...row, size: 300_000 })).toBe(false);
    expect(existsSync(path)).toBe(false);
    for (let added = 0; append(journal, row); added++) expect(added).toBeLessThan(100);
    expect(statSync(path).size).toBeGreaterThan(4_000_000);
    journal.clear();
    expect(statSync(path).size).toBe(0);
    expect(append(journal, row)).toBe(true);
  });

  test("says that it cannot be written, and why", () => {
    mkdirSync(path);
    const reasons: unknown[] = [];
    const journal = new CallJournal(path, (reason) => reasons.push(reason));
    expect(append(journal, makeRow("x"))).toBe(false);
    expect(String(reasons)).toContain("EEXIST");
    journal.clear();
    journal.close(false);
    expect(existsSync(path)).toBe(true);
  });

  test.skipIf(process.platform === "win32")(
    "never keeps half a line when there is no room for the whole",
    () => {
      // The system lets a file of this process grow to some kilobytes, and writes what fits, as a full disk does.
      const script = `
      const { CallJournal } = await import(${JSON.stringify(import.meta.resolve("./call-journal.ts"))});
      const failures = [];
      const journal = new CallJournal(${JSON.stringify(path)}, (error) => failures.push(error.message));
      const row = { call_id: "x".repeat(3000), size: 3000 };
      const taken = [];
      for (let n = 0; n < 10; n++) taken.push(journal.append([{ row }]));
      const { size } = (await import("node:fs")).statSync(${JSON.stringify(path)});
      journal.clear();
      console.log(JSON.stringify({ taken, size, failures, again: journal.append([{ row }]) }));
    `;
      const flags = ["--conditions=toolrack-source", "--input-type=module", "-e", script];
      const { stdout, stderr } = spawnSync(
        "sh",
        ["-c", 'ulimit -f 16 && exec "$@"', "sh", process.execPath, ...flags],
        { encoding: "utf8" },
      );
      expect(stderr).toBe("");
      const { taken, size, failures, again } = JSON.parse(stdout);
      const lines = taken.filter(Boolean).length;
      expect(lines).toBeGreaterThan(0);
      expect(taken.at(-1)).toBe(false);
      expect(size).toBe(lines * (JSON.stringify({ call_id: "x".repeat(3000), size: 3000 }).length + 1));
      expect(failures).toHaveLength(10 - lines);
      expect(again).toBe(true);
    },
  );
});

describe("what is read of a journal", () => {
  const [one, two] = [makeRow("one"), makeRow("two")];
  const lineOf = (row: unknown) => `${JSON.stringify(row)}\n`;

  test("leaves out half a line at the end, and nothing of a file that was cleared", () => {
    const half = lineOf(two).slice(0, -20);
    expect(readJournal(lineOf(one) + half)).toEqual([{ line: 1, row: one }]);
    expect(readJournal(half)).toEqual([]);
    expect(readJournal("")).toEqual([]);
    expect(readJournal(lineOf(one).trimEnd())).toEqual([{ line: 1, row: one }]);
  });

  test("says which lines are damaged", () => {
    const damaged = [
      "",
      "null",
      "[]",
      "{}",
      lineOf(one).slice(5).trimEnd(),
      JSON.stringify({ ...one, state: "running" }),
      JSON.stringify({ ...one, call_id: 5 }),
      JSON.stringify({ ...one, more: { deep: true } }),
    ];
    const lines = readJournal(`${damaged.join("\n")}\n${lineOf(two)}`);
    expect(lines).toEqual([
      ...damaged.map((_, at) => ({ line: at + 1, row: undefined })),
      { line: damaged.length + 1, row: two },
    ]);
  });

  test("has the columns of the table, whatever another version wrote", () => {
    const { more: _, ...older } = one;
    expect(readJournal(lineOf(older))).toEqual([{ line: 1, row: one }]);
    expect(readJournal(lineOf({ ...one, colour: "green" }))).toEqual([{ line: 1, row: one }]);
  });
});
