import { expect, it } from "vitest";
import { renderTable } from "./render-table.ts";

const long = "x".repeat(700);
const rows = [
  ["a", "short", "tools/a.ts"],
  ["b", long, "tools/b.ts"],
];

it("off a terminal keeps every cell whole, and what follows a short one near", () => {
  const [first, second] = renderTable(rows, { flexible: 1 });
  expect(first).toMatch(/^a {2}short {70,80}tools\/a\.ts$/);
  expect(second).toBe(`b  ${long}  tools/b.ts`);
});

it("on a terminal clips the cell that has no room", () => {
  const lines = renderTable(rows, { flexible: 1, columns: 60 });
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
});
