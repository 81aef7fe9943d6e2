import { describe, expect, it } from "vitest";
import { CallLines } from "./call-book.ts";

function gather(count: number, textOf: (n: number) => string) {
  const lines = new CallLines();
  for (let n = 0; n < count; n++) lines.add({ at: n, level: "info", text: textOf(n) });
  return lines.all();
}

describe("the lines of a call", () => {
  it("are all kept, in order, up to 200", () => {
    const lines = gather(200, String);
    expect(lines.map(({ text }) => text)).toEqual(Array.from({ length: 200 }, (_, n) => String(n)));
  });

  it("of more, the first and the last are kept, and the number of others", () => {
    const lines = gather(1_000, String);
    expect(lines).toHaveLength(201);
    expect(lines[99]?.text).toBe("99");
    expect(lines[100]).toEqual({ at: 900, level: "note", text: "800 lines were left out here." });
    expect(lines[101]?.text).toBe("900");
    expect(lines.at(-1)?.text).toBe("999");
  });

  it("hold no more than 32 KiB, counted in bytes", () => {
    const lines = gather(100, (n) => `${n}${"界".repeat(1_000)}`);
    const bytes = lines.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    expect(bytes).toBeLessThan(33 * 1024);
    expect(lines[0]?.text).toMatch(/^0界/);
    expect(lines.at(-1)?.text).toMatch(/^99界/);
    expect(lines.filter(({ level }) => level === "note")).toHaveLength(1);
  });

  it("a short line after a long one does not slip in before it", () => {
    const texts = gather(14, (n) => (n === 9 ? "y" : "x".repeat(2_000))).map(({ text }) => text.length);
    expect(texts.indexOf(1)).toBe(9);
  });
});
