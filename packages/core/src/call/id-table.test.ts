import { expect, test } from "vitest";
import { IdTable } from "./id-table.ts";

test("entries stay until they are deleted, however many come and go meanwhile", () => {
  const table = new IdTable<number>();
  for (let at = 0; at < 10; at++) table.set(`long ${at}`, at);
  for (let at = 0; at < 50_000; at++) {
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

test("more entries than one map takes are all there", () => {
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
