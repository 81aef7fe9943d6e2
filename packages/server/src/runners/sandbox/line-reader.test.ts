import { expect, it } from "vitest";
import { LineReader } from "./line-reader.ts";

function read(chunks: readonly Buffer[], longest = 1_000) {
  const lines: string[] = [];
  let tooLong = 0;
  const reader = new LineReader(
    (line) => lines.push(line),
    () => tooLong++,
  );
  for (const chunk of chunks) reader.push(chunk, longest);
  return { lines, tooLong };
}

it("gives the same lines however the stream is cut", () => {
  const text = Buffer.from("first\n\nzweite Zeile mit ü und €\nrest without end");
  for (let size = 1; size <= text.length; size++) {
    const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
      text.subarray(index * size, (index + 1) * size),
    );
    expect(read(chunks)).toEqual({ lines: ["first", "", "zweite Zeile mit ü und €"], tooLong: 0 });
  }
});

it("gives up once, on a line that does not end", () => {
  const chunk = Buffer.alloc(600, 65);
  expect(read([chunk, chunk, chunk, Buffer.from("\nnext\n")])).toEqual({ lines: [], tooLong: 1 });
});
