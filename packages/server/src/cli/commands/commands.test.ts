import { existsSync } from "node:fs";
import { appendFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { type CliOutcome, type RunOptions, runCli } from "../testing/run-cli.ts";
import { sampleWorkspace } from "../testing/sample-workspace.ts";
import { spawnCli } from "../testing/spawn-cli.ts";
import { displayWidth } from "../text.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await sampleWorkspace();
});
afterAll(() => workspace[Symbol.asyncDispose]());

function toolrack(words: readonly string[], options: Partial<RunOptions> = {}): Promise<CliOutcome> {
  return runCli(words, { cwd: workspace.directory, ...options });
}

// biome-ignore lint/suspicious/noExplicitAny: each test looks at its answer; there is no one type to promise.
async function json(words: readonly string[]): Promise<any> {
  return JSON.parse((await toolrack([...words, "--json"])).stdout);
}

describe("a word that is not known", { timeout: 180_000 }, () => {
  it("is answered with those that are, without words of the parser", async () => {
    const [command, near, action, expert] = await Promise.all([
      toolrack(["nonsense"]),
      toolrack(["lst"]),
      toolrack(["mcp-servers", "frobnicate"]),
      spawnCli(["mcp", "--expert", "nobody"], { cwd: workspace.directory }),
    ]);
    expect(command.stderr).toBe("error: unknown command 'nonsense'\nAdd --help to see what there is.\n");
    expect(near.stderr).toContain("(Did you mean list?)");
    expect([action.code, action.stderr]).toEqual([
      2,
      expect.stringMatching(/^error: "frobnicate" is not known here\. Say one of: list, show, .*import\.\n$/),
    ]);
    expect(expert.stderr).toContain('There is no expert "nobody". See: toolrack experts list');
  });
});

describe("list and search", { timeout: 180_000 }, () => {
  it("lists tools in aligned columns, and the files that failed on standard error", async () => {
    const { code, stdout, stderr } = await toolrack(["list"]);
    const lines = stdout.trimEnd().split("\n");
    const column = displayWidth(lines[0]!.slice(0, lines[0]!.indexOf("FROM")));
    const echo = lines.find((line) => line.startsWith("echo "))!;
    expect(echo).toContain("回声: Gives its arguments back. 原样返回参数。");
    expect(displayWidth(echo.slice(0, echo.indexOf("tools/sample.ts")))).toBe(column);
    expect(stderr).toContain("1 file failed to load");
    expect(stderr).toContain("tools/broken.ts:3");
    expect(stderr).not.toContain("[loader]");
    expect(code).toBe(0);
  });

  it("prints the tools as types", async () => {
    const { code, stdout } = await toolrack(["types"]);
    expect(stdout).toMatch(/^export interface Rack \{\n.*\n {2}echo\(/s);
    expect(code).toBe(0);
    expect((await json(["types"])).types).toBe(stdout);
  });

  it("filters by category and tag, and has a machine form", async () => {
    const { tools, failures } = await json(["list", "--category", "text"]);
    expect(tools).toEqual([
      {
        name: "echo",
        title: "回声",
        description: "Gives its arguments back. 原样返回参数。",
        aliases: ["repeat"],
        category: "text",
        tags: ["测试"],
        origin: "tools/sample.ts",
        dangerous: false,
        readOnly: true,
        disabled: false,
      },
    ]);
    expect(failures).toMatchObject([{ file: "tools/broken.ts", line: 3, reason: expect.any(String) }]);
    const [byTag, none] = await Promise.all([
      toolrack(["list", "--tag", "测试"]),
      toolrack(["list", "--category", "nope"]),
    ]);
    expect(byTag.stdout.trim().split("\n")).toHaveLength(2);
    expect(none.stderr).toContain('No tool has the category "nope". There are:');
  });

  it("finds tools by words in either language", async () => {
    expect((await json(["search", "返回", "参数"])).tools[0].name).toBe("echo");
    expect((await toolrack(["search", "removes something"])).stdout).toContain("remove ");
  });
});

describe("show", { timeout: 180_000 }, () => {
  it("tells everything about a tool, by its alias too", async () => {
    const { stdout } = await toolrack(["show", "repeat"]);
    for (const text of [
      "echo  回声",
      "tools/sample.ts",
      "aliases   repeat",
      /count\s+integer ≥ 1\s+1/,
      /text\s+string\s+required\s+要返回的文本/,
      /at\.x\s+number/,
      /mode\s+"plain" \| "fancy"/,
      '"required": [',
      "toolrack call echo 'text=…'",
    ]) {
      expect(stdout).toMatch(text);
    }
    expect(await json(["show", "remove"])).toMatchObject({
      name: "remove",
      dangerous: true,
      parameters: { required: ["path"] },
      metadata: { confirm: "真的要删除吗？" },
    });
  });
});

describe("check", { timeout: 180_000 }, () => {
  it("tells of every file what became of it and why, and fails when one failed", async () => {
    const { code, stdout } = await toolrack(["check"]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/failed {3}tools\/broken\.ts:3\n {9}\S.*\n {9}\S/);
    expect(stdout).toMatch(
      /adapted {2}tools\/old\/prefixed\.js {2}internal: internal_old_prefixed\n {9}.*Write "prefixed"/,
    );
    expect(stdout).toContain("3 files: 2 adapted, 1 failed");
    const report = await json(["check"]);
    expect(report.counts).toEqual({ loaded: 0, adapted: 2, stale: 0, failed: 1, helper: 0 });
    expect(report.files[0]).toMatchObject({
      file: "tools/broken.ts",
      status: "failed",
      failure: { line: 3 },
    });
  });

  it("checks one file or folder of a workspace under the names it has there", async () => {
    const [folder, file] = await Promise.all([
      toolrack(["check", "tools/old"]),
      toolrack(["check", "tools/old/prefixed.js"]),
    ]);
    for (const { code, stdout } of [folder, file]) {
      expect(stdout).toContain("internal_old_prefixed");
      expect(stdout).toContain("1 file: 1 adapted");
      expect(code).toBe(0);
    }
  });

  it("checks the tool files of a project that never heard of us, and leaves nothing behind", async () => {
    await using foreign = await TemporaryWorkspace.create({
      "server/internal-tools/wiki/read.js":
        "module.exports = { name: 'read', description: '读取', inputSchema: { type: 'object' }, handler: async () => 'ok' }",
      "server/internal-tools/util.js": "exports.two = 2",
    });
    const path = join(foreign.directory, "server/internal-tools");
    const { code, stdout } = await toolrack(["check", path]);
    expect(stdout).toContain("loaded   wiki/read.js  internal: internal_wiki_read");
    expect(stdout).toContain("failed   util.js");
    expect(code).toBe(1);
    expect(existsSync(join(path, ".toolrack"))).toBe(false);
  });

  it("--watch tells what changed, and Ctrl-C ends it well", async () => {
    await using watched = await TemporaryWorkspace.create({ "tools/.keep": "" });
    const outcome = await runCli(["check", "--watch"], {
      cwd: watched.directory,
      when: {
        says: "Watching",
        async act(child) {
          child.stdout?.on("data", (text) => String(text).includes("added late") && child.kill("SIGINT"));
          // Watching begins a moment after it is announced; a later write is seen all the same.
          for (let number = 0; child.exitCode === null; number++) {
            await watched.write(
              "tools/late.ts",
              `export const schema = { name: "late", description: "${number}", type: "object" }; export default async () => "";`,
            );
            await new Promise((resolve) => setTimeout(resolve, 300));
          }
        },
      },
    });
    expect(outcome.stdout).toMatch(/\d\d:\d\d:\d\d {2}added late {2}\(/);
    expect(outcome.code).toBe(0);
  });
});

describe("logs", { timeout: 180_000 }, () => {
  const line = (tool: string, minutesAgo: number, more: Record<string, unknown> = {}) =>
    `${JSON.stringify({ ts: new Date(Date.now() - minutesAgo * 60_000).toISOString(), tool, caller: "ai", args: {}, stat: "success", cost: 12.3, callId: `call_${tool}`, ...more })}\n`;
  let logged: TemporaryWorkspace;
  beforeAll(async () => {
    logged = await TemporaryWorkspace.create({
      "tools/.keep": "",
      "log/ToolBox.log.1": line("oldest", 90),
      "log/ToolBox.log":
        line("web_search", 30, { display: "SearXNG Search/网页搜索" }) +
        "not JSON\n" +
        line("file_read", 5, { stat: "error", err: "no such\nfile" }),
    });
  });
  afterAll(() => logged[Symbol.asyncDispose]());
  const at = () => ({ cwd: logged.directory });

  it("shows calls as people read them, oldest first, from files put aside on", async () => {
    const [all, ids] = await Promise.all([
      toolrack(["logs"], at()),
      toolrack(["logs", "--ids", "-n", "1"], at()),
    ]);
    const lines = all.stdout.trim().split("\n");
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}success {6}12 ms {2}oldest +ai$/);
    expect(lines[1]).toContain("SearXNG Search/网页搜索");
    expect(lines[2]).toMatch(/error .*file_read +ai {2}no such file$/);
    expect(ids.stdout).toContain("file_read call_file_read");
  });

  it("filters by tool, status and time, and prints raw lines as JSON", async () => {
    const [glob, errors, recent, wrong] = await Promise.all([
      toolrack(["logs", "--tool", "web_*", "--json"], at()),
      toolrack(["logs", "--status", "error", "--json"], at()),
      toolrack(["logs", "--since", "1h", "--json"], at()),
      toolrack(["logs", "--since", "yesterday"], at()),
    ]);
    const tools = ({ stdout }: CliOutcome) =>
      stdout
        .trim()
        .split("\n")
        .map((text) => JSON.parse(text).tool);
    expect(tools(glob)).toEqual(["web_search"]);
    expect(tools(errors)).toEqual(["file_read"]);
    expect(tools(recent)).toEqual(["web_search", "file_read"]);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain("such as 10m, 2h or 7d, nor a time");
    expect(wrong.stderr).toContain("2026-03-15T02:29:40Z");
  });

  it("-f goes on with what is written later", async () => {
    const file = join(logged.directory, "log/ToolBox.log");
    const { code, stdout } = await toolrack(["logs", "-f", "--limit", "1", "--tool", "file_*"], {
      ...at(),
      when: {
        says: "file_read",
        async act(child) {
          child.stdout?.on("data", (text) => String(text).includes("file_write") && child.kill("SIGINT"));
          await appendFile(file, line("other", 0) + line("file_write", 0));
        },
      },
    });
    expect(stdout.match(/file_read|file_write|other/g)).toEqual(["file_read", "file_write"]);
    expect(code).toBe(0);
  });
});

describe("new", { timeout: 180_000 }, () => {
  it("writes a tool that can be called at once, and overwrites nothing", async () => {
    await using fresh = await TemporaryWorkspace.create({
      "toolrack.config.mjs": `export default { tools: ["my-tools"] }`,
    });
    const at = { cwd: fresh.directory };
    const made = await runCli(["new", "internal", "text/greet"], at);
    expect(made).toMatchObject({ code: 0, stdout: "my-tools/text/greet.ts\n" });
    expect(made.stderr).toContain("toolrack call internal_text_greet name=World");
    const [called, again, taken, unfit, file] = await Promise.all([
      runCli(["call", "internal_text_greet", "name=World"], at),
      runCli(["new", "internal", "text/greet"], at),
      runCli(["new", "define", "internal_file_read"], at),
      runCli(["new", "define", "../escape"], at),
      runCli(["new", "later", "--style", "single-file"], at),
    ]);
    expect(called.stdout).toBe("Hello, World!\n");
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("exists already") });
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining("built-in file/read") });
    expect(unfit.code).toBe(2);
    expect(file).toMatchObject({ code: 0, stdout: "my-tools/later.tool.js\n" });
    expect((await runCli(["call", "later", "name=Ada"], at)).stdout).toBe("Hello, Ada!\n");
    expect((await runCli(["new"], at)).code).toBe(2);
  });
});

describe("doctor", { timeout: 180_000 }, () => {
  it("checks everything, with a remedy for what is wrong", async () => {
    await mkdir(join(workspace.directory, "empty"), { recursive: true });
    const [sick, healthy] = await Promise.all([
      toolrack(["doctor", "--json"]),
      toolrack(["doctor", "--dir", "empty"]),
    ]);
    const { ok, checks } = JSON.parse(sick.stdout);
    const statuses = Object.fromEntries(
      checks.map((check: { name: string; status: string }) => [check.name, check.status]),
    );
    expect(statuses).toMatchObject({
      node: "ok",
      esbuild: "ok",
      ripgrep: "ok",
      workspace: "ok",
      config: "ok",
      tools: "fail",
      log: "ok",
      formatter: "warn",
      "database shop": "fail",
    });
    expect(
      checks.every((check: { status: string; remedy?: string }) => check.status === "ok" || check.remedy),
    ).toBe(true);
    expect([ok, sick.code]).toEqual([false, 1]);
    expect(healthy.code).toBe(0);
    expect(healthy.stdout).toMatch(/^ok {4}node/);
  });

  it("tells of a config that cannot be read", async () => {
    await using broken = await TemporaryWorkspace.create({ "toolrack.config.ts": "export default {" });
    const { code, stdout } = await runCli(["doctor"], { cwd: broken.directory });
    expect(stdout).toMatch(/fail {2}config {6}.*toolrack\.config\.ts:1/);
    expect(code).toBe(1);
  });
});
