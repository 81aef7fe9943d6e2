import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

describe("contract 1", () => {
  it("loads CommonJS, ESM and TypeScript, names tools after folder and name, and hands over ctx", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "toolrack.config.ts": `
        import { defineConfig } from "toolrack";
        class Project { root = "/srv"; getProjectPath() { return this.root; } }
        export default defineConfig({
          services: { project: new Project() },
          models: { User: { findAll: async () => ["ada"] } },
          context: { helper: { now: () => 7 } },
        });`,
      "tools/team/position.js": `module.exports = {
        name: 'position', description: '职位', inputSchema: { type: 'object', properties: { who: { type: 'string', description: '谁' } }, required: ['who'] },
        handler: async (args, ctx) => {
          ctx.logger.info('looking up', args.who);
          const users = await ctx.model.User.findAll();
          return { content: [{ type: 'text', text: [args.who, ctx.service.project.getProjectPath(), users[0], ctx.helper.now(), ctx.callId].join('|') }] };
        },
      }`,
      "tools/math/add.mjs": `export default { name: "add", description: "Adds.", inputSchema: { type: "object", properties: { a: { type: "number", description: "One." }, b: { type: "number", description: "Other." } } }, handler: ({ a, b }) => a + b };`,
      "tools/hello.ts": `
        interface Args { name: string }
        const tool = { name: "hello", description: "Greets.", inputSchema: { type: "object", properties: { name: { type: "string", description: "Whom." } } },
          handler: async (args: Args) => \`Hello, \${args.name}\` };
        export default tool;`,
    });
    const { registry, report } = await workspace.open();
    expect(report.files.map(({ file, status, tools }) => [file, status, tools])).toEqual([
      ["tools/hello.ts", "loaded", ["internal_hello"]],
      ["tools/math/add.mjs", "loaded", ["internal_math_add"]],
      ["tools/team/position.js", "loaded", ["internal_team_position"]],
    ]);
    expect((await registry.execute("internal_team_position", { who: "lin" }, { callId: "c" })).content).toBe(
      "lin|/srv|ada|7|c",
    );
    expect(workspace.messages).toContain("looking up lin");
    expect(workspace.messages).toContain("[loader] found 3 tool files");
    expect(workspace.messages).toContain("[loader] loaded tool: internal_team_position");
    expect((await registry.execute("internal_math_add", { a: 1, b: 2 })).content).toBe("3");
    expect((await registry.execute("internal_hello", { name: "Ada" })).content).toBe("Hello, Ada");
    expect(registry.list("math").map((info) => info.name)).toEqual(["internal_math_add"]);
  });

  it("takes a name that already has the prefix, with a warning", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/file/peek.js": `module.exports = { name: 'internal_file_peek', description: '', inputSchema: { type: 'object' }, handler: async () => 'ok' }`,
      "tools/my.js": `module.exports = { name: 'internal_my_tool', description: '', inputSchema: { type: 'object' }, handler: async () => 'ok' }`,
    });
    const { report } = await workspace.open();
    expect(report.files.map(({ status, tools }) => [status, tools])).toEqual([
      ["adapted", ["internal_file_peek"]],
      ["adapted", ["internal_my_tool"]],
    ]);
    expect(report.files[0]?.warnings[0]).toContain('Write "peek"');
  });

  it("takes the place of a built-in tool by taking its name, and gives it back", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/file/read.js": `module.exports = { name: 'read', description: 'mine', inputSchema: { type: 'object' }, handler: async () => 'mine' }`,
    });
    const { registry, files, report } = await workspace.open();
    expect(report.files).toMatchObject([{ status: "loaded", tools: ["internal_file_read"] }]);
    expect((await registry.execute("internal_file_read", {})).content).toBe("mine");
    expect(registry.get("internal_file_write")?.origin).toBe("built-in file/write");
    await workspace.remove("tools/file/read.js");
    await files.load();
    expect(registry.get("internal_file_read")?.origin).toBe("built-in file/read");
  });

  it("nested folders do not collide", async () => {
    const tool = (text: string) =>
      `module.exports = { name: 'x', description: '', inputSchema: { type: 'object' }, handler: async () => '${text}' }`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/a/g/x.js": tool("a"),
      "tools/b/g/x.js": tool("b"),
    });
    const { registry } = await workspace.open();
    expect((await registry.execute("internal_a_g_x", {})).content).toBe("a");
    expect((await registry.execute("internal_b_g_x", {})).content).toBe("b");
  });

  it("a thrown error is the result's error, with a stack that points at the source line", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/fail.ts": `
enum Level { Low, High }
type Args = { path: string };

export default {
  name: "fail", description: "Fails.", inputSchema: { type: "object" },
  handler: async (args: Args) => {
    const level: Level = Level.High;
    throw new Error(\`操作失败: \${level}\`);
  },
};`,
    });
    const { registry, log } = await workspace.open();
    const result = await registry.execute("internal_fail", {}, { caller: "ai" });
    expect(result).toMatchObject({ type: "error", content: "操作失败: 1" });
    log.flush();
    const line = JSON.parse((await readFile(log.file, "utf8")).trim());
    expect(line).toMatchObject({ tool: "internal_fail", caller: "ai", stat: "error", err: "操作失败: 1" });
    expect(line.trace).toContain("tools/fail.ts:9:11");
  });
});

describe("contract 2", () => {
  const seedHello = `
export const schema = {
  name: "hello_world",
  description: "一个简单的 Hello World 工具，返回问候消息",
  type: "object",
  properties: {
    name: { type: "string", description: "要问候的名字" },
    language: { type: "string", enum: ["en", "zh", "fr"], description: "问候语语言（en：英语，zh：中文，fr：法语）" }
  },
  required: ["name"],
  outputSchema: { type: "object", properties: { content: { type: "array", items: { type: { type: "string" }, text: { type: "string" } } } } }
};
export default async function(request: any) {
  try {
    const { name, language = "en" } = request.params.arguments;
    if (typeof name !== "string" || name.trim() === "") throw new Error("name 参数必须是非空字符串");
    let greeting;
    switch (language) {
      case "zh": greeting = \`你好，\${name}！\`; break;
      case "fr": greeting = \`Bonjour, \${name}!\`; break;
      case "en":
      default: greeting = \`Hello, \${name}!\`; break;
    }
    return { content: [{ type: "text", text: greeting }] };
  } catch (error) {
    return { content: [{ type: "text", text: \`Error: \${error instanceof Error ? error.message : String(error)}\` }], isError: true };
  }
}
export async function destroy() { console.log("Destroy hello_world tool"); }`;

  it("runs the hello_world of the seed, enums checked, both ways of failing recorded as errors", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/hello.ts": seedHello,
      "tools/rejects.ts": `export const schema = { name: "rejects", description: "", type: "object", properties: {}, required: [] };
        export default (request) => Promise.reject(new Error("rejected"));`,
    });
    const { registry, log } = await workspace.open();
    expect((await registry.execute("hello_world", { name: "张三", language: "zh" })).content).toBe(
      "你好，张三！",
    );
    expect((await registry.execute("hello", { name: "Ada" })).content).toBe("Hello, Ada!");
    expect((await registry.execute("hello_world", { name: "Ada", language: "de" })).error?.code).toBe(
      "invalid_arguments",
    );
    expect((await registry.execute("hello_world", { name: " " })).error?.code).toBe("execution_failed");
    expect((await registry.execute("hello_world", {})).error?.message).toContain("`name` is missing");
    expect((await registry.execute("rejects", {})).content).toBe("rejected");
    const info = registry.get("hello_world");
    expect(info?.description).toContain("Hello World");
    // It describes the whole result, while clients take an output schema for one of the data.
    expect(info?.metadata.resultSchema).toMatchObject({ properties: { content: { type: "array" } } });
    expect(info).not.toHaveProperty("outputSchema");
    log.flush();
    const lines = (await readFile(log.file, "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => [line.tool, line.stat])).toEqual([
      ["hello_world", "success"],
      ["hello_world", "success"],
      ["hello_world", "error"],
      ["hello_world", "error"],
      ["hello_world", "error"],
      ["rejects", "error"],
    ]);
  });

  it("runs the weather report of the seed, whose imports resolve although nobody wrote the files", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/weather_report.ts": `
import { callToolHandler } from '../handler/ToolHandler.js';

export default async function(request: any) {
  try {
    const { city } = request.params.arguments;
    const weatherData = await callToolHandler({ params: { name: "weather_api", arguments: { city } } }, "weather_report_fetch");
    const report = await callToolHandler(
      { params: { name: "text_formatter", arguments: {
        template: "Weather report for {city}: {conditions}, {temperature}°C",
        data: { city, conditions: weatherData.content[0].text.conditions, temperature: weatherData.content[0].text.temperature },
      } } },
      "weather_report_format"
    );
    return report;
  } catch (error) {
    return { content: [{ type: "text", text: \`Failed to generate weather report: \${error instanceof Error ? error.message : String(error)}\` }], isError: true };
  }
}`,
      "tools/weather_api.ts": `export const schema = { name: "weather_api", description: "", type: "object", properties: { city: { type: "string" } }, required: ["city"] };
        export default async (request) => ({ content: [{ type: "text", text: { conditions: "Sunny", temperature: 21 } }] });`,
      "tools/text_formatter.ts": `export const schema = { name: "text_formatter", description: "", type: "object", properties: { template: { type: "string" }, data: { type: "object" } }, required: ["template"] };
        export default async ({ params: { arguments: { template, data } } }) => ({ content: [{ type: "text", text: template.replace(/\\{(\\w+)\\}/g, (_, key) => String(data[key])) }] });`,
    });
    const { registry, log, report } = await workspace.open();
    expect(report.files.find((file) => file.file === "tools/weather_report.ts")?.status).toBe("adapted");
    const result = await registry.execute(
      "weather_report",
      { city: "Oslo" },
      { callId: "w", tid: "task-9", caller: "ai" },
    );
    expect(result.content).toBe("Weather report for Oslo: Sunny, 21°C");
    log.flush();
    const lines = (await readFile(log.file, "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ tool, caller, tid, parentCallId }) => [tool, caller, tid, parentCallId])).toEqual([
      ["weather_api", "weather_report_fetch", "task-9", "w"],
      ["text_formatter", "weather_report_format", "task-9", "w"],
      ["weather_report", "ai", "task-9", undefined],
    ]);
  });

  it("a failed inner call is failed to the caller and in the log, which keeps the caller", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/outer.ts": `import { callToolHandler } from "../handler/ToolHandler.js";
        export const schema = { name: "outer", description: "", type: "object", properties: {} };
        export default async () => {
          const inner = await callToolHandler({ params: { name: "inner", arguments: {} }, tid: 7 }, "outer_1");
          for (const request of [undefined, {}, { params: {} }]) {
            if ((await callToolHandler(request)).isError !== true) throw new Error("called nothing");
          }
          return { content: [{ type: "text", text: "inner failed: " + inner.isError + " " + inner.content[0].text }] };
        };`,
      "tools/inner.ts": `export const schema = { name: "inner", description: "", type: "object", properties: {} };
        export default async () => { throw new Error("no paper"); };`,
    });
    const { registry, log } = await workspace.open();
    expect((await registry.execute("outer", {})).content).toBe("inner failed: true no paper");
    log.flush();
    const [first] = (await readFile(log.file, "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(first).toMatchObject({
      tool: "inner",
      caller: "outer_1",
      tid: "7",
      stat: "error",
      err: "no paper",
    });
  });

  it("the other two modules that toolbox tools import are provided as well", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/paths.ts": `import { logFile, tasksFilePath } from "../config.js";
        import { LogService } from "../logService.js";
        export const schema = { name: "paths", description: "", type: "object", properties: {} };
        export default async () => { await LogService.logAsync({ ts: new Date().toISOString(), note: "by hand" }); return { content: [{ type: "text", text: logFile + "|" + tasksFilePath }] }; };`,
    });
    const { registry, log } = await workspace.open();
    const { content } = await registry.execute("paths", {});
    expect(content).toBe(`${log.file}|${join(workspace.directory, "json/scheduled_tasks.json")}`);
    log.flush();
    expect(await readFile(log.file, "utf8")).toContain("by hand");
  });

  it("a call from a timer, outside of any call, is a call of its own", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/later.ts": `import { callToolHandler } from "../handler/ToolHandler.js";
        export const schema = { name: "later", description: "", type: "object", properties: {} };
        let answer;
        setTimeout(() => { answer = callToolHandler({ params: { name: "echo_back", arguments: {} } }, "later_timer"); }, 0);
        export default async () => answer ?? { content: [] };`,
      "tools/echo_back.ts": `export const schema = { name: "echo_back", description: "", type: "object", properties: {} };
        export default async () => ({ content: [{ type: "text", text: "back" }] });`,
    });
    const { registry } = await workspace.open();
    await expect.poll(async () => (await registry.execute("later", {})).content).toBe("back");
    const record = registry.getCallHistory(100).find((call) => call.toolName === "echo_back");
    expect(record).toMatchObject({ caller: "later_timer", depth: 0 });
  });
});

describe("contract 3", () => {
  it("takes one or many values of Tool.define, promises of them, lists, and opencode-style tools", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/many.ts": `import { Tool } from "@toolrack/core";
        const parameters = { type: "object", properties: {} } as const;
        export const one = Tool.define({ name: "one", parameters, execute: async () => "1" });
        export const two = Tool.define("two", async () => ({ parameters, execute: async () => "2" }));
        export default [Tool.define({ name: "three", parameters, execute: async () => "3" }), one];
        export const notATool = 5;`,
      "tools/github.ts": `import { tool } from "@opencode-ai/plugin";
        const string = { "~standard": { version: 1, vendor: "x", validate: (value) => typeof value === "string" ? { value } : { issues: [{ message: "no" }] } } };
        export default tool({ description: "Default.", args: {}, async execute() { return "default"; } });
        export const issues = tool({ description: "Issues.", args: { repo: string }, async execute(args, context) { return args.repo + context.sessionID; } });`,
    });
    const { registry, report } = await workspace.open();
    expect(report.files.map(({ file, contract, tools }) => [file, contract, tools])).toEqual([
      ["tools/github.ts", "plugin", ["github", "github_issues"]],
      ["tools/many.ts", "define", ["three", "one", "two"]],
    ]);
    for (const [name, content] of [
      ["one", "1"],
      ["two", "2"],
      ["three", "3"],
      ["github", "default"],
    ] as const) {
      expect((await registry.execute(name, {})).content).toBe(content);
    }
    expect((await registry.execute("github_issues", { repo: "a/b" }, { sessionID: "s" })).content).toBe(
      "a/bs",
    );
  });

  it("takes what functions create…Tool return, and instances of classes, which get the arguments first", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "types/tool-system.ts": `export enum ToolType { BUILTIN = "builtin" }
        export interface ToolResult { success: boolean; output: string; error?: string; duration: number; exitCode: number }`,
      "tools/FileReadTool.ts": `import { ToolResult, ToolType } from "../types/tool-system";
        export class FileReadTool {
          private prefix = "read ";
          async execute(args: { path: string }): Promise<ToolResult> {
            if (args.path === "") return { success: false, output: "", error: "No path", duration: 1, exitCode: 1 };
            return { success: true, output: this.prefix + args.path, duration: 1, exitCode: 0 };
          }
        }
        export function createFileReadTool() {
          const instance = new FileReadTool();
          return { name: "file-read", description: "Reads.", type: ToolType.BUILTIN, category: "filesystem", level: 1, enabled: true,
            parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
            execute: async (args: { path: string }) => instance.execute(args) };
        }
        export default createFileReadTool;`,
      "tools/PlatformTool.js": `class PlatformTool {
          constructor() { this.name = "platform"; this.description = "Says where."; this.parameters = { type: "object", properties: { os: { type: "string", default: "linux" } } }; }
          execute({ os }, context) { return os + " " + context.sessionID + " " + this.helper(); }
          helper() { return "helped"; }
        }
        module.exports = PlatformTool;`,
      "tools/off.js": `exports.createOffTool = async () => ({ name: "off", description: "", parameters: { type: "object" }, enabled: false, execute: async () => "ran" });`,
      "tools/context.js": `exports.createContextTool = () => ({ name: "by_context", description: "", parameters: { type: "object", properties: { n: { type: "number" } } }, async execute(ctx) { return ctx.input.n + ctx.sessionID; } });`,
      "tools/defined.ts": `import { Tool } from "@toolrack/core";
        export const createDefinedTools = () => [Tool.define({ name: "defined", parameters: { type: "object", properties: { n: { type: "number" } } }, execute: async ({ input }) => "n" + input.n })];`,
      "tools/needs.js": `exports.createNeedyTool = (service) => { throw new Error("called without " + service); };
        exports.createFineTool = () => ({ name: "fine", description: "", parameters: { type: "object" }, execute: () => "fine" });`,
      "tools/own.js": `exports.OwnTool = class { name = "own"; description = ""; parameters = { type: "object" }; execute = async () => this.name; };`,
      // Exported ready-made: objects and an instance.
      "tools/plain.js": `exports.plain = { name: "plain", description: "", category: "text", parameters: { type: "object", properties: { word: { type: "string" } } }, execute({ word }) { return word + this.category; } };
        exports.asked = { name: "asked", description: "", aliases: ["asked_too"], parameters: { type: "object", properties: { word: { type: "string" } } }, execute: async ({ input, sessionID }) => input.word + sessionID };
        exports.closed = { name: "closed", description: "", disabled: true, parameters: { type: "object" }, execute: (c) => c.input };`,
      "tools/ready.ts": `class ReadyTool {
          name = "ready"; description = ""; parameters = { type: "object", properties: { n: { type: "number" } } };
          #total = 0;
          async execute(args: { n: number }) { this.#total += args.n; return { success: true, output: "total " + this.#total }; }
        }
        export const readyTool = new ReadyTool();`,
      "tools/helped.ts": `import { Tool } from "@toolrack/core";
        export class Query { constructor() { throw new Error("no database"); } execute() {} }
        export default Tool.define({ name: "helped", parameters: { type: "object" }, execute: async () => "helped" });`,
    });
    const { registry, report } = await workspace.open({ builtins: false });
    expect(
      report.files.map(({ file, contract, tools, failure }) => [file, contract, tools, failure]),
    ).toEqual([
      ["tools/FileReadTool.ts", "define", ["file-read"], undefined],
      ["tools/PlatformTool.js", "define", ["platform"], undefined],
      ["tools/context.js", "define", ["by_context"], undefined],
      ["tools/defined.ts", "define", ["defined"], undefined],
      ["tools/helped.ts", "define", ["helped"], undefined],
      ["tools/needs.js", "define", ["fine"], undefined],
      ["tools/off.js", "define", ["off"], undefined],
      ["tools/own.js", "define", ["own"], undefined],
      ["tools/plain.js", "define", ["plain", "asked", "closed"], undefined],
      ["tools/ready.ts", "define", ["ready"], undefined],
    ]);
    const call = (name: string, input: object) => registry.execute(name, input, { sessionID: "s" });
    expect((await call("file-read", { path: "a.txt" })).content).toBe("read a.txt");
    expect(await call("file-read", { path: "" })).toMatchObject({ type: "error", content: "No path" });
    expect((await call("file-read", {})).error).toMatchObject({ code: "invalid_arguments" });
    expect(registry.get("file-read")?.metadata.category).toBe("filesystem");
    expect((await call("platform", {})).content).toBe("linux s helped");
    expect((await call("by_context", { n: 1 })).content).toBe("1s");
    expect((await call("defined", { n: 2 })).content).toBe("n2");
    expect((await call("fine", {})).content).toBe("fine");
    expect((await call("own", {})).content).toBe("own");
    expect((await call("plain", { word: "a " })).content).toBe("a text");
    expect((await call("asked_too", { word: "a" })).content).toBe("as");
    await call("ready", { n: 1 });
    expect((await call("ready", { n: 2 })).content).toBe("total 3");
    expect(registry.get("closed")?.disabled).toBe(true);
    expect(registry.get("off")?.disabled).toBe(true);
  });
});

describe("a file that replaces a built-in tool which asks before it runs", () => {
  const remove = (metadata = "") =>
    `module.exports = { name: 'delete', description: 'mine', inputSchema: { type: 'object' }${metadata}, handler: async () => 'deleted' }`;

  it("asks too, and the report says so", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/file/delete.js": remove(", metadata: { dangerous: false }"),
      "tools/system/execute.js": `module.exports = { name: 'execute', description: 'mine', inputSchema: { type: 'object' }, metadata: { dangerous: true, confirm: 'Mine?' }, handler: async () => 'ran' }`,
    });
    const asked: string[] = [];
    const { registry, report } = await workspace.open({
      approval: {
        async ask({ message }) {
          asked.push(message);
          return { decision: "deny" };
        },
      },
    });
    expect((await registry.execute("internal_file_delete", {})).error).toMatchObject({
      code: "approval_denied",
    });
    expect((await registry.execute("internal_system_execute", {})).error).toMatchObject({
      code: "approval_denied",
    });
    expect(asked).toEqual(["Delete this file or folder for good?", "Mine?"]);
    expect(report.files).toMatchObject([
      {
        status: "adapted",
        warnings: [expect.stringMatching(/"internal_file_delete", which asks.*so it asks too.*unguarded/)],
      },
      { status: "loaded", warnings: [] },
    ]);
  });

  it("runs unasked where the config says so", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/file/delete.js": remove(),
      "toolrack.config.mjs": `export default { approvals: { unguarded: ["internal_file_*"] } };`,
    });
    const { registry, report } = await workspace.open();
    expect((await registry.execute("internal_file_delete", {})).content).toBe("deleted");
    expect(report.files[0]?.warnings).toEqual([expect.stringContaining("This one does not ask")]);
  });
});
