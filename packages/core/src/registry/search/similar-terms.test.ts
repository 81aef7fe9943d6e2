import { expect, test } from "vitest";
import { similarTerms } from "./search-document.ts";

const vocabulary = ["weather", "forecast", "calcul", "translat", "transfer", "cat"];

test.each([
  ["wether", ["weather"]],
  ["weatther", ["weather"]],
  ["weathar", ["weather"]],
  ["tranlsat", ["translat"]],
  ["wthr", []],
  ["car", []],
])("%s is taken for %j", (term, expected) => {
  expect(similarTerms(term, vocabulary, false)).toEqual(expected);
});

test("an unfinished word stands for what it begins, the shortest first", () => {
  expect(similarTerms("tran", vocabulary, true)).toEqual(["transfer", "translat"]);
  expect(similarTerms("tran", vocabulary, false)).toEqual([]);
});

test("an unfinished word finds the stem it has outgrown", () => {
  expect(similarTerms("calculat", vocabulary, true)).toEqual(["calcul"]);
});
