import { expect, test } from "vitest";
import { joinNeighbours, splitWords, tokenize } from "./tokenize.ts";

test.each([
  ["getCurrentWeather", "get current weather"],
  ["get_current_weather", "get current weather"],
  ["get-current-weather", "get current weather"],
  ["weather.get.current", "weather get current"],
  ["HTTPServer", "http server"],
  ["XMLHttpRequest", "xml http request"],
  ["parseURL", "parse url"],
  ["userIDs and APIs", "user ids and apis"],
  ["base64Encode", "base 64 encode"],
  ["v2.1", "v 2 1"],
  ["ＨＴＴＰ ﬁle", "http file"],
  ["Café naïve Ångström", "cafe naive angstrom"],
  ["Straße Łódź smørrebrød", "strasse lodz smorrebrod"],
  ["the user's files aren't here", "the user files aren here"],
  ["天气查询API v2", "天气查询 api v 2"],
  ["Погода в Йошкар", "погода в йошкар"],
  ["हिन्दी", "हिन्दी"],
  ["", ""],
  [" \t\n…!?", ""],
])("%j splits into %j", (text, words) => {
  expect(splitWords(text).join(" ")).toBe(words);
});

test("terms are stems, with the parts of a compound joined as well", () => {
  expect(terms("GitHub")).toEqual(["git", "hub", "github"]);
  expect(terms("e-commerce")).toEqual(["e", "commerc", "ecommerc"]);
  expect(terms("base64")).toEqual(["base", "64", "base64"]);
  expect(terms("calculating areas")).toEqual(["calcul", "area"]);
});

test("Chinese, Japanese, Korean and Thai give characters and pairs", () => {
  expect(terms("天气查")).toEqual(["天", "气", "天气", "查", "气查"]);
  expect(terms("がぎ")).toEqual(["が", "ぎ", "がぎ"]);
  expect(terms("한국")).toEqual(["한", "국", "한국"]);
  expect(terms("ไทย")).toEqual(["ไ", "ท", "ไท", "ย", "ทย"]);
});

test("languages may be mixed inside one word", () => {
  expect(terms("查询getWeather天气")).toEqual([
    "查",
    "询",
    "查询",
    "get",
    "weather",
    "getweath",
    "天",
    "气",
    "天气",
  ]);
});

test("characters outside the basic plane stay whole and lone surrogates are passed over", () => {
  expect(terms("𠮷野")).toEqual(["𠮷", "野", "𠮷野"]);
  expect(terms("\ud800abc\udfff")).toEqual(["abc"]);
  expect(terms("👩‍🔬🚀")).toEqual([]);
});

test("runs too long to be words are left out", () => {
  expect(terms(`key ${"x".repeat(5_000)} value`)).toEqual(["key", "valu"]);
});

test("neighbours in a sentence are joined within a clause only", () => {
  const skip = (word: string) => word === "the";
  expect(joinNeighbours("show current weather, data base of the town", skip)).toEqual([
    "showcurr",
    "currentweath",
    "databas",
    "baseof",
  ]);
});

function terms(text: string): string[] {
  const found: string[] = [];
  tokenize(text, (term) => found.push(term));
  return found;
}
