import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const index = `exports.getTools = () => [{ name: "double", description: "Doubles.", parameters: { properties: { n: { type: "number" } } } }];
exports.execute = async (tool, { n }) => ({ result: n * 2 });`;

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.mjs": "export default { builtins: false };",
    "skills/greet/SKILL.md": "---\nname: greet\ndescription: Greets.\n---\nBe polite.\n",
    "skills/greet/scripts/hi.sh": 'echo "hi $1"',
    "skills/silent/SKILL.md": "---\nname: silent\ndescription: Says nothing of its tools.\n---\n",
    "skills/silent/index.js": "exports.execute = () => 1;",
    "incoming/sums/SKILL.md": "---\nname: sums\ndescription: Sums.\n---\n",
    "incoming/sums/index.js": index,
    "dump.sql":
      "INSERT INTO skills (id,name) VALUES ('s9','From a dump'); INSERT INTO skill_tools (id,skill_id,name,type,endpoint) VALUES ('t9','s9','ping','http','https://x.example');",
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const run = (...words: string[]) => runCli(words, { cwd: workspace.directory });
const skills = (...words: string[]) => run("skills", ...words);

describe("toolrack skills", { timeout: 180_000 }, () => {
  it("lists those of folders, says why one has no tools, and runs their tools", async () => {
    const { code, stdout, stderr } = await skills();
    expect(code).toBe(0);
    expect(stderr).toContain("skills/silent: index.js does not say which tools it has");
    expect(stdout).toMatch(/greet +greet +skills\/greet +1 tool +Greets\./);
    expect((await run("call", "greet__hi", "--args", '{"args":["Ada"]}')).stdout).toBe("hi Ada\n");
  });

  it("imports a folder and a dump, shows them, and their tools are on the rack at once", async () => {
    const imported = await skills("import", "incoming/sums", "dump.sql", "--json");
    expect(imported.code, imported.stderr).toBe(0);
    expect(JSON.parse(imported.stdout).skills).toMatchObject([
      { id: "sums", trusted: false, toolCount: 1 },
      { id: "s9", name: "From a dump", toolCount: 1 },
    ]);
    expect(imported.stderr).toContain("skills trust");
    const shown = await skills("show", "From a dump");
    expect(shown.stdout).toMatch(/t9 +ping +http/);
    const listed = JSON.parse((await run("list", "--json")).stdout);
    expect(JSON.stringify(listed)).toContain("From a dump/ping");
    const again = await skills("import", "incoming/sums");
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("not imported")]);
    expect((await skills("trust", "sums")).code).toBe(0);
    expect(JSON.parse((await skills("show", "sums", "--json")).stdout).trusted).toBe(true);
  });

  it("runs what was imported, in the sandbox", async () => {
    const { stdout, stderr, code } = await run("call", "sums__double", "n=21");
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ result: 42 });
  });

  it("exports, and removes", async () => {
    const { stdout } = await skills("export", "sums", "--to", "out");
    expect(stdout).toBe(`${join("out", "sums")}\n`);
    expect(existsSync(join(workspace.directory, "out/sums/index.js"))).toBe(true);
    expect((await skills("remove", "sums")).code).toBe(0);
    expect((await run("call", "sums__double", "n=1")).code).toBe(4);
  });

  it("makes experts of them, shows and removes them", async () => {
    const made = await run("experts", "create", "helper", "--skills", "greet", "--tools", "log_*");
    expect(made.code, made.stderr).toBe(0);
    expect(JSON.parse((await run("experts", "show", "helper", "--json")).stdout).toolNames).toHaveLength(2);
    expect((await run("experts")).stdout).toMatch(/helper +greet +log_\* +2/);
    expect((await run("experts", "create", "x", "--skills", "nobody")).stderr).toContain("skills[0]");
    expect((await run("experts", "remove", "helper")).code).toBe(0);
    expect((await run("experts", "show", "helper")).code).toBe(1);
  });

  it("says what is missing", async () => {
    expect((await skills("show")).code).toBe(2);
    expect((await skills("show", "nobody")).stderr).toContain('no skill "nobody"');
    expect((await skills("remove", "greet")).stderr).toContain("lives in the folder skills/greet");
    expect((await skills("import", "nowhere")).stderr).toContain("There is no");
  });
});
