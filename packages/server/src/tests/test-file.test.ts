import { mkdirSync, symlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { parseTestFile, readTestFile, readTestFiles, saveTest } from "./test-file.ts";

const file = "tests/a.calls.yaml";

async function failureOf(text: string) {
  const { failures, tests } = await parseTestFile(text, file);
  expect(failures.length).toBeGreaterThan(0);
  expect(tests).toEqual([]);
  return failures[0]!;
}

describe("a file of tests", () => {
  it("is read with the line of every test", async () => {
    const text = `tests:
  - name: adds
    tool: add
    arguments: { a: 1, b: 2 }
    expect: { equals: 3 }

  - name: says hello
    tool: greet
    as: { expert: writer, tools: ["gr*"], permissions: [] }
    expect: { contains: hello, matches: { type: string } }
    calls:
      - { tool: name, answer: Ada }
      - { tool: clock, error: { code: timed_out, message: late } }
    ignore: [ids, times, /at/*/x]
tools:
  name: { inputSchema: { type: object } }
`;
    const { tests, tools, failures } = await parseTestFile(text, file);
    expect(failures).toEqual([]);
    expect(tests.map(({ name, line }) => [name, line])).toEqual([
      ["adds", 2],
      ["says hello", 7],
    ]);
    expect(Object.keys(tools)).toEqual(["name"]);
  });

  const hostile: [string, string, number, RegExp][] = [
    ["an anchor", "tests:\n  - name: a\n    tool: &x b\n", 3, /Anchors are not read/],
    ["an alias bomb", `a: &a [x,x]\nb: &b [*a,*a]\ntests: [*b,*b]\n`, 1, /Anchors are not read/],
    ["an unknown tag", "tests:\n  - name: a\n    tool: !shell rm\n", 3, /Tags are not read/],
    [
      "a tag of another language",
      "tests:\n\n  - name: !!js/function 'x'\n    tool: b\n",
      3,
      /Tags are not read/,
    ],
    [
      "binary data",
      "tests:\n  - name: a\n    tool: b\n    arguments: { x: !!binary aGk= }\n",
      4,
      /Tags are not read/,
    ],
    [
      "a list as a key",
      "tests:\n  - name: a\n    tool: b\n    arguments:\n      ? [1, 2]\n      : 3\n",
      5,
      /key/,
    ],
    [
      "a key that reaches the prototype",
      'tests:\n  - name: a\n    tool: b\n    arguments: { "__proto__": { x: 1 } }\n',
      4,
      /key/,
    ],
    ["a key that is there twice", "tests:\n  - name: a\n    name: b\n    tool: c\n", 3, /unique/],
    [
      "no number of JSON",
      "tests:\n  - name: a\n    tool: b\n    arguments: { x: .inf }\n",
      4,
      /no number that JSON keeps/,
    ],
    [
      "deep nesting",
      `tests:\n  - ${"[".repeat(20_000)}${"]".repeat(20_000)}\n`,
      2,
      /nested more than 80 levels/,
    ],
    [
      "deep nesting that can be parsed",
      `tests:\n  - ${"[".repeat(300)}${"]".repeat(300)}\n`,
      2,
      /nested more than 80 levels/,
    ],
    ["something else than YAML", "tests:\n  - name: 'a\n", 3, /no YAML/],
    ["two documents", "tests: []\n---\ntests: []\n", 2, /second document/],
    ["a list", "- a\n", 1, /object/i],
    ["an unknown key of a test", "tests:\n  - name: a\n    tool: b\n    argument: {}\n", 4, /argument/],
    ["an unknown expectation", "tests:\n  - name: a\n    tool: b\n    expect:\n      equal: 3\n", 5, /equal/],
    ["a duration", "tests:\n  - name: a\n    tool: b\n    expect:\n      duration: 3\n", 5, /duration/],
    ["a missing tool", "tests:\n  - name: a\n", 2, /tool/],
    ["a wrong type", "tests:\n  - name: a\n    tool: 3\n", 3, /tool/],
    ["an unknown error code", "tests:\n  - name: a\n    tool: b\n    expect: { code: oops }\n", 4, /code/],
    [
      "a wrong schema",
      "tests:\n  - name: a\n    tool: b\n    expect:\n      matches: { type: strin }\n",
      5,
      /type/,
    ],
    ["a call without an answer", "tests:\n  - name: a\n    tool: b\n    calls:\n      - tool: c\n", 5, /./],
    ["two tests of a name", "tests:\n  - { name: a, tool: b }\n  - { name: a, tool: c }\n", 3, /two tests/],
    [
      "what is not to be ignored",
      "tests:\n  - name: a\n    tool: b\n    ignore: [everything]\n",
      4,
      /ignore/,
    ],
  ];
  it.each(hostile)(
    "with %s is refused with its line and what would fit",
    async (_what, text, line, reason) => {
      const failure = await failureOf(text);
      expect(failure.reason).toMatch(reason);
      expect(failure.line).toBe(line);
      expect(failure.remedy).not.toBe("");
    },
  );

  it("is read only if it is a file", { timeout: 20_000 }, async () => {
    const directory = temporaryFolder();
    mkdirSync(join(directory, "tests"));
    symlinkSync("/dev/zero", join(directory, "tests/a.calls.yaml"));
    const [file] = await readTestFiles(directory);
    expect(file?.failures[0]?.reason).toBe("It is not a file.");
    const test = { name: "a", tool: "a" };
    await expect(saveTest(directory, { test, tools: {} }, { isNamed: false })).rejects.toThrow("not a file");
  });

  it("takes the numbers that JSON keeps", async () => {
    const text =
      "tests:\n  - { name: a, tool: b, arguments: { a: 1e+21, b: 1152921504606847000, c: -0.5 } }\n";
    const { tests } = await parseTestFile(text, "a.calls.yaml");
    expect(tests[0]?.arguments).toEqual({ a: 1e21, b: 2 ** 60, c: -0.5 });
  });

  it("that is huge is not read", async () => {
    const failure = await failureOf(`tests: []\n# ${"x".repeat(9 * 1024 * 1024)}`);
    expect(failure.reason).toMatch(/longer than 8192 KiB/);
  });

  it("does not become too long to be read", async () => {
    const directory = temporaryFolder();
    const test = { name: "long", tool: "long", expect: { snapshot: "x".repeat(9 * 1024 * 1024) } };
    await expect(saveTest(directory, { test, tools: {} }, { isNamed: false })).rejects.toThrow(
      "would be longer",
    );
    expect((await readTestFile(directory, "tests/long.calls.yaml")).failures[0]?.reason).toContain("ENOENT");
  });

  it("keeps its comments when a test is added, and takes no name twice", async () => {
    const directory = temporaryFolder();
    const test = { name: "adds", tool: "add", arguments: { a: 1 }, expect: { snapshot: { sum: "#1: yes" } } };
    const first = await saveTest(directory, { test, tools: {} }, { isNamed: false });
    expect(first).toMatchObject({ file: "tests/add.calls.yaml", name: "adds" });
    const path = join(directory, first.file);
    const { writeFile } = await import("node:fs/promises");
    await writeFile(path, `${await readFile(path, "utf8")}# a word of mine\n`);
    const second = await saveTest(
      directory,
      { test, tools: { add: { inputSchema: { type: "object" } } } },
      { isNamed: false },
    );
    expect(second.name).toBe("adds (2)");
    const text = await readFile(path, "utf8");
    expect(text).toMatch(/^# yaml-language-server: \$schema=http/);
    expect(text).toContain("# a word of mine");
    const { tests, tools, failures } = await readTestFile(directory, first.file);
    expect(failures).toEqual([]);
    expect(tests.map(({ name }) => name)).toEqual(["adds", "adds (2)"]);
    expect(tests[1]?.expect).toEqual(test.expect);
    expect(Object.keys(tools)).toEqual(["add"]);
    await expect(saveTest(directory, { test, tools: {} }, { isNamed: true })).rejects.toThrow("already");
    const save = () => saveTest(directory, { test, tools: {} }, { isNamed: false });
    const names = (await Promise.all([save(), save(), save()])).map(({ name }) => name);
    expect(names.sort()).toEqual(["adds (3)", "adds (4)", "adds (5)"]);
    expect((await readTestFile(directory, first.file)).failures).toEqual([]);
    await expect(saveTest(directory, { test, tools: {} }, { isNamed: true, file: "../x" })).rejects.toThrow(
      "cannot be the name",
    );
  });
});
