import { describe, expect, it } from "vitest";
import { readYaml, YamlFileError } from "./yaml-file.ts";

const schema = {
  type: "object",
  properties: {
    runs: { type: "integer", minimum: 1 },
    cases: {
      type: "array",
      items: {
        type: "object",
        properties: { prompt: { type: "string" }, with: { type: "object", additionalProperties: true } },
        required: ["prompt"],
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
};

async function problemOf(text: string): Promise<YamlFileError> {
  const thrown = await readYaml(text, "evals/a.yaml", schema).catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(YamlFileError);
  return thrown as YamlFileError; // Checked on the line above.
}

describe("a YAML file that people write", () => {
  it("is read as plain JSON, and says where each value stands", async () => {
    const text =
      '# a comment\nruns: 3\ncases:\n  - prompt: |\n      two\n      lines\n  - prompt: "a: b"\n    with: { x-y: [1, 2.5, null] }\n';
    const { value, lineOf } = await readYaml(text, "a.yaml", schema);
    expect(value).toEqual({
      runs: 3,
      cases: [{ prompt: "two\nlines\n" }, { prompt: "a: b", with: { "x-y": [1, 2.5, null] } }],
    });
    expect(lineOf("runs")).toBe(2);
    expect(lineOf("cases[1].prompt")).toBe(7);
    expect(lineOf('cases[1].with["x-y"][2]')).toBe(8);
    expect(lineOf("cases[1].missing")).toBe(7);
  });

  it.each([
    [
      "a wrong type",
      "runs: 1\ncases:\n  - prompt: 7\n",
      3,
      /Expected string at `cases\[0\]\.prompt`, got number 7/,
    ],
    ["a missing key", "cases:\n  - prompt: a\n  - with: {}\n", 3, /`cases\[1\]\.prompt` is missing/],
    ["an unknown key", "cases:\n  - prompt: a\n    promt: b\n", 3, /did you mean `prompt`/],
    ["a list in place of the whole", "- a\n", 1, /Expected object/],
    ["an empty file", "", 1, /empty|Expected object/],
    ["what is no YAML", "runs: 1\ncases: ]\n", 2, /no YAML/],
    ["a key that stands twice", "runs: 1\nruns: 2\n", 2, /no YAML.*unique/],
    ["an anchor", "runs: 1\ncases: &all []\n", 2, /Anchors/],
    ["an alias", "runs: 1\ncases: *all\n", 2, /Aliases/],
    ["a tag", "runs: 1\ncases:\n  - prompt: !!js/function a\n", 3, /Tags/],
    ["a tag of its own", "runs: !mine 1\n", 1, /Tags/],
    ["a second document", "runs: 1\n---\nruns: 2\n", 2, /second document/],
    ["a key that is no text", "? [a, b]\n: 1\n", 1, /no YAML/],
    ["a number that JSON lacks", "runs: 1\ncases:\n  - prompt: a\n    with: { n: .nan }\n", 4, /quotes/],
    [
      "a number with too many digits",
      "cases:\n  - prompt: a\n    with: { n: 12345678901234567890 }\n",
      3,
      /quotes/,
    ],
    ["brackets without end", `runs: 1\ncases: ${"[".repeat(100_000)}`, 2, /80 levels/],
    ["lists in lists on one line", `runs: 1\ncases:\n  ${"- ".repeat(100_000)}a\n`, 3, /80 levels/],
    ["a long file", `runs: 1\n${"# long\n".repeat(200_000)}`, 1, /longer than 1024 KiB/],
  ])("is refused with its line for %s", async (_what, text, line, reason) => {
    const problem = await problemOf(text);
    expect(problem.message).toMatch(reason);
    expect(problem.line).toBe(line);
    expect(problem.message.startsWith(`evals/a.yaml:${line}: `)).toBe(true);
  });

  it("refuses blocks that are nested without end", async () => {
    const deep = Array.from({ length: 700 }, (_, level) => `${" ".repeat(level)}a:`).join("\n");
    expect((await problemOf(deep)).message).toMatch(/80 levels/);
  });

  it("refuses a bomb of aliases before it is unfolded", async () => {
    const rows = Array.from({ length: 30 }, (_, at) => `a${at + 1}: &a${at + 1} [*a${at}, *a${at}, *a${at}]`);
    expect(await problemOf(`a0: &a0 [1]\n${rows.join("\n")}`)).toMatchObject({ line: 1 });
  });

  it("keeps what only looks like an anchor, an alias or a tag", async () => {
    const text = 'cases:\n  - prompt: "&a *b !c"\n  - prompt: |\n      &a *b\n  - prompt: R&D & more * 2!\n';
    const { value } = await readYaml(text, "a.yaml", schema);
    expect(value).toEqual({
      cases: [{ prompt: "&a *b !c" }, { prompt: "&a *b\n" }, { prompt: "R&D & more * 2!" }],
    });
  });

  it("is refused for a key that would change a prototype", async () => {
    const text = "cases:\n  - prompt: a\n    with: { __proto__: { x: 1 } }\n";
    await expect(readYaml(text, "a.yaml", schema)).rejects.toThrow(
      "a.yaml:3: No value may have the key __proto__.",
    );
  });
});
