import { expect, it } from "vitest";
import { LineSplitter } from "./lines.ts";

function splitter(longest: number) {
  const seen: unknown[] = [];
  const lines = new LineSplitter(longest, {
    onLine: (line, bytes) => {
      seen.push(line);
      expect(bytes).toBe(Buffer.byteLength(line));
    },
    onTooLong: (start, end) => seen.push([start, end]),
  });
  return { seen, lines, push: (text: string) => lines.push(Buffer.from(text)) };
}

it("gives the same lines however the stream is cut, and the last at the end", () => {
  const text = Buffer.from("first\n\nzweite Zeile mit ü und €\n…\nrest without end");
  for (let size = 1; size <= text.length; size++) {
    const { seen, lines } = splitter(100);
    for (let at = 0; at < text.length; at += size) lines.push(text.subarray(at, at + size));
    expect(seen).toEqual(["first", "", "zweite Zeile mit ü und €", "…"]);
    lines.end();
    expect(seen.at(-1)).toBe("rest without end");
    lines.end();
    expect(seen).toHaveLength(5);
  }
});

it("gives one line at a time to who asks for it", () => {
  const { seen, lines } = splitter(100);
  const piece = Buffer.from("one\ntwo\nthr");
  expect(lines.next(piece, 0)).toBe(4);
  expect(seen).toEqual(["one"]);
  expect(lines.next(piece, 4)).toBe(8);
  expect(lines.next(piece, 8)).toBe(11);
  lines.push(Buffer.from("ee\n"));
  expect(seen).toEqual(["one", "two", "three"]);
});

it("skips a line that is too long, and goes on with the next", () => {
  const { seen, lines, push } = splitter(300);
  push("before\nSTART ");
  expect(lines.isTooLong).toBe(false);
  for (let index = 0; index < 100; index++) push("x".repeat(50));
  expect(lines.isTooLong).toBe(true);
  push("and END\nafter\n");
  expect(lines.isTooLong).toBe(false);
  expect(seen).toEqual([
    "before",
    [expect.stringMatching(/^START /), expect.stringMatching(/x{100}and END$/)],
    "after",
  ]);
});

it("keeps both ends of a line that is too long, wherever and however often it is cut", () => {
  const line = `{"id":1${"x".repeat(400)},"last":2}`;
  for (let cut = 0; cut <= line.length; cut++) {
    for (const size of [1, 7, line.length]) {
      const { seen, push } = splitter(line.length - 5);
      push(line.slice(0, cut));
      for (let at = cut; at < line.length; at += size) push(line.slice(at, at + size));
      push("\n");
      expect(seen).toEqual([[line.slice(0, 200), line.slice(-200)]]);
    }
  }
});

it("keeps to the longest line by the byte, wherever the line is cut", () => {
  for (const cut of [0, 1, 5, 10, 11]) {
    const { seen, push } = splitter(10);
    for (const line of ["x".repeat(10), "x".repeat(11)]) {
      push(line.slice(0, cut));
      push(`${line.slice(cut)}\n`);
    }
    expect(seen).toEqual(["x".repeat(10), [expect.stringMatching(/^x+$/), expect.stringMatching(/^x+$/)]]);
  }
});

it("tells a line that is no UTF-8 from one in which the mark for that was sent, however the stream is cut", () => {
  const bytes = Buffer.concat([
    Buffer.from("sent \uFFFD\n"),
    // The beginning of a character, without its last byte. The mark U+FFFD, which replaces it, has as many bytes.
    Buffer.from([0x61, 0xf0, 0x9f, 0x98, 0x0a]),
    Buffer.from([0xff]),
  ]);
  for (let size = 1; size <= bytes.length; size++) {
    const seen: string[] = [];
    const lines = new LineSplitter(100, {
      onLine: (line) => seen.push(`line ${line}`),
      onGarbled: (line) => seen.push(`garbled ${line}`),
      onTooLong() {},
    });
    for (let at = 0; at < bytes.length; at += size) lines.push(bytes.subarray(at, at + size));
    lines.end();
    expect(seen).toEqual(["line sent \uFFFD", "garbled a\uFFFD", "garbled \uFFFD"]);
  }
});
