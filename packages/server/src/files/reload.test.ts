import { execFile } from "node:child_process";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it, vi } from "vitest";
import { isWholeDepth, testDepth } from "../../../../scripts/test-depth.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";

function versioned(version: string | number, extra = ""): string {
  return `export const schema = { name: "versioned", description: "v${version}", type: "object", properties: { ms: { type: "number", description: "How long." } } };
    const version = "${version}";
    ${extra}
    export default async ({ params: { arguments: { ms = 0 } } }) => {
      const before = version;
      await new Promise((resolve) => setTimeout(resolve, ms));
      return { content: [{ type: "text", text: before + "/" + version }] };
    };`;
}

describe("reload", () => {
  it("buildReload_tool compiles, reloads, verifies and says what came of it", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/versioned.ts": versioned(1) });
    const { registry } = await workspace.open();
    await workspace.write("tools/versioned.ts", versioned(2));
    await workspace.write("tools/fresh.ts", versioned(1).replaceAll("versioned", "fresh"));
    const result = await registry.execute("buildReload_tool", {});
    expect(result.structured).toMatchObject({
      success: true,
      build: { compiled: ["tools/fresh.ts", "tools/versioned.ts"] },
      reload: { tools: ["fresh", "versioned"], added: ["fresh"], changed: ["versioned"], removed: [] },
    });
    expect((await registry.execute("versioned", {})).content).toBe("2/2");
    await workspace.remove("tools/fresh.ts");
    expect((await registry.execute("buildReload_tool", {})).structured).toMatchObject({
      reload: { removed: ["fresh"] },
    });
    expect((await registry.execute("fresh", {})).error?.code).toBe("tool_not_found");
  });

  it("buildReload_tool with force, and loadTools(true), load unchanged files anew", async () => {
    const counting = "globalThis.toolrackLoads = (globalThis.toolrackLoads ?? 0) + 1;";
    await using workspace = await TemporaryWorkspace.create({
      "tools/versioned.ts": versioned(1, counting),
      "tools/again.ts": `import { loadTools } from "../handler/ToolHandler.js";
        export const schema = { name: "again", description: "x", type: "object", properties: {} };
        export default async () => { await loadTools(true); return { content: [] }; };`,
    });
    const { registry } = await workspace.open();
    const loads = () => Reflect.get(globalThis, "toolrackLoads");
    const before = loads();
    expect((await registry.execute("buildReload_tool", {})).structured).toMatchObject({
      build: { compiled: [] },
    });
    expect(loads()).toBe(before);
    expect((await registry.execute("buildReload_tool", { force: true })).structured).toMatchObject({
      success: true,
      build: { compiled: ["tools/again.ts", "tools/versioned.ts"] },
      reload: { changed: ["again", "versioned"] },
    });
    expect(loads()).toBe(before + 1);
    await registry.execute("again", {});
    expect(loads()).toBe(before + 2);
  });

  it("a file that stops compiling keeps serving its last good version and says so everywhere", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/versioned.ts": versioned(1) });
    const { registry, files } = await workspace.open();
    await workspace.write("tools/versioned.ts", "export const schema = {\n  name: oops oops\n};");
    const result = await registry.execute("buildReload_tool", {});
    expect(result.type).toBe("error");
    expect(result.content).toMatch(/tools\/versioned\.ts:2: /);
    expect(files.report()).toMatchObject([
      { file: "tools/versioned.ts", status: "stale", tools: ["versioned"], failure: { line: 2 } },
    ]);
    expect((await registry.execute("versioned", {})).content).toBe("1/1");
    await workspace.write("tools/versioned.ts", versioned(3));
    await files.load();
    expect((await registry.execute("versioned", {})).content).toBe("3/3");
    expect(files.report()[0]?.status).toBe("loaded");
  });

  it("a call under way ends on its own version, and destroy waits for it", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/versioned.ts": versioned(
        1,
        "export async function destroy() { globalThis.toolrackDestroyed = version; }",
      ),
    });
    const world = globalThis as { toolrackDestroyed?: string };
    const { registry, files } = await workspace.open();
    const call = registry.execute("versioned", { ms: 150 });
    await workspace.write("tools/versioned.ts", versioned(2));
    await files.load();
    expect((await registry.execute("versioned", {})).content).toBe("2/2");
    expect(world.toolrackDestroyed).toBeUndefined();
    expect((await call).content).toBe("1/1");
    await vi.waitFor(() => expect(world.toolrackDestroyed).toBe("1"));
    delete world.toolrackDestroyed;
  });

  it("a destroy that throws, or never ends, is reported and survived", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.ts": versioned(
        1,
        "export function destroy() { throw new Error('cannot let go'); }",
      ).replaceAll('"versioned"', '"a"'),
      "tools/b.ts": versioned(1).replaceAll('"versioned"', '"b"'),
    });
    const { registry, files } = await workspace.open();
    await workspace.write(
      "tools/a.ts",
      versioned(2, "export const destroy = () => new Promise(() => {});").replaceAll('"versioned"', '"a"'),
    );
    await workspace.write("tools/b.ts", versioned(2).replaceAll('"versioned"', '"b"'));
    await files.load();
    expect((await registry.execute("a", {})).content).toBe("2/2");
    expect((await registry.execute("b", {})).content).toBe("2/2");
    await vi.waitFor(() =>
      expect(workspace.messages).toContain("tools/a.ts: destroy() failed: cannot let go"),
    );
    await workspace.write("tools/a.ts", versioned(3).replaceAll('"versioned"', '"a"'));
    await files.load();
    expect((await registry.execute("a", {})).content).toBe("3/3");
    await vi.waitFor(() => expect(workspace.messages.at(-1)).toContain("did not end within 5 s"), {
      timeout: 10_000,
    });
  }, 20_000);

  it("a helper that a tool imports reloads its importers, also from outside the tools folder, and only those", async () => {
    const using = (name: string, from: string) =>
      `import { value } from "${from}"; let calls = 0;
       export const schema = { name: "${name}", description: "", type: "object", properties: {} };
       export default async () => ({ content: [{ type: "text", text: value + ":" + ++calls }] });`;
    await using workspace = await TemporaryWorkspace.create({
      "lib/outside.ts": "export const value = 'out1';",
      "tools/lib/inside.ts": "export { value } from './deep.js';",
      "tools/lib/deep.ts": "export const value = 'in1';",
      "tools/a.ts": using("a", "./lib/inside"),
      "tools/b.ts": using("b", "../lib/outside.js"),
      "tools/c.ts": using("c", "./lib/other.json").replace("{ value }", "{ value }"),
      "tools/lib/other.json": '{ "value": "json" }',
    });
    const { registry, files } = await workspace.open();
    const contents = async () => {
      const results = await Promise.all(["a", "b", "c"].map((name) => registry.execute(name, {})));
      return results.map((result) => result.content);
    };
    expect(await contents()).toEqual(["in1:1", "out1:1", "json:1"]);
    await workspace.write("tools/lib/deep.ts", "export const value = 'in2';");
    await files.load();
    expect(await contents()).toEqual(["in2:1", "out1:2", "json:2"]);
    await workspace.write("lib/outside.ts", "export const value = 'out2';");
    await files.load();
    expect(await contents()).toEqual(["in2:2", "out2:1", "json:3"]);
    expect(files.report().filter((file) => file.status === "failed")).toEqual([]);
    expect(
      files
        .report()
        .filter((file) => file.status === "helper")
        .map((file) => file.file),
    ).toEqual(["tools/lib/deep.ts", "tools/lib/inside.ts"]);
  });

  it("tools that import one helper share its state", async () => {
    const counter = (name: string) =>
      `import { next } from "./lib/count";
       export const schema = { name: "${name}", description: "", type: "object", properties: {} };
       export default async () => ({ content: [{ type: "text", text: String(next()) }] });`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/lib/count.ts": "let count = 0; export const next = () => ++count;",
      "tools/a.ts": counter("a"),
      "tools/b.ts": counter("b"),
    });
    const { registry } = await workspace.open();
    await registry.execute("a", {});
    expect((await registry.execute("b", {})).content).toBe("2");
  });

  it("stays disabled what the operator switched off, and a disabled tool still reloads", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/versioned.ts": versioned(1) });
    const { registry, files } = await workspace.open();
    registry.disable("versioned");
    await workspace.write("tools/versioned.ts", versioned(2));
    await files.load();
    expect(registry.get("versioned")).toMatchObject({ disabled: true, description: "v2" });
  });

  it("watching serves a change, a new file, a file written by rename, and survives a folder that becomes a file", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/versioned.ts": versioned(1),
      "tools/group/x.ts": versioned(1).replaceAll('"versioned"', '"x"'),
    });
    const app = await workspace.open();
    app.watch(() => {});
    await sleep(300); // The watcher says nothing when it has begun to look.
    const served = async (name: string) => (await app.registry.execute(name, {})).content;

    await workspace.write("tools/versioned.ts", versioned(2));
    await vi.waitFor(async () => expect(await served("versioned")).toBe("2/2"), { timeout: 5_000 });

    const temporary = join(workspace.directory, "versioned.ts.tmp");
    await writeFile(temporary, versioned(3));
    await rename(temporary, join(workspace.directory, "tools/versioned.ts"));
    await vi.waitFor(async () => expect(await served("versioned")).toBe("3/3"), { timeout: 5_000 });

    await workspace.write("tools/new.ts", versioned(1).replaceAll('"versioned"', '"brand_new"'));
    await vi.waitFor(async () => expect(await served("brand_new")).toBe("1/1"), { timeout: 5_000 });

    await workspace.remove("tools/group");
    await workspace.write("tools/group", "now a file");
    await vi.waitFor(() => expect(app.registry.get("x")).toBeUndefined(), { timeout: 5_000 });
    await workspace.remove("tools/group");
    await workspace.write("tools/group/x.ts", versioned(9).replaceAll('"versioned"', '"x"'));
    await vi.waitFor(async () => expect(await served("x")).toBe("9/9"), { timeout: 5_000 });
  }, 40_000);

  it("reloads with 50 calls under way at all times: no call fails or runs on a mixed version", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/helper.ts": "export const version = '0';",
      "tools/steady.ts": `import { version } from "./helper.ts";
        export const schema = { name: "steady", description: "", type: "object", properties: {} };
        const mine = version;
        export default async () => {
          const before = version;
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 10));
          const { version: lazy } = await import("./helper.ts");
          return { content: [{ type: "text", text: [mine, before, version, lazy].join() }] };
        };`,
    });
    const { registry, files } = await workspace.open();
    let reloading = true;
    let calls = 0;
    const wrong: string[] = [];
    const caller = async () => {
      while (reloading) {
        const { content } = await registry.execute("steady", {});
        calls++;
        if (new Set(content.split(",")).size !== 1 || !/^\d/.test(content)) wrong.push(content);
      }
    };
    const last = testDepth(200, 40);
    const callers = Array.from({ length: 50 }, caller);
    for (let version = 1; version <= last; version++) {
      await workspace.write("tools/helper.ts", `export const version = '${version}';`);
      await files.load();
    }
    reloading = false;
    await Promise.all(callers);
    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(5 * last);
    expect((await registry.execute("steady", {})).content).toBe([last, last, last, last].join());
  }, 60_000);

  it.runIf(isWholeDepth)(
    "1,000 reloads of a 10 KB tool leave the heap flat",
    async () => {
      const script = fileURLToPath(new URL("../testing/reload-heap.ts", import.meta.url));
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [
          "--expose-gc",
          "--conditions=toolrack-source",
          "--disable-warning=ExperimentalWarning",
          script,
          "1000",
        ],
        { timeout: 120_000 },
      );
      const { perReload } = JSON.parse(stdout);
      expect(perReload).toBeLessThan(2048);
    },
    120_000,
  );
});
