import { describe, expect, it } from "vitest";
import { ServedWorkspace } from "../../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const good = `module.exports = { name: 'shout', description: 'Writes a text in capital letters.',
  inputSchema: { type: 'object', properties: { text: { type: 'string', description: 'Words in any language.' } } },
  metadata: { readOnly: true }, handler: async () => 'ok' }`;
const bad = `module.exports = { name: 'purge', description: 'TODO', inputSchema: { type: 'object' }, handler: async () => 'ok' }`;

const files = {
  "toolrack.config.js": "export default { builtins: false };",
  "tools/text/shout.js": good,
  "tools/user/purge.js": bad,
};

describe("toolrack lint", { timeout: 60_000 }, () => {
  it("says what is wrong, why and what would settle it, and fails", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const { code, stdout } = await runCli(["lint", "internal_*"], { cwd: workspace.directory });
    expect(stdout).toContain("internal_user_purge\n  description_vague  Its description is a placeholder");
    expect(stdout).toContain('destructive_unmarked  Its name says "purge"');
    expect(stdout).toContain("dangerous: true");
    expect(stdout).not.toContain("internal_text_shout");
    expect(stdout).toMatch(/2 tools: 2 findings\n$/);
    expect(code).toBe(1);
  });

  it("looks at some tools, and is content with those that are well", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const { code, stdout } = await runCli(["lint", "internal_text_*"], { cwd: workspace.directory });
    expect([code, stdout]).toEqual([0, "1 tool: nothing to mend\n"]);
  });

  it("prints JSON", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const { code, stdout } = await runCli(["lint", "internal_*", "--json"], { cwd: workspace.directory });
    const { findings, tools } = JSON.parse(stdout);
    expect([code, tools, findings.map((one: { code: string }) => one.code)]).toEqual([
      1,
      2,
      ["description_vague", "destructive_unmarked"],
    ]);
    expect(Object.keys(findings[0]).sort()).toEqual(["code", "reason", "remedy", "tool"]);
  });

  it("obeys the config and comments", async () => {
    await using workspace = await TemporaryWorkspace.create({
      ...files,
      "toolrack.config.js": `export default { builtins: false, lint: { off: { description_vague: ["internal_user_*"] } } };`,
      "tools/user/purge.js": `// toolrack lint off: destructive_unmarked\n${bad}`,
    });
    expect((await runCli(["lint", "internal_*"], { cwd: workspace.directory })).code).toBe(0);
  });

  it("refuses rules and patterns that do not exist", async () => {
    await using workspace = await TemporaryWorkspace.create({
      ...files,
      "toolrack.config.js": `export default { lint: { off: { near_twins: ["*"] } } };`,
    });
    const wrongRule = await runCli(["lint"], { cwd: workspace.directory });
    expect(wrongRule.code).toBe(1);
    expect(wrongRule.stderr).toMatch(/lint\.off/);
    await workspace.write("toolrack.config.js", "export default {};");
    expect((await runCli(["lint", "mcp:"], { cwd: workspace.directory })).code).toBe(2);
    const none = await runCli(["lint", "nothing_*"], { cwd: workspace.directory });
    expect([none.code, none.stderr]).toEqual([4, expect.stringContaining('No tool fits "nothing_*"')]);
  });

  it("asks the running server", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    await using _serving = await ServedWorkspace.here(workspace.directory);
    const { code, stdout } = await runCli(["lint", "internal_user_purge", "--json"], {
      cwd: workspace.directory,
    });
    expect(JSON.parse(stdout)).toMatchObject({ tools: 1, findings: [{ tool: "internal_user_purge" }, {}] });
    expect(code).toBe(1);
  });
});

describe("toolrack check --lint", { timeout: 60_000 }, () => {
  it("adds what is found in the tools of the files that are checked", async () => {
    await using workspace = await TemporaryWorkspace.create(files);
    const whole = await runCli(["check", "--lint"], { cwd: workspace.directory });
    expect(whole.stdout).toMatch(
      /loaded {3}tools\/user\/purge\.js[\s\S]*2 files: 2 loaded[\s\S]*description_vague[\s\S]*2 tools: 2 findings/,
    );
    expect(whole.code).toBe(1);
    const part = await runCli(["check", "tools/text", "--lint", "--json"], { cwd: workspace.directory });
    expect(JSON.parse(part.stdout)).toMatchObject({ counts: { loaded: 1 }, findings: [] });
    expect(part.code).toBe(0);
    expect((await runCli(["check"], { cwd: workspace.directory })).code).toBe(0);
    expect((await runCli(["check", "--lint", "--watch"], { cwd: workspace.directory })).code).toBe(2);
  });
});
