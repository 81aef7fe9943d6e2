import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

const anything = `getSchema: () => ({ type: "object", properties: {}, additionalProperties: true })`;

function tool(id: string, members: string, before = ""): string {
  return `${before}\nmodule.exports = { getMetadata: () => ({ id: "${id}", description: "d" }), ${anything}, ${members} };`;
}

describe("what a tool finds around it", { timeout: 120_000 }, () => {
  it("may be declared anew at the top of its file", async () => {
    const declarations = {
      fs: `const fs = require("fs");`,
      process: `const process = require("node:process");`,
      importx: "const importx = () => {};",
      loadModule: "let loadModule = () => {};",
      importModule: "class importModule {}",
      filename: `const __filename = "x"; const __dirname = "y";`,
    };
    const files = Object.entries(declarations).map(([id, before]) => [
      `tools/${id}.tool.js`,
      tool(id, `execute: () => "ran"`, before),
    ]);
    await using workspace = await TemporaryWorkspace.create({
      ...Object.fromEntries(files),
      "tools/module.tool.mjs": `import fs from "node:fs"; import { createRequire } from "node:module"; import { fileURLToPath } from "node:url";
        const __filename = fileURLToPath(import.meta.url); const require = createRequire(import.meta.url);
        export default { getMetadata: () => ({ id: "module" }), ${anything}, execute: () => typeof fs.readFileSync === "function" && __filename };`,
      "tools/strict.tool.js": `"use strict"; module.exports = { getMetadata: () => ({ id: "strict" }), ${anything}, execute: () => (function () { return this === undefined; })() };`,
    });
    const { registry, report } = await workspace.open({ builtins: false });
    expect(report.files.flatMap(({ failure }) => failure ?? [])).toEqual([]);
    for (const id of Object.keys(declarations)) {
      expect((await registry.execute(id, {})).content, id).toBe("ran");
    }
    expect((await registry.execute("module", {})).content).toBe("/tools/module.tool.mjs");
    expect((await registry.execute("strict", {})).content).toBe("true");
  });

  it("does not hold the machine's files, and says so of the file that was asked for", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/read.tool.js": tool(
        "read",
        `getBusinessErrors: () => [{ code: "NOT_FOUND", match: "ENOENT", solution: "Name another file." }],
         execute: ({ path, write }) => write ? fs.writeFileSync(path, "x") : fs.readFileSync(path, "utf8")`,
      ),
    });
    const { registry } = await workspace.open({ builtins: false });
    const read = await registry.execute("read", { path: `${workspace.directory}/tools/read.tool.js` });
    expect(read.error).toMatchObject({ code: "business_error", details: { code: "NOT_FOUND" } });
    expect(read.content).toContain(`"${workspace.directory}/tools/read.tool.js" is not in the sandbox`);
    expect(read.content).not.toContain("--allow");
    const written = await registry.execute("read", { path: `${workspace.directory}/x`, write: true });
    expect(written.content).toContain(`"${workspace.directory}/x" cannot be written`);
  });

  it("is logged without the secrets that it was given, in a call and outside one", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/talk.tool.js": `module.exports = { getMetadata: () => ({ id: "talk" }),
        getSchema: () => ({ parameters: { type: "object", properties: {} }, environment: { type: "object", properties: { TOKEN: { type: "string" } } } }),
        init() { console.log("outside " + process.env.TOKEN); },
        execute() { console.log("inside " + process.env.TOKEN); this.api.logger.warn("x".repeat(9_990) + process.env.TOKEN, { at: process.env.TOKEN }); return 1; } };`,
    });
    const secret = "tok-1234567890-abcdefghij";
    const toolValues = {
      get: async (tool: string, name: string) => (`${tool}/${name}` === "talk/TOKEN" ? secret : undefined),
      tools: new Map(),
      secrets: { values: () => [secret], onChange() {} },
    };
    const { registry, close } = await workspace.open({ builtins: false, toolValues: toolValues as never });
    expect((await registry.execute("talk", {})).type).not.toBe("error");
    await close();
    const said = workspace.messages.join("\n");
    const logged = await readFile(`${workspace.directory}/log/tools/talk.log`, "utf8");
    for (const text of [said, logged]) {
      expect(text).toMatch(/outside \[redacted\]/);
      expect(text).toMatch(/inside \[redacted\]/);
      expect(text).not.toContain("tok-12");
    }
  });
});

describe("a dry run", { timeout: 120_000 }, () => {
  it("that a call asks for by itself ends with the call", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/mode.tool.js": tool(
        "mode",
        `getBridges: () => ({ op: { real: () => "real", mock: () => "mock" } }),
         async execute({ dry }) { if (dry) this.api.bridge.setMode("dryrun"); return { did: await this.api.bridge.execute("op"), mode: this.api.bridge.mode, worker: globalThis.worker ??= Math.random() }; }`,
      ),
    });
    const { registry } = await workspace.open({ builtins: false });
    const one = (await registry.execute("mode", { dry: true })).structured as { worker: number };
    expect(one).toMatchObject({ did: "mock", mode: "dryrun" });
    const other = (await registry.execute("mode", {})).structured;
    expect(other).toEqual({ did: "real", mode: "execute", worker: one.worker });
  });

  it("changes no variable, whatever the worker asks the host for", async () => {
    process.env.TOOLRACK_KEYRING = "off";
    await using workspace = await TemporaryWorkspace.create({
      "tools/own.tool.js": `module.exports = { getMetadata: () => ({ id: "own" }),
        getSchema: () => ({ parameters: { type: "object", properties: { write: { type: "integer" }, value: { type: "string" } } }, environment: { type: "object", properties: { LEVEL: { type: "string" } } } }),
        async execute({ write, value }) {
          if (write) fs.writeSync(3, JSON.stringify({ type: "request", call: write, id: 900, method: "environment.set", params: { name: "LEVEL", value } }) + "\\n");
          if (write) await new Promise((resolve) => setTimeout(resolve, 300));
          return { length: this.api.environment.get("LEVEL", "").length }; } };`,
    });
    const { registry } = await workspace.open({ builtins: false });
    const length = async () => (await registry.execute("own", {})).structured;
    // In earnest first, which shows that the message is one.
    await registry.execute("own", { write: 1, value: "written" });
    await expect.poll(length, { timeout: 30_000 }).toEqual({ length: 7 });
    await registry.execute("own", { write: 1, value: "tried" }, { extra: { dryRun: true } });
    expect(await length()).toEqual({ length: 7 });
    delete process.env.TOOLRACK_KEYRING;
  });
});
