import { expect, it } from "vitest";
import { LineReader } from "./line-reader.ts";

function reader(longest: number) {
  const seen: unknown[] = [];
  const lines = new LineReader(longest, {
    onLine: (line) => seen.push(line),
    onTooLong: (start, end) => seen.push([start, end]),
  });
  return { seen, read: (text: string) => lines.read(Buffer.from(text)) };
}

it("gives whole lines, however they were cut", () => {
  const { seen, read } = reader(100);
  for (const piece of ["on", "e\ntwo\n", "\nthr", "e", "e\n", "rest"]) read(piece);
  expect(seen).toEqual(["one", "two", "", "three"]);
});

it("skips a line that is too long, and goes on with the next", () => {
  const { seen, read } = reader(300);
  read("before\nSTART ");
  for (let index = 0; index < 100; index++) read("x".repeat(50));
  read("and END\nafter\n");
  expect(seen).toEqual([
    "before",
    [expect.stringMatching(/^START /), expect.stringMatching(/x{100}and END$/)],
    "after",
  ]);
});
