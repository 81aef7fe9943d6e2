import { expect, it } from "vitest";
import { breachesOf, packFiles, parametersOf } from "./skill-format.ts";

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

const query = { type: "string", description: "What to look for." };
const schema = { type: "object", properties: { query }, required: ["query"] };

it.each([
  ["a JSON Schema", schema],
  ["parameters with settings beside them", { parameters: schema, timeout: 5_000 }],
  ["properties alone", { properties: { query }, required: ["query"] }],
  ["a list", [{ name: "query", required: true, in: "query", ...query }]],
  ["a function as OpenAI writes it", { type: "function", function: { name: "search", parameters: schema } }],
  [
    "a parameter that says itself that it is required",
    { properties: { query: { ...query, required: true } } },
  ],
])("finds the arguments in %s", (_, usage) => {
  expect(parametersOf(usage)).toEqual(schema);
});

it.each([[undefined], ["- `query` (string)"], [{}], [{ timeout: 1 }]])(
  "takes any object where %j says nothing",
  (usage) => {
    expect(parametersOf(usage)).toEqual({ type: "object" });
  },
);

const png = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0xff]);

function chosen(path: string, content: BlobPart): File {
  const file = new File([content], path.split("/").at(-1)!);
  Object.defineProperty(file, "webkitRelativePath", { value: path.includes("/") ? path : "" });
  return file;
}

it("packs a folder: texts as they are, the rest as Base64, and nothing that nobody wants", async () => {
  const packed = await packFiles([
    chosen("rules/SKILL.md", "\uFEFF# 规则"),
    chosen("rules/logo.png", png),
    chosen("rules/.git/config", "x"),
    chosen("rules/node_modules/a/index.js", "x"),
    chosen("rules/.DS_Store", "x"),
  ]);
  expect(packed).toEqual({
    files: {
      "rules/SKILL.md": "\uFEFF# 规则",
      "rules/logo.png": { base64: Buffer.from(png).toString("base64") },
    },
  });
});

it("sends an archive as it is, however large", async () => {
  const bytes = new Uint8Array(200_000).map((_, at) => at % 251);
  expect(await packFiles([chosen("skill.ZIP", bytes)])).toEqual({
    archive: Buffer.from(bytes).toString("base64"),
  });
});

it("takes single files by their names", async () => {
  expect(await packFiles([chosen("skills.csv", "id"), chosen("experts.csv", "id")])).toEqual({
    files: { "skills.csv": "id", "experts.csv": "id" },
  });
});
