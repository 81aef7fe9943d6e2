import { describe, expect, it } from "vitest";
import { compileSchema } from "./compile-schema.ts";
import { isRiskyPattern, loadLinearPatterns, toPattern } from "./pattern.ts";

describe("patterns of schemas", () => {
  it.each([
    ["^[a-z0-9-]+$", false],
    ["^\\d{4}-\\d{2}-\\d{2}$", false],
    ["^(red|green|blue)$", false],
    ["^[^\\]+*]+$", false],
    ["[a-z]+$", true],
    ["^.*=.*$", true],
    ["^(a+)+$", true],
    ["^(a|aa)+$", true],
    ["^(a{1,50}){1,50}$", true],
    ["^([a-z]+-)*[a-z]+$", true],
  ])("%s may take long: %s", (source, isRisky) => {
    expect(isRiskyPattern(source)).toBe(isRisky);
  });

  it.each([
    "^(a+)+$",
    "^(a|aa)+$",
    "(x+x+)+y",
    "^.*.*.*.*=$",
    "^(\\s+)+$",
    "^(?:[^,]+,)*[^,]+$",
    "^((a+)b?)+c$",
  ])("%s is matched by an endless text without delay, as a short one is", async (source) => {
    await loadLinearPatterns();
    const pattern = toPattern(source);
    const platform = new RegExp(source, "u");
    for (const text of ["", "a", "aab", "xxy", "a,b", "a=", "\u00a0 \u3000", "ab c"]) {
      expect([text, pattern.test(text)]).toEqual([text, platform.test(text)]);
      // The same pattern by the other way: long enough that the platform is not asked.
      const long = text.repeat(3).padEnd(24, text === "" ? "" : text);
      if (long.length > 16) expect([long, pattern.test(long)]).toEqual([long, platform.test(long)]);
    }
    for (const sign of ["a", "x", " ", ","])
      expect(typeof pattern.test(`${sign.repeat(200_000)}!`)).toBe("boolean");
  });

  // Each of them would keep a backtracking matcher busy for years, for a text that is hardly longer than itself.
  it.each([
    "^((\\w|\\w)+)+!",
    `^(${Array(8).fill("\\w").join("|")})+!`,
    `^${"a?".repeat(40)}${"a".repeat(40)}!`,
    `^${"(a|aa)".repeat(40)}!`,
    "^((a|a){19}){19}!",
    `^${"\\w*".repeat(20)}!`,
    "^(?=((\\w|\\w|\\w|\\w)+)+!)",
    "(?<!a*a*a*a*a*a*a*)b{3}",
    "(\\w+\\w+)+\\1!",
    "^.*x.{5000}y",
  ])("%s holds nobody up, however short or long the text is", async (source) => {
    await loadLinearPatterns();
    const pattern = toPattern(source);
    for (const unit of ["a", "x"])
      for (const length of [2, 8, 16, 24, 32, 48, 64, 100, 400, 1_000, 20_000])
        expect(typeof pattern.test(`${unit.repeat(length)}?`)).toBe("boolean");
  });

  it("are told apart by their flags, and forget where they last stopped", async () => {
    await loadLinearPatterns();
    for (const text of ["ABBA", `${"AB".repeat(5_000)}BA`]) {
      const pattern = toPattern("(a|b)*bba$", "gi");
      expect([pattern.test(text), pattern.test(text)]).toEqual([true, true]);
      expect(toPattern("(a|b)*bba$").test(text)).toBe(false);
    }
    expect(() => toPattern("a", "q")).toThrow(SyntaxError);
  });

  it("in a schema cannot hold up a call, and still say what does not fit", async () => {
    const schema = compileSchema({
      type: "object",
      properties: { name: { type: "string", pattern: "^(a+)+$" } },
      patternProperties: { "^(b+)+$": { type: "number" } },
    });
    expect(await schema.validate({ name: `${"a".repeat(50_000)}!` })).toMatchObject({
      ok: false,
      issues: [{ path: "name" }],
    });
    expect(await schema.validate({ name: "a".repeat(50_000) })).toMatchObject({ ok: true });
    expect(await schema.validate({ [`${"b".repeat(5_000)}!`]: 1 })).toMatchObject({ ok: true });
  });

  it("that look around are matched too, up to a length that is safe", async () => {
    await loadLinearPatterns();
    const pattern = toPattern("^(?=.*[A-Z])(?=.*[0-9]).+$");
    expect(pattern.test("Passw0rd")).toBe(true);
    expect(pattern.test("password")).toBe(false);
    expect(pattern.test("a".repeat(1_000_000))).toBe(false);
  });
});
