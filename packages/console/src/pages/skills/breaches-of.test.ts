import { expect, it } from "vitest";
import { breachesOf } from "./breaches-of.ts";

const good = { name: "web-search", description: "Searches.", instructions: "Search.", frontMatter: {} };

it("finds nothing in a skill that keeps to the format", () => {
  const frontMatter = {
    license: "MIT",
    compatibility: "git",
    metadata: { by: "Ada" },
    "allowed-tools": "Bash",
  };
  expect(breachesOf({ ...good, frontMatter })).toEqual([]);
});

it.each([
  ["name", { name: "Bad Name!" }],
  ["name", { name: "two--dashes" }],
  ["name", { name: "a".repeat(65) }],
  ["noDescription", { description: "  " }],
  ["longDescription", { description: "字".repeat(1_025) }],
  ["longCompatibility", { frontMatter: { compatibility: "x".repeat(501) } }],
  ["notText", { frontMatter: { license: 1 } }],
  ["metadataTexts", { frontMatter: { metadata: { version: 1 } } }],
  ["metadataTexts", { frontMatter: { metadata: [] } }],
  ["unknownKeys", { frontMatter: { author: "Ada" } }],
  ["manyLines", { instructions: "\n".repeat(501) }],
])("finds %s in %j", (key, change) => {
  expect(breachesOf({ ...good, ...change }).map((breach) => breach.key)).toEqual([key]);
});

it("takes the name for programs where the front matter has one", () => {
  expect(breachesOf({ ...good, name: "Web Search", frontMatter: { name: "web-search" } })).toEqual([]);
});
