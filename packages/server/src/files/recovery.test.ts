import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

const tool = (name: string, body: string, head = "") =>
  `${head}\nexport const schema = { name: "${name}", description: "x", type: "object", properties: {} };
   export default async () => ({ content: [{ type: "text", text: String(${body}) }] });`;

describe("a file that failed is tried again when what it depends on changes", () => {
  it("a helper behind a helper is mended", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool("t", "value", "import { value } from './lib/m';"),
      "tools/lib/m.ts": "export { value } from './h';",
      "tools/lib/h.ts": "export const value = 1;",
    });
    const { registry, files } = await workspace.open();
    await workspace.write("tools/lib/h.ts", "export const value = ;");
    await files.load();
    expect((await registry.execute("t", {})).content).toBe("1");
    expect(files.report().find((file) => file.file === "tools/t.ts")?.status).toBe("stale");
    await workspace.write("tools/lib/h.ts", "export const value = 2;");
    await files.load();
    expect((await registry.execute("t", {})).content).toBe("2");
    expect(files.report().map(({ file, status }) => [file, status])).toEqual([
      ["tools/lib/h.ts", "helper"],
      ["tools/lib/m.ts", "helper"],
      ["tools/t.ts", "loaded"],
    ]);
  });

  it("a helper outside the tools folder is mended", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool("t", "value", "import { value } from '../shared/o.ts';"),
      "shared/o.ts": "export const value = 1;",
    });
    const { registry, files } = await workspace.open();
    await workspace.write("shared/o.ts", "throw new Error('broken');");
    await files.load();
    await workspace.write("shared/o.ts", "export const value = 2;");
    await files.load();
    expect((await registry.execute("t", {})).content).toBe("2");
  });

  it("a file or a package that was missing appears", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.ts": tool("a", "value", "import { value } from './lib/late';"),
      "tools/b.ts": tool("b", "value", "import { value } from 'latepkg';"),
    });
    const { registry, files, report } = await workspace.open();
    expect(report.files.map((file) => file.status)).toEqual(["failed", "failed"]);
    await workspace.write("tools/lib/late.ts", "export const value = 'late';");
    await workspace.write(
      "node_modules/latepkg/package.json",
      '{ "name": "latepkg", "version": "1.0.0", "main": "index.js" }',
    );
    await workspace.write("node_modules/latepkg/index.js", "exports.value = 'installed';");
    await files.load();
    expect((await registry.execute("a", {})).content).toBe("late");
    expect((await registry.execute("b", {})).content).toBe("installed");
    expect(files.report().find((file) => file.file === "tools/lib/late.ts")?.status).toBe("helper");
  });
});

describe("imports inside functions", () => {
  it("belong to the version from the start, before they are first used", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool("t", "(await import('./lib/lazy.js')).value"),
      "tools/lib/lazy.ts": "export const value = 1;",
    });
    const { registry, files, report } = await workspace.open();
    expect(report.files.find((file) => file.file === "tools/lib/lazy.ts")?.status).toBe("helper");
    await workspace.write("tools/lib/lazy.ts", "export const value = 2;");
    await files.load();
    expect((await registry.execute("t", {})).content).toBe("2");
  });

  it("are found by a call under way although the file has gone meanwhile", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool(
        "t",
        "await run()",
        `async function run() {
        const first = (await import('./lib/lazy.js')).value;
        await new Promise((resolve) => setTimeout(resolve, 100));
        return first + (await import('./lib/lazy.js')).value;
      }`,
      ),
      "tools/lib/lazy.ts": "export const value = 1;",
    });
    const { registry, files } = await workspace.open();
    const call = registry.execute("t", {});
    await sleep(30);
    await workspace.remove("tools/lib/lazy.ts");
    await files.load();
    expect((await call).content).toBe("2");
  });
});

describe("names", () => {
  it("a file that takes a name that is taken goes on under its old one", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.ts": tool("a", "'a1'"),
      "tools/b.ts": tool("b", "'b1'"),
    });
    const { registry, files } = await workspace.open();
    await workspace.write("tools/a.ts", tool("b", "'a2'"));
    await files.load();
    expect((await registry.execute("a", {})).content).toBe("a1");
    expect((await registry.execute("b", {})).content).toBe("b1");
    expect(files.report()[0]).toMatchObject({ file: "tools/a.ts", status: "stale", tools: ["a"] });
    await workspace.write("tools/b.ts", tool("b", "'b2'"));
    await files.load();
    expect((await registry.execute("b", {})).content).toBe("b2");
    await workspace.write("tools/a.ts", tool("a", "'a3'"));
    await files.load();
    expect((await registry.execute("a", {})).content).toBe("a3");
  });

  it("a tool's own name counts more than the file name of another", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.ts": tool("b", "'from a'"),
      "tools/b.ts": tool("a", "'from b'"),
    });
    const { registry, report } = await workspace.open();
    expect(report.files.map((file) => file.status)).toEqual(["loaded", "loaded"]);
    expect((await registry.execute("a", {})).content).toBe("from b");
    expect((await registry.execute("b", {})).content).toBe("from a");
  });

  it("a toolbox's own log_tool takes the place of ours", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/log_tool.ts": tool("log_tool", "'theirs'"),
    });
    const { registry, report } = await workspace.open();
    expect(report.files[0]?.status).toBe("loaded");
    expect((await registry.execute("log_tool", {})).content).toBe("theirs");
  });
});

describe("files as teams have them", () => {
  it("may declare __filename and __dirname, and destructure setInterval", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool(
        "t",
        "[__filename.endsWith('t.ts'), __dirname.endsWith('tools'), typeof setInterval].join()",
        `
        import { fileURLToPath } from "node:url";
        import { dirname } from "node:path";
        const __filename = fileURLToPath(import.meta.url);
        const __dirname = dirname(__filename);
        const { setInterval } = require("node:timers/promises");`,
      ),
      "tools/c.js":
        "delete require.cache[module.filename]; module.exports = { name: 'c', description: '', inputSchema: { type: 'object' }, handler: () => module.id.endsWith('c.js') };",
    });
    const { registry, report } = await workspace.open();
    expect(report.files.flatMap((file) => file.failure ?? [])).toEqual([]);
    expect((await registry.execute("t", {})).content).toBe("true,true,function");
    expect((await registry.execute("internal_c", {})).content).toBe("true");
  });

  it("a timer set inside a call makes calls of its own after that call has ended", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/later.ts": `import { callToolHandler } from "../handler/ToolHandler.js";
        export const schema = { name: "later", description: "", type: "object", properties: {} };
        export const answers = [];
        export default async () => {
          setTimeout(async () => { answers.push(await callToolHandler({ params: { name: "echo", arguments: {} } }, "later_1")); }, 10);
          return { content: [{ type: "text", text: "planned" }] };
        };`,
      "tools/echo.ts": tool("echo", "'echo'"),
    });
    const { registry } = await workspace.open();
    await registry.execute("later", {}, { sessionID: "s" });
    await expect
      .poll(() => registry.getCallHistory(9).find((record) => record.toolName === "echo"))
      .toMatchObject({
        status: "completed",
        caller: "later_1",
        sessionID: "s",
      });
  });

  it("the toolbox's folders are there when a tool writes into them", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool(
        "t",
        "readFileSync(tasksFilePath, 'utf8').trim()",
        `
        import { readFileSync, writeFileSync } from "node:fs";
        import { tasksFilePath, jsonDirectory } from "../config.js";
        writeFileSync(jsonDirectory + "/x.json", "{}");`,
      ),
    });
    const { registry } = await workspace.open();
    expect((await registry.execute("t", {})).content).toBe("[]");
    expect(await readFile(join(workspace.directory, "json/x.json"), "utf8")).toBe("{}");
  });

  it("a project's own handler/ToolHandler is not used: calls go through the rack", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "handler/ToolHandler.ts":
        "export const callToolHandler = async () => ({ content: [{ type: 'text', text: 'original' }] });",
      "tools/outer.ts": tool(
        "outer",
        "(await callToolHandler({ params: { name: 'inner' } }, 'outer_1')).content[0].text",
        'import { callToolHandler } from "../handler/ToolHandler.js";',
      ),
      "tools/inner.ts": tool("inner", "'through the rack'"),
    });
    const { registry } = await workspace.open();
    expect((await registry.execute("outer", {})).content).toBe("through the rack");
  });

  it("intervals of helpers, and of versions that were never used, are stopped", async () => {
    const world = globalThis as { toolrackTicked?: string[] };
    world.toolrackTicked = [];
    const ticking = (label: string) => `setInterval(() => globalThis.toolrackTicked.push("${label}"), 3);`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.ts": tool("t", "1", "import './lib/h';"),
      "tools/lib/h.ts": ticking("h1"),
    });
    const { files } = await workspace.open();
    await workspace.write("tools/lib/h.ts", ticking("h2"));
    await workspace.write(
      "tools/bad.ts",
      `${ticking("bad")} export const schema = { name: "bad", type: "strin" }; export default () => 1;`,
    );
    await files.load();
    await sleep(30);
    world.toolrackTicked = [];
    await sleep(40);
    expect(new Set(world.toolrackTicked)).toEqual(new Set(["h2"]));
    await files.close();
    world.toolrackTicked = [];
    await sleep(30);
    expect(world.toolrackTicked).toEqual([]);
    delete world.toolrackTicked;
  });
});
