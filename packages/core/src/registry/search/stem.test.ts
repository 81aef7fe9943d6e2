import { expect, test } from "vitest";
import { stem } from "./stem.ts";

test.each([
  ["consign", "consign"],
  ["consigned", "consign"],
  ["consigning", "consign"],
  ["consignment", "consign"],
  ["consistency", "consist"],
  ["consolation", "consol"],
  ["consolidating", "consolid"],
  ["knightly", "knight"],
  ["caresses", "caress"],
  ["ponies", "poni"],
  ["ties", "tie"],
  ["gas", "gas"],
  ["gaps", "gap"],
  ["kiwis", "kiwi"],
  ["agreed", "agre"],
  ["hopping", "hop"],
  ["hoping", "hope"],
  ["falling", "fall"],
  ["luxuriated", "luxuri"],
  ["sized", "size"],
  ["cry", "cri"],
  ["by", "by"],
  ["say", "say"],
  ["relational", "relat"],
  ["conditional", "condit"],
  ["rationalize", "ration"],
  ["electrical", "electr"],
  ["callousness", "callous"],
  ["geology", "geolog"],
  ["adjustable", "adjust"],
  ["cement", "cement"],
  ["controlling", "control"],
  ["roll", "roll"],
  ["general", "general"],
  ["generation", "generat"],
  ["communication", "communic"],
  ["youth", "youth"],
  ["boyish", "boyish"],
  ["skies", "sky"],
  ["dying", "die"],
  ["news", "news"],
  ["inning", "inning"],
  ["proceed", "proceed"],
  ["early", "earli"],
])("%s has the stem %s", (word, expected) => {
  expect(stem(word)).toBe(expected);
});

test("inflections of the words people use for tools meet", () => {
  for (const family of [
    ["calculate", "calculates", "calculating", "calculation", "calculator"],
    ["translate", "translation", "translator", "translated"],
    ["query", "queries", "querying", "queried"],
    ["schedule", "schedules", "scheduled", "scheduling"],
  ]) {
    expect(new Set(family.map(stem)).size, family.join(" ")).toBe(1);
  }
});

test("words of one or two letters stay as they are", () => {
  expect(["a", "is", "us", "ed"].map(stem)).toEqual(["a", "is", "us", "ed"]);
});
