import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { cleanEnvironment } from "./cli/testing/spawn-cli.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";
import { closeWorkspaces, savedTests, type ToolTest, ToolTestError, testTool } from "./testing.ts";

const examples = resolve(import.meta.dirname, "../../../examples/workspace");
const modules = resolve(import.meta.dirname, "../../../node_modules");

const folders: string[] = [];

/** The example workspace as a project of its own, with the package installed. */
function makeProject(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder();
  folders.push(folder);
  cpSync(examples, folder, { recursive: true, filter: (path) => !/[\\/](?:\.toolrack|log)$/.test(path) });
  symlinkSync(modules, join(folder, "node_modules"));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

async function run(cwd: string, ...words: string[]): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, words, {
    cwd,
    env: cleanEnvironment({ NODE_OPTIONS: "--conditions=toolrack-source", VITEST: "" }),
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  const [code] = await once(child, "close");
  return { code, output };
}

const cases = `
  const greet = (expected) => testTool("greeting", {
    arguments: { name: "Ada" },
    calls: [{ tool: "text_statistics", answer: { characters: 99 } }],
    expect: { equals: expected },
  });
  test("greets", () => greet("Hello, Ada! (99)"));
  test("greets otherwise", () => greet("Hello, Bob! (99)"));
  for (const saved of await savedTests("unit_convert")) test(saved.name, saved.run);
`;

describe("toolrack/testing", { timeout: 180_000 }, () => {
  const directory = makeProject({});
  afterAll(async () => {
    await closeWorkspaces();
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  it("resolves with the result, and rejects with what differs", async () => {
    const test = { arguments: { value: 2, from: "km", to: "m" }, expect: { contains: { unit: "m" } } };
    expect((await testTool("unit_convert", test, { directory })).structured).toEqual({
      value: 2000,
      unit: "m",
    });
    const wrong = testTool(
      "unit_convert",
      { ...test, expect: { equals: { value: 2, unit: "m" } } },
      { directory },
    );
    await expect(wrong).rejects.toThrow(ToolTestError);
    await expect(wrong).rejects.toThrow(/\/value\n.*expected 2\n.*got {6}2000/);
    await expect(testTool("unit_convrt", test, { directory })).rejects.toThrow("unit_convert");
  });

  it("answers for servers that are not there, and starts them where nothing is mocked", async () => {
    const weekday = { arguments: { date: "2026-01-01" } };
    const calls = [{ tool: "mcp_calendar_weekday", answer: "Thursday" }];
    const answered = { ...weekday, calls, expect: { equals: "Thursday" } };
    await testTool("mcp_calendar_weekday", answered, { directory });
    const unknown = testTool("mcp_calendar_weekday", weekday, { directory });
    await expect(unknown).rejects.toThrow("is not recorded, and it may do more than read");
    const real = { ...weekday, expect: { contains: "Thursday" } };
    await testTool("mcp_calendar_weekday", real, { directory, mock: "off" });
  });

  it("refuses a test that is written wrongly", async () => {
    // As somebody without types may write them.
    const wrong = (test: object, options: object = {}) =>
      testTool("dice", test as ToolTest, { directory, ...options });
    await expect(wrong({ expect: { equal: 1 } })).rejects.toThrow("did you mean `equals`?");
    await expect(wrong({ calls: [{ tool: "x" }] })).rejects.toThrow("answer");
    await expect(wrong({ expect: { matches: { type: "nope" } } })).rejects.toThrow("Invalid JSON Schema");
    await expect(wrong({}, { mock: "none" })).rejects.toThrow("recorded, strict, off");
  });

  it("gives the saved tests of the workspace", async () => {
    const tests = await savedTests(undefined, { directory, mock: "strict" });
    expect(tests.length).toBeGreaterThan(3);
    for (const test of tests) await test.run();
  });

  it("works with node:test, whose process ends when the workspaces are closed", async () => {
    const project = makeProject({
      "a.test.mjs": `import { after, test } from "node:test";\nimport { closeWorkspaces, savedTests, testTool } from "toolrack/testing";\n${cases}\nafter(closeWorkspaces);`,
    });
    const { code, output } = await run(project, "--test", "--test-reporter=tap", "a.test.mjs");
    expect(output).toContain("# pass 2");
    expect(output).toContain("# fail 1");
    expect(output).toContain("Hello, Bob!");
    expect(code).toBe(1);
  });

  it("works with Vitest", async () => {
    const project = makeProject({
      "a.test.mjs": `import { test } from "vitest";\nimport { savedTests, testTool } from "toolrack/testing";\n${cases}`,
      "vitest.config.mjs": "export default { ssr: { resolve: { conditions: ['toolrack-source'] } } };",
    });
    const vitest = join(modules, "vitest/vitest.mjs");
    const { output } = await run(project, vitest, "run", "a.test.mjs");
    expect(output).toMatch(/1 failed.*2 passed/);
    expect(output).toContain("Hello, Bob!");
  });
});
