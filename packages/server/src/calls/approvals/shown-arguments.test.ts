import { describe, expect, it } from "vitest";
import { shownArguments } from "./shown-arguments.ts";

const ROOM = 400;
const long = "x".repeat(5_000);
const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`key${at}`, "value"]));

describe("arguments that a person is asked about", () => {
  it("are shown as they are while there is room", () => {
    expect(shownArguments({ path: "a", deep: { n: 1 } }, ROOM)).toBe(
      '{\n  "path": "a",\n  "deep": {\n    "n": 1\n  }\n}',
    );
  });

  it.each([
    ["a long text", { a: long, cmd: "rm -rf /" }],
    ["several", { a: long, b: long, c: long, cmd: "rm -rf /" }],
    ["a long list", { a: Array.from({ length: 5_000 }, (_, at) => at), cmd: "rm -rf /" }],
    ["a large object", { a: many(5_000), cmd: "rm -rf /" }],
    ["much that is nested", { a: { b: { c: [long, { d: long }] } }, cmd: "rm -rf /" }],
    ["a long key", { [long]: 1, cmd: "rm -rf /" }],
    ["what grows in JSON", { a: "\u0000".repeat(5_000), cmd: "rm -rf /" }],
  ])("cannot hide one of them behind %s", (_, input) => {
    const shown = shownArguments(input, ROOM);
    expect(shown).toContain('"cmd": "rm -rf /"');
    expect(shown).toMatch(/… ?\d+ (more )?(keys|items)|\d+ more characters/);
    expect(shown.length).toBeLessThan(1.5 * ROOM);
  });

  it("say how much of a value is missing", () => {
    const shown = shownArguments({ text: long }, ROOM);
    const [, kept = "", missing] = /"text": "(x+)…" \((\d+) more characters\)/.exec(shown) ?? [];
    expect(kept.length + Number(missing)).toBe(long.length);
  });

  it("say how many are not shown when they are too many to be named", () => {
    const shown = shownArguments(many(1_000), ROOM);
    const named = shown.match(/"key\d+": "value"/g) ?? [];
    expect(named.length).toBeGreaterThan(3);
    expect(shown).toContain(`… ${1_000 - named.length} more keys are not shown here`);
  });

  it("are all shown where short ones leave room for a long one", () => {
    const room = 4_000;
    const input = {
      ...Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`k${at}`, at])),
      text: long,
    };
    const shown = shownArguments(input, room);
    expect(shown).toContain('"k199": 199');
    expect(shown).toMatch(/"text": "x+…" \(\d+ more characters\)/);
    expect(shown).not.toContain("not shown");
    expect(shown.length).toBeGreaterThan(0.95 * room);
    expect(shown.length).toBeLessThan(1.05 * room);
  });

  it("keep the halves of a character together", () => {
    for (let length = 360; length < 380; length++) {
      const shown = shownArguments({ text: `${"x".repeat(length)}${"😀".repeat(300)}` }, ROOM);
      expect(shown.isWellFormed()).toBe(true);
      expect(shown).not.toMatch(/\\ud8/i);
    }
  });
});
