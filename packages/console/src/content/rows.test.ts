import { expect, it } from "vitest";
import { arrange, asCsv, columnsOf, rowsIn } from "./rows.ts";

it("finds lists of objects anywhere in a value, and not those inside of their rows", () => {
  const orders = [{ id: 1, items: [{ sku: "a" }] }, { id: 2 }];
  expect(rowsIn(orders)).toEqual([{ path: "", rows: orders }]);
  const found = rowsIn({
    total: 2,
    data: { orders },
    tags: ["a"],
    mixed: [{ a: 1 }, 2],
    none: [],
    empty: [{}],
  });
  expect(found).toEqual([{ path: "data.orders", rows: orders }]);
  expect(rowsIn("text")).toEqual([]);
});

it("names every column once, in the order in which it first occurs", () => {
  expect(columnsOf([{ b: 1 }, { a: 2, b: 3 }])).toEqual(["b", "a"]);
});

it("sorts numbers as numbers and texts with their numbers, with empty cells last in both directions", () => {
  const rows = [{ n: 10, t: "a10" }, { n: 9, t: "a9" }, { t: "" }];
  const sorted = (column: string, isDown: boolean) => arrange(rows, "", { column, isDown }).map(({ n }) => n);
  expect(sorted("n", false)).toEqual([9, 10, undefined]);
  expect(sorted("n", true)).toEqual([10, 9, undefined]);
  expect(sorted("t", false)).toEqual([9, 10, undefined]);
});

it("keeps the rows that have the text in any cell, whatever its case", () => {
  const rows = [{ a: "Ada" }, { a: { name: "Grace" } }];
  expect(arrange(rows, " GRACE", undefined)).toEqual([rows[1]]);
});

it("writes CSV that other programs read, and no formulas", () => {
  const rows = [{ a: 'x,"y"', b: null }, { a: "=1+1", b: -2 }, { b: { c: [1] } }];
  expect(asCsv(rows, ["a", "b"])).toBe('a,b\r\n"x,""y""",\r\n\'=1+1,-2\r\n,"{""c"":[1]}"');
});
