import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { openWords, readWords } from "./index.ts";
import { WordTable } from "./word-table.ts";

const home = join(import.meta.dirname, "..");
let words: WordTable;
beforeAll(async () => {
  words = await openWords();
});

function vectorOf(...texts: string[]): Float32Array {
  const sum = new Float32Array(words.dimensions);
  for (const text of texts) for (const row of words.rowsOf(text)) words.add(row, 1, sum);
  return sum;
}

function cosine(one: Float32Array, other: Float32Array): number {
  const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, at) => sum + value * b[at]!, 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));
}

describe("the words", () => {
  test("are found each by its own row, whatever the language", () => {
    const lines = ["en", "zh"].flatMap((language) =>
      readFileSync(join(home, "data", `${language}.words.txt`), "utf8")
        .split("\n")
        .filter(Boolean),
    );
    expect(lines.length).toBe(49_868);
    expect(lines.filter((word, row) => words.rowsOf(word)[0] !== row)).toEqual([]);
  });

  test("of like meaning lie closer together than others, across languages", () => {
    expect(cosine(vectorOf("weather"), vectorOf("天气"))).toBeGreaterThan(
      cosine(vectorOf("weather"), vectorOf("发票")) + 0.3,
    );
    expect(cosine(vectorOf("lawyer"), vectorOf("law"))).toBeGreaterThan(
      cosine(vectorOf("lawyer"), vectorOf("pizza")) + 0.2,
    );
  });

  test("that are not in the table are taken without their ending, or as two halves", () => {
    expect(words.rowsOf("lawyerly")).toEqual(words.rowsOf("lawyer"));
    expect(words.rowsOf("weatherforecast")).toEqual([
      ...words.rowsOf("weather"),
      ...words.rowsOf("forecast"),
    ]);
    expect(words.rowsOf("xqzzvk")).toEqual([]);
    expect(words.rowsOf("")).toEqual([]);
  });

  test("of a text without spaces are the longest from the left", () => {
    expect(words.rowsOf("北京天气")).toEqual([...words.rowsOf("北京"), ...words.rowsOf("天气")]);
    expect(words.rowsOf("※天气")).toEqual(words.rowsOf("天气"));
  });

  test("are read once, and without Chinese when only English is wanted", async () => {
    expect(await openWords()).toBe(words);
    const english = await readWords(["en"]);
    expect(english.rowsOf("weather")).toEqual(words.rowsOf("weather"));
    expect(english.rowsOf("天气")).toEqual([]);
  });
});

test("files that do not belong together are refused", () => {
  const part = { words: "one\ntwo\n", rows: new Uint8Array(128), scales: new Uint8Array(8) };
  expect(new WordTable([part]).rowsOf("two")).toEqual([1]);
  expect(() => new WordTable([{ ...part, rows: new Uint8Array(60) }])).toThrow("do not belong together");
  expect(() => new WordTable([{ ...part, words: "one\n" }])).toThrow("fewer words than rows");
});

test("the data has its licences beside it, and is no larger than it says", () => {
  const notice = readFileSync(join(home, "NOTICE"), "utf8");
  expect(notice).toContain("Contains data of CC-CEDICT, https://cc-cedict.org");
  expect(notice).toContain("Apache License 2.0");
  const { license } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  expect(license).toBe("MIT AND Apache-2.0 AND CC-BY-SA-4.0");
  const bytes = readdirSync(join(home, "data")).reduce(
    (sum, file) => sum + statSync(join(home, "data", file)).size,
    0,
  );
  expect(bytes).toBe(6_966_956);
});
