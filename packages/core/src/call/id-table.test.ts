import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { IdTable } from "./history.ts";

test("entries stay until they are deleted, however many come and go meanwhile", () => {
  const table = new IdTable<number>();
  for (let at = 0; at < 10; at++) table.set(`long ${at}`, at);
  for (let at = 0; at < testDepth(50_000, 5_000); at++) {
    table.set(`short ${at}`, at);
    expect(table.get(`short ${at}`)).toBe(at);
    expect(table.delete(`short ${at}`)).toBe(true);
  }
  expect(table.size).toBe(10);
  for (let at = 0; at < 10; at++) {
    expect(table.get(`long ${at}`)).toBe(at);
    expect(table.delete(`long ${at}`)).toBe(true);
    expect(table.delete(`long ${at}`)).toBe(false);
  }
  expect(table.size).toBe(0);
});

test("however many entries there are, all are there", () => {
  const table = new IdTable<number>();
  for (let at = 0; at < 20_000; at++) table.set(String(at), at);
  expect(table.size).toBe(20_000);
  for (let at = 0; at < 20_000; at++) expect(table.get(String(at))).toBe(at);
});

test("an entry that is set again is one entry, with the new value", () => {
  const table = new IdTable<string, string | number>();
  table.set("1", "first");
  for (let at = 0; at < 5_000; at++) table.set(`other ${at % 7}`, "");
  table.set("1", "second");
  table.set(1, "a number");
  expect(table.get("1")).toBe("second");
  expect(table.get(1)).toBe("a number");
  expect(table.size).toBe(9);
  table.delete("1");
  expect(table.get("1")).toBeUndefined();
});

test("all values are listed, and those of a table that was cleared are gone", () => {
  const table = new IdTable<number, number>();
  for (let at = 0; at < 100; at++) table.set(at, at);
  for (let at = 0; at < 90; at++) table.delete(at);
  expect(table.values().sort()).toEqual([90, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
  table.clear();
  expect(table.values()).toEqual([]);
  expect(table.size).toBe(0);
  expect(table.get(95)).toBeUndefined();
});

test("ids that have most of their characters in common are told apart", () => {
  const table = new IdTable<number>();
  const rest = "00000000-0000-7000-8000-000000000000".repeat(3);
  for (let at = 0; at < 1_000; at++) table.set(`${at}-${rest}`, at);
  for (let at = 0; at < 1_000; at++) expect(table.get(`${at}-${rest}`)).toBe(at);
});

/** In a process of its own, where nothing else fills the memory. */
const passThrough = `
  import { getHeapSpaceStatistics } from "node:v8";
  import { IdTable } from ${JSON.stringify(new URL("./history.ts", import.meta.url).href)};
  const old = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space").space_used_size;
  const table = new IdTable();
  const begin = old();
  let most = 0;
  for (let at = 0; at < 300_000; at++) {
    table.set("call " + at, new Array(50).fill(at));
    table.delete("call " + at);
    if (at % 1_000 === 0) most = Math.max(most, old() - begin);
  }
  console.log(most);
`;

test("what has left the table does not grow old in memory", async () => {
  const words = ["--input-type=module", "--eval", passThrough];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  // Of 130 MB that pass through; a `Map` keeps 49 MB of them.
  expect(Number(stdout)).toBeLessThan(12 * 1024 * 1024);
});
