import { matchesGlob } from "node:path/posix";
import { describe, expect, it } from "vitest";
import { compileGlob } from "./glob.ts";

const paths = [
  "a", "b", "ab", "a.ts", "b.tsx", "a.js", "src/a.ts", "src/deep/a.test.ts", "src/deep/er/b.test.ts", "src", "test/a.ts",
  "a-1.txt", "a-9.txt", "a-10.txt", "[x].ts", "{a}.ts", "ö.ts", "a b.ts", "x/y/z", "aab", "abab", "(a).ts", "a+b", "a^b",
]; // biome-ignore format: a table

describe("a glob", () => {
  it.each([
    "*",
    "*.ts",
    "*.{ts,tsx}",
    "**",
    "**/*.ts",
    "src/**",
    "src/**/*.test.ts",
    "**/a.ts",
    "a-?.txt",
    "a-[0-9].txt",
    "a-[!0-5].txt",
    "{src,test}/*.ts",
    "{a,b}*",
    "a-{1..10}.txt",
    "[[]x].ts",
    "{a}.ts",
    "src/{deep/**,a.ts}",
    "?",
    "??",
    "(a).ts",
    "a+b",
    "a^b",
    "*a*b",
    "x/*/z",
    "x/**/z",
    "**/z",
    "{,a}b",
    "{a,{b,ab}}",
    "a[^x-z]b",
    "[a",
    "a.{js,ts,}",
  ])("%s fits what the platform's own globs fit", async (glob) => {
    // biome-ignore format: a table
    const compiled = await compileGlob(glob);
    for (const path of paths) expect([path, compiled.test(path)]).toEqual([path, matchesGlob(path, glob)]);
  });

  it("takes the sign behind a backslash as it stands", async () => {
    expect((await compileGlob("\\[x\\]\\*.ts")).test("[x]*.ts")).toBe(true);
    expect((await compileGlob("\\*")).test("a")).toBe(false);
  });

  it("looks at names that begin with a dot as at any other", async () => {
    expect((await compileGlob("*.yml")).test(".gitlab.yml")).toBe(true);
    expect((await compileGlob("**/*.ts")).test("src/.hidden/a.ts")).toBe(true);
  });

  it.each([
    ["choices", (n: number) => "{a,b}".repeat(n), "a"],
    ["choices in choices", (n: number) => `${"{a,".repeat(n)}b${"}".repeat(n)}`, "a"],
    ["stars", (n: number) => `${"*a".repeat(n)}b`, "a"],
    ["stars between slashes", (n: number) => `${"**/".repeat(n)}b`, "a/"],
    ["choices with stars", (n: number) => `${"{*a,a*}".repeat(n)}c`, "a"],
  ])("of many %s takes no longer than it is long", async (_, globOf, unit) => {
    // Were it more than linear, a glob of this length would not come back at all.
    const glob = await compileGlob(globOf(120));
    expect(glob.test(`${unit.repeat(2_000)}!`)).toBe(false);
    expect(glob.test(`${unit.repeat(200_000)}!`)).toBe(false);
  });

  it("that is too long, too wide or impossible is refused with what to write instead", async () => {
    await expect(compileGlob("a".repeat(1_001))).rejects.toThrow("at most 1000 are read");
    await expect(compileGlob("{1..100000000}")).rejects.toThrow("more than 100 texts");
    await expect(compileGlob("[z-a]")).rejects.toThrow('"[z-a]" is no glob');
  });
});
