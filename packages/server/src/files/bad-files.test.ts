import { chmod, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isWholeDepth, testDepth } from "../../../../scripts/test-depth.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { describeLoad, type FileReport } from "./load-report.ts";

const good = `export const schema = { name: "good", description: "", type: "object", properties: {} };
  export default async () => ({ content: [{ type: "text", text: "good" }] });`;

async function reportOf(files: Record<string, string>): Promise<FileReport[]> {
  await using workspace = await TemporaryWorkspace.create({ "tools/good.ts": good, ...files });
  const { registry, report } = await workspace.open();
  expect((await registry.execute("good", {})).content).toBe("good");
  return report.files.filter((file) => file.file !== "tools/good.ts");
}

describe("a bad file is reported with place, reason and remedy, and stops nothing else", () => {
  it.each([
    [
      "does not parse",
      "export default {\n  name: 'x',\n  handler: async () => {\n",
      4,
      /Expected|Unexpected/,
      /syntax/,
    ],
    [
      "throws at load",
      "const a = 1;\n\nthrow new Error('at load');",
      3,
      /threw while loading: at load/,
      /top level/,
    ],
    [
      "throws at load what nobody can print",
      "throw Object.create(null);",
      undefined,
      /threw while loading: something that cannot be printed/,
      /top level/,
    ],
    ["throws a text at load", "throw 'just text';", undefined, /just text/, /top level/],
    ["calls process.exit at load", "process.exit(7);", 1, /process\.exit|exit/, /top level/],
    [
      "uses top-level await",
      "const x = await Promise.resolve(1);\nexport default x;",
      1,
      /[Tt]op-level await/,
      /Move the await/,
    ],
    [
      "imports what is not installed",
      "import x from 'not-a-package-at-all';\nexport default x;",
      undefined,
      /"not-a-package-at-all", which is not installed/,
      /npm install not-a-package-at-all/,
    ],
    [
      "imports a file that is not there",
      "import x from './nowhere.js';\nexport default x;",
      undefined,
      /imported but does not exist.*nowhere/,
      /Create it/,
    ],
    ["exports nothing", "export const x = 1;", undefined, /exports no tool/, /handler.*schema.*Tool\.define/],
    [
      "has a schema that is wrong",
      "export const schema = { name: 'w', type: 'object', properties: { a: { type: 'strin' } } };\nexport default async () => 1;",
      undefined,
      /strin/,
      /definition/,
    ],
    ["is a single-file tool", "x", 1, /x is not defined/, /Correct the file/],
  ])(
    "one that %s",
    async (what, text, line, reason, remedy) => {
      const name = what === "is a single-file tool" ? "tools/bad.tool.js" : "tools/bad.ts";
      const [bad] = await reportOf({ [name]: text });
      expect(bad).toMatchObject({ file: name, status: "failed", tools: [] });
      expect(bad?.failure?.line).toBe(line);
      expect(bad?.failure?.reason).toMatch(reason);
      expect(bad?.failure?.remedy).toMatch(remedy);
    },
    30_000,
  );

  it("a helper that fails is named in the report of the tool", async () => {
    const files = await reportOf({
      "tools/uses.ts": "import { x } from './lib/broken'; export default { name: 'uses', handler: () => x };",
      "tools/lib/broken.ts": "export const x = 1;\nthrow new Error('helper broke');",
    });
    const uses = files.find((file) => file.file === "tools/uses.ts");
    expect(uses?.failure?.reason).toMatch(/helper broke \(in tools\/lib\/broken\.ts:2\)/);
  });

  it("two files with one name: the first stays, the second names both", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/a.ts": good, "tools/b.ts": good });
    const { registry, report } = await workspace.open();
    expect(registry.get("good")?.origin).toBe("tools/a.ts");
    const second = report.files.find((file) => file.file === "tools/b.ts");
    expect(second?.status).toBe("failed");
    expect(second?.failure?.reason).toMatch(/tools\/a\.ts.*tools\/b\.ts/);
    await workspace.remove("tools/a.ts");
    expect((await registry.execute("buildReload_tool", {})).type).toBe("json");
    expect(registry.get("good")?.origin).toBe("tools/b.ts");
  });

  it("a file that loads prints nothing into the data and leaves its timers to the version", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/timer.ts": `globalThis.toolrackTicks = 0; setInterval(() => { globalThis.toolrackTicks++; }, 5);\n${good}`,
    });
    const world = globalThis as { toolrackTicks?: number };
    const { files } = await workspace.open();
    await expect.poll(() => world.toolrackTicks).toBeGreaterThan(0);
    await workspace.write("tools/timer.ts", good);
    await files.load();
    await new Promise((resolve) => setTimeout(resolve, 30));
    const ticks = world.toolrackTicks;
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(world.toolrackTicks).toBe(ticks);
    delete world.toolrackTicks;
  });

  it("a tool of another kind is told where it belongs", async () => {
    const files = await reportOf({
      "tools/word.js": `module.exports = { getMetadata: () => ({ id: "word" }), execute: () => 1 };`,
      "tools/classy.js": `module.exports = class { getMetadata() { return { id: "classy" }; } execute() { return 1; } };`,
      "tools/skilled.js": "module.exports = { getTools: () => [], execute: () => 1 };",
    });
    expect(files.map(({ file, status, failure }) => [file, status, failure?.remedy])).toEqual([
      ["tools/classy.js", "failed", "Rename it to classy.tool.js"],
      ["tools/skilled.js", "failed", expect.stringContaining("into the folder skills")],
      ["tools/word.js", "failed", "Rename it to word.tool.js"],
    ]);
  });

  it("an index file is no tool, but may be imported", async () => {
    const files = await reportOf({
      "tools/group/index.js": "throw new Error('a loader of another framework');",
      "tools/shared/index.ts": "export const value = 1;",
      "tools/uses.ts": `import { value } from "./shared"; export default { name: "uses", description: "x", inputSchema: { type: "object" }, handler: () => value };`,
    });
    expect(files.map(({ file, status }) => [file, status])).toEqual([["tools/uses.ts", "loaded"]]);
  });

  it("a tools folder that does not exist is empty", async () => {
    await using workspace = await TemporaryWorkspace.create();
    const { report } = await workspace.open();
    expect(report.files).toEqual([]);
  });

  it.skipIf(process.getuid?.() === 0)("a file and a folder that may not be read are reported", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/good.ts": good,
      "tools/secret.ts": good,
      "tools/closed/x.ts": good,
    });
    await chmod(join(workspace.directory, "tools/secret.ts"), 0);
    await chmod(join(workspace.directory, "tools/closed"), 0);
    const { report } = await workspace.open();
    await chmod(join(workspace.directory, "tools/closed"), 0o700);
    expect(report.files.filter((file) => file.status === "failed").map((file) => file.file)).toEqual([
      "tools/secret.ts",
      "tools/closed",
    ]);
  });

  it("a link to nowhere and a link to a folder above do no harm", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/good.ts": good });
    await symlink(join(workspace.directory, "nowhere.ts"), join(workspace.directory, "tools/dangling.ts"));
    await symlink(workspace.directory, join(workspace.directory, "tools/up"));
    await mkdir(join(workspace.directory, "tools/folder.ts"));
    const { report } = await workspace.open();
    expect(report.files.map((file) => file.file)).toEqual(["tools/good.ts"]);
  });
});

describe("what a file may be written in", () => {
  it("takes every TypeScript form, tsconfig paths, JSON, packages of the workspace, and import.meta", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tsconfig.json":
        '{ "compilerOptions": { "baseUrl": ".", "paths": { "@lib/*": ["lib/*"] }, "experimentalDecorators": true } }',
      "lib/shared.ts": "export namespace Shared { export const value = 'shared'; }",
      "node_modules/left-pad-ish/package.json":
        '{ "name": "left-pad-ish", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
      "node_modules/left-pad-ish/index.js": "export default (text) => '>' + text; export const named = 'n';",
      "node_modules/async-one/package.json":
        '{ "name": "async-one", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
      "node_modules/async-one/index.js": "export const ready = await Promise.resolve('awaited');",
      "tools/data.json": '{ "answer": 42 }',
      "tools/forms.ts": `
        import { Shared } from "@lib/shared";
        import pad, { named } from "left-pad-ish";
        import { ready } from "async-one";
        import data from "./data.json";
        import fs = require("node:fs");
        enum Level { Low = 1, High }
        const enum Fixed { A = "a" }
        namespace Inner { export const x = 3; }
        function log(target: any, key: string, descriptor: PropertyDescriptor) { descriptor.value.logged = true; }
        class Service {
          constructor(private readonly base: number, public name = "svc") {}
          @log compute(): number { return this.base + Inner.x; }
          accessor size = 5;
        }
        abstract class Shape { abstract area(): number; }
        const service = <Service>new Service(Level.High);
        export default {
          name: "forms", description: "", inputSchema: { type: "object" },
          handler: async () => {
            const { join } = await import("node:path");
            return [service.compute(), Fixed.A, Shared.value, pad("x"), named, ready, data.answer, service.size,
              typeof fs.existsSync, import.meta.url.startsWith("file://"), __filename.endsWith("forms.ts"), join("a", "b"),
              (service.compute as any).logged, Shape.name].join(" ");
          },
        };`,
    });
    const { registry, report } = await workspace.open();
    expect(report.files.flatMap((file) => file.failure ?? [])).toEqual([]);
    const { content } = await registry.execute("internal_forms", {});
    expect(content).toBe("5 a shared >x n awaited 42 5 function true true a/b true Shape");
  });
});

describe("many files", () => {
  it.runIf(isWholeDepth)("one that loops at load is stopped after ten seconds", async () => {
    const [report] = await reportOf({ "tools/bad.ts": "while (true) {}" });
    expect(report?.failure?.reason).toMatch(/longer than 10000 ms/);
    expect(report?.failure?.remedy).toMatch(/inside the tool's function/);
  });

  it("a great many files load, and load again from the cache", async () => {
    const count = testDepth(2_000, 400);
    const files = Object.fromEntries(
      Array.from({ length: count }, (_, index) => [
        `tools/g${index % 20}/t${index}.ts`,
        `export default { name: "t${index}", description: "Tool ${index}", inputSchema: { type: "object", properties: { n: { type: "number", description: "A number." } } }, handler: async ({ n }: { n: number }) => n + ${index} };`,
      ]),
    );
    await using workspace = await TemporaryWorkspace.create(files);
    const first = await workspace.open();
    expect(first.report.files.every((file) => file.status === "loaded")).toBe(true);
    const second = await workspace.open();
    expect(second.report.files).toHaveLength(count);
    expect((await second.registry.execute(`internal_g19_t${count - 1}`, { n: 1 })).content).toBe(
      String(count),
    );
    console.info(
      `${count} files: ${Math.round(first.report.duration)} ms, cached ${Math.round(second.report.duration)} ms`,
    );
  }, 600_000);
});

it("names as many loaded tools as people still read, and counts the others", () => {
  const added = Array.from({ length: 150 }, (_, index) => `tool_${index}`);
  const file = { file: "tools/many.ts", status: "loaded" as const, tools: added, warnings: [] };
  const { info } = describeLoad({
    files: [file],
    compiled: [],
    added,
    changed: [],
    removed: [],
    duration: 1,
  });
  expect(info).toHaveLength(103);
  expect(info.at(-2)).toBe("[loader] loaded tool: 50 more");
});
