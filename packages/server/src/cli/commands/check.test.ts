import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

const internal = (name: string) =>
  `module.exports = { name: '${name}', description: 'x', inputSchema: { type: 'object' }, handler: async () => 'ok' }`;
const leavesTrace = `require("node:fs").writeFileSync(__filename + ".ran", "")`;

describe("check touches nothing", { timeout: 180_000 }, () => {
  it("keeps no cache and no log", async () => {
    await using fresh = await TemporaryWorkspace.create({
      "tools/a/x.js": internal("x"),
      "toolrack.config.mjs": "export default {}",
    });
    const outcomes = [
      await runCli(["check"], { cwd: fresh.directory }),
      await runCli(["check", "tools/a"], { cwd: fresh.directory }),
    ];
    expect(outcomes.map(({ code }) => code)).toEqual([0, 0]);
    expect((await readdir(fresh.directory)).sort()).toEqual(["toolrack.config.mjs", "tools"]);
  });

  it("names a usual folder of tool files that the workspace does not look into", async () => {
    await using fresh = await TemporaryWorkspace.create({
      "src/tools/a/x.js": internal("x"),
      ".toolrack/token": "",
    });
    const { stderr } = await runCli(["check"], { cwd: fresh.directory });
    expect(stderr).toContain("There are no tool files here.");
    expect(stderr).toContain('export default { tools: ["src/tools"] };');
  });

  it("leaves a .toolrack alone that somebody else made meanwhile", async () => {
    await using fresh = await TemporaryWorkspace.create({ "tools/a/x.js": internal("x") });
    const { code } = await runCli(["check", "--watch"], {
      cwd: fresh.directory,
      when: {
        says: "Watching",
        async act(child) {
          await fresh.write(".toolrack/toolrack.db", "calls");
          child.kill("SIGINT");
        },
      },
    });
    expect(code).toBe(0);
    expect(await readFile(join(fresh.directory, ".toolrack/toolrack.db"), "utf8")).toBe("calls");
  });
});

describe("check runs no tool", { timeout: 180_000 }, () => {
  it("calls and timers that a file starts at its top level are refused, and the file is still judged", async () => {
    const trace = `require("node:fs").writeFileSync(require("node:path").join(__dirname, "..", "ran"), "")`;
    await using fresh = await TemporaryWorkspace.create({
      "tools/schedule_tool.ts": `import { callToolHandler } from "../handler/ToolHandler.js";
        import { tasksFilePath } from "../config.js";
        import { LogService } from "../logService.js";
        export const schema = { name: "schedule_tool", description: "x", type: "object", properties: {} };
        LogService.log({ ts: new Date().toISOString(), file: tasksFilePath });
        const due = () => callToolHandler({ params: { name: "touch", arguments: {} } }, "schedule_tool_1");
        due();
        setTimeout(due, 0).unref();
        const timer = setInterval(due, 1);
        setImmediate(due);
        require("node:timers").setTimeout(due, 0);
        globalThis.setTimeout(() => { ${trace} }, 0);
        require("node:timers/promises").setTimeout(0).then(() => { ${trace} });
        process.getBuiltinModule("timers").setTimeout(() => { ${trace} }, 0);
        AbortSignal.timeout(0).addEventListener("abort", () => { ${trace} });
        export async function destroy() { clearInterval(timer); }
        export default async () => ({ content: [] });`,
      "tools/touch.ts": `export const schema = { name: "touch", description: "x", type: "object", properties: {} };
        export default async () => { ${trace}; return { content: [] }; };`,
    });
    const { code, stdout, stderr } = await runCli(["check"], { cwd: fresh.directory });
    expect(stdout).toContain("adapted  tools/schedule_tool.ts  toolbox: schedule_tool\n");
    expect(stdout).toContain(
      "starts a timer while it loads (setTimeout, setInterval, setImmediate, AbortSignal.timeout)",
    );
    expect(stderr).toContain('the call of "touch" that a file makes while it loads was refused');
    expect(await readdir(fresh.directory)).toEqual(["tools"]);
    expect(code).toBe(0);
  });
});

it("a folder internal-tools that no config names is pointed out", { timeout: 60_000 }, async () => {
  await using fresh = await TemporaryWorkspace.create({ "internal-tools/file/peek.js": internal("peek") });
  const before = await runCli(["check"], { cwd: fresh.directory });
  expect(before.stderr).toContain('export default { tools: ["internal-tools"] };');
  await fresh.write("toolrack.config.mjs", 'export default { tools: ["internal-tools"] };');
  const { stdout, stderr } = await runCli(["check"], { cwd: fresh.directory });
  expect(stdout).toContain("loaded   internal-tools/file/peek.js  internal: internal_file_peek\n");
  expect(stderr).toBe("");
});

describe("check on a project that is no workspace", { timeout: 180_000 }, () => {
  it("checks the folders that tools usually are in, under their right names, and runs nothing else", async () => {
    await using project = await TemporaryWorkspace.create({
      "package.json": "{}",
      "scripts/deploy.js": leavesTrace,
      "src/internal-tools/a/b/x.js": internal("x"),
      ".opencode/tool/y.js": internal("y"),
    });
    const { code, stdout } = await runCli(["check", project.directory], { cwd: "/" });
    expect(stdout).toContain("src/internal-tools/a/b/x.js  internal: internal_a_b_x\n");
    expect(stdout).toContain(".opencode/tool/y.js  internal: internal_y\n");
    expect(stdout).toContain("2 files: 2 loaded");
    expect(existsSync(join(project.directory, "scripts/deploy.js.ran"))).toBe(false);
    expect(code).toBe(0);
  });

  it("refuses a folder in which no tools can be made out, and says what to name", async () => {
    await using project = await TemporaryWorkspace.create({
      "package.json": "{}",
      "deploy.js": leavesTrace,
      "lib/x.js": internal("x"),
    });
    const { code, stdout, stderr } = await runCli(["check", project.directory], { cwd: "/" });
    expect(stderr).toContain("name the folder of the tool files");
    expect([code, stdout]).toEqual([1, ""]);
    expect(existsSync(join(project.directory, "deploy.js.ran"))).toBe(false);
  });

  it("takes a folder for what it is by its name, or when there are tool files only in it", async () => {
    await using project = await TemporaryWorkspace.create({
      "tool/x.js": internal("x"),
      "tool/helper.js": "exports.two = 2",
      "lib/y.js": internal("y"),
      "mixed/z.js": internal("z"),
      "mixed/deploy.js": leavesTrace,
    });
    const at = { cwd: project.directory };
    const [named, only, mixed, file] = await Promise.all([
      runCli(["check", "tool"], at),
      runCli(["check", "lib"], at),
      runCli(["check", "mixed"], at),
      runCli(["check", "mixed/z.js"], at),
    ]);
    expect(named.stdout).toContain("loaded   x.js  internal: internal_x\n");
    expect(only.stdout).toContain("loaded   y.js  internal: internal_y\n");
    expect(mixed.stderr).toContain("name the folder of the tool files");
    expect(file.stdout).toContain("loaded   z.js  internal: internal_z\n1 file:");
    expect(existsSync(join(project.directory, "mixed/deploy.js.ran"))).toBe(false);
  });

  it("names a file after its place in internal-tools, however deep the given path is", async () => {
    await using project = await TemporaryWorkspace.create({
      "server/internal-tools/wiki/page/read.js": internal("read"),
      "server/internal-tools/wiki/page/write.js": internal("write"),
    });
    const { stdout } = await runCli(["check", "server/internal-tools/wiki/page/read.js"], {
      cwd: project.directory,
    });
    expect(stdout).toContain("internal_wiki_page_read\n1 file: 1 loaded");
  });

  it("does not take a project that was cloned into a tools folder for tools of the workspace around", async () => {
    await using home = await TemporaryWorkspace.create({
      "tools/loud.js": leavesTrace,
      "tools/project/.git/HEAD": "",
      "tools/project/deploy.js": leavesTrace,
    });
    const { code } = await runCli(["check", "tools/project"], { cwd: home.directory });
    expect(code).toBe(1);
    expect(existsSync(join(home.directory, "tools/loud.js.ran"))).toBe(false);
    expect(existsSync(join(home.directory, "tools/project/deploy.js.ran"))).toBe(false);
  });
});
