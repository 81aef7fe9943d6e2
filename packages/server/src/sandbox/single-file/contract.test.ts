import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Tool } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { upstreamOrigin } from "../../config/tool-patterns.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { startRegistry } from "../testing/test-registry.ts";

const anything = `getSchema: () => ({ type: "object", properties: {}, additionalProperties: true })`;

function tool(id: string, members: string): string {
  return `module.exports = { getMetadata: () => ({ id: "${id}", description: "d" }), ${anything}, ${members} };`;
}

async function open(files: Record<string, string>) {
  const workspace = await TemporaryWorkspace.create(files);
  const app = await workspace.open();
  const failed = app.report.files.flatMap(({ failure }) => failure ?? []);
  expect(failed).toEqual([]);
  return { ...app, workspace };
}

describe("a single-file tool", { timeout: 120_000 }, () => {
  it("may be an object, a class, an ES module, named exports, and TypeScript", async () => {
    const body = `getMetadata() { return { id: ID }; } ${anything.replace(": () =>", "() { return").replace(/\)$/, "; }").replace("return ({", "return {").replace("})", "}")} execute() { return this.helper(); } helper() { return this.api.getInfo().id; }`;
    const klass = (id: string) => `class T { ${body.replace("ID", `"${id}"`)} }`;
    const { workspace, registry } = await open({
      "tools/class.tool.js": `${klass("class")}; module.exports = T;`,
      "tools/default.tool.mjs": `export default ${klass("default")}`,
      "tools/object.tool.cjs": `module.exports = new (${klass("object")})();`,
      "tools/frozen.tool.js": `module.exports = Object.freeze({ getMetadata: () => ({ id: "frozen" }), ${anything}, execute() { return this.api.getInfo().id; } });`,
      "tools/named.tool.ts": `export function getMetadata(): { id: string } { return { id: "named" }; }
        export const getSchema = () => ({ type: "object" as const, properties: {} });
        export async function execute(this: { api: { getInfo(): { id: string } } }, params: Record<string, unknown>): Promise<string> { return this.api.getInfo().id; }`,
    });
    await using _ = workspace;
    for (const name of ["class", "default", "object", "frozen", "named"]) {
      expect(await registry.execute(name, {}), name).toMatchObject({ content: name });
    }
  });

  it("has the whole api and the globals that such files use", async () => {
    const { workspace, registry } = await open({
      "tools/api.tool.js": tool(
        "api",
        `execute() {
          const { api } = this;
          const globals = [fetch, TextEncoder, AbortController, structuredClone, btoa, URL, Buffer, Blob, File, FormData, fs.readFileSync, importx, loadModule, importModule, setTimeout, require, process.cwd, console.log];
          for (const name of ["path", "node:url", "util", "crypto", "events", "stream", "zlib", "assert", "querystring", "string_decoder", "os"]) require(name);
          let refused;
          try { process.exit(1); } catch (error) { refused = error.message; }
          return { keys: Object.keys(api).sort(), globals: globals.every((one) => typeof one === "function"), refused,
            logger: Object.keys(api.logger).sort(), version: api.getVersion(), node: api.getInfo().runtime.node, env: Object.keys(process.env).filter((name) => /TOKEN|SECRET|HOME_KEY/.test(name)) };
        }`,
      ),
    });
    await using _ = workspace;
    const { structured } = await registry.execute("api", {});
    expect(structured).toMatchObject({
      globals: true,
      refused: expect.stringContaining("not available"),
      logger: ["debug", "error", "fatal", "getLogPath", "info", "log", "trace", "warn"],
      version: "2.0.0",
      node: process.version,
      env: [],
    });
    const { keys } = structured as { keys: string[] };
    expect(keys).toEqual(
      expect.arrayContaining(
        "bridge callTool environment execute getInfo getVersion importx logger moduleImport storage".split(
          " ",
        ),
      ),
    );
  });

  it("runs init once in a worker, and cleanup before it ends", async () => {
    let cleaned = 0;
    const server = createServer((_, response) => {
      cleaned++;
      response.end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { workspace, registry, sandbox, close } = await open({
      "tools/life.tool.js": tool(
        "life",
        `async init() { this.started = (this.started ?? 0) + 1; },
         async cleanup() { await fetch("http://${host}/"); },
         execute() { return { started: this.started, calls: this.calls = (this.calls ?? 0) + 1 }; }`,
      ),
      "toolrack.config.mjs": `export default { sandbox: { grants: { life: { hosts: ["${host}"] } } } };`,
    });
    await using _ = workspace;
    await registry.execute("life", {});
    expect((await registry.execute("life", {})).structured).toEqual({ started: 1, calls: 2 });
    const { level } = await sandbox();
    expect(cleaned).toBe(0);
    await close();
    // The reduced sandbox has no network to tell it by.
    if (level === 3) expect(cleaned).toBe(1);
    server.close();
  });

  it("is asked by its own validate after the schema", async () => {
    const { workspace, registry } = await open({
      "tools/v.tool.js": tool(
        "v",
        `validate: ({ a }) => a > 1 ? { valid: true } : { valid: false, errors: ["a is too small"] }, execute: () => "ran"`,
      ),
    });
    await using _ = workspace;
    expect(await registry.execute("v", { a: 0 })).toMatchObject({
      content: expect.stringContaining("a is too small"),
      error: { code: "invalid_arguments" },
    });
    expect((await registry.execute("v", { a: 2 })).content).toBe("ran");
  });

  it("describes its failures by text, regular expression and function, found by message, code and name", async () => {
    const { workspace, registry } = await open({
      "tools/e.tool.js": tool(
        "e",
        `getBusinessErrors: () => [
          { code: "BY_TEXT", match: "ENOTHERE", solution: "look elsewhere", retryable: true },
          { code: "BY_NAME", match: /^RangeError$/g },
          { code: "BROKEN", match() { throw new Error("test fails"); } },
          { code: "BY_FUNCTION", match: (error) => error.status === 418, solution: "brew" },
        ],
        execute({ kind }) {
          if (kind === "code") throw Object.assign(new Error("x"), { code: "ENOTHERE" });
          if (kind === "name") throw new RangeError("x");
          if (kind === "function") throw Object.assign(new Error("x"), { status: 418 });
          throw new TypeError("unforeseen", { cause: new Error("no disk", { cause: "worn out" }) });
        }`,
      ),
    });
    await using _ = workspace;
    const detailsOf = async (kind: string) => (await registry.execute("e", { kind })).error;
    expect(await detailsOf("code")).toMatchObject({
      code: "business_error",
      details: { code: "BY_TEXT", solution: "look elsewhere", retryable: true, causeCode: "ENOTHERE" },
    });
    expect(await detailsOf("name")).toMatchObject({ details: { code: "BY_NAME", retryable: false } });
    expect(await detailsOf("name")).toMatchObject({ details: { code: "BY_NAME" } });
    expect(await detailsOf("function")).toMatchObject({ details: { code: "BY_FUNCTION" } });
    expect(await detailsOf("other")).toMatchObject({
      code: "execution_failed",
      message: "unforeseen",
      details: { cause: "no disk; caused by worn out" },
    });
    expect(registry.get("e")?.metadata.singleFile).toMatchObject({
      businessErrors: [
        { match: "ENOTHERE" },
        { match: "/^RangeError$/g" },
        { match: "a function" },
        { match: "a function" },
      ],
    });
  });

  it("keeps what it stores, from call to call, version to version and start to start", async () => {
    const count = tool(
      "count",
      `execute({ big, drop }) {
      const { storage } = this.api;
      if (big) storage.setItem("big", "x".repeat(big));
      if (drop) storage.clear();
      storage.setItem("count", (storage.getItem("count") ?? 0) + 1);
      return { count: storage.getItem("count"), keys: storage.keys(), length: storage.length, none: storage.getItem("none") };
    }`,
    );
    const { workspace, registry, files, close } = await open({ "tools/count.tool.js": count });
    await using _ = workspace;
    expect((await registry.execute("count", {})).structured).toEqual({
      count: 1,
      keys: ["count"],
      length: 1,
      none: null,
    });
    await registry.execute("count", {});
    await workspace.write("tools/count.tool.js", `${count}\n// changed`);
    await files.load();
    expect((await registry.execute("count", {})).structured).toMatchObject({ count: 3 });
    expect((await registry.execute("count", { big: 11 * 1024 * 1024 })).content).toContain("10 MiB");
    await close();
    const again = await workspace.open();
    expect((await again.registry.execute("count", {})).structured).toMatchObject({ count: 4 });
    expect((await again.registry.execute("count", { drop: true })).structured).toMatchObject({ count: 1 });
  });

  it("logs under its name and in a file of its own, and reports progress", async () => {
    const { workspace, registry, close } = await open({
      "tools/talk.tool.js": tool(
        "talk",
        `execute() {
        this.api.logger.warn("careful", { password: "hunter2xyz", n: 1 });
        this.api.logger.error("failed", new Error("why"));
        console.log("plain", { a: 1 });
        this.api.progress(1, 2, "half");
        return "done";
      }`,
      ),
    });
    await using _ = workspace;
    const progress: unknown[] = [];
    const said: unknown[] = [];
    registry.subscribe((event) => {
      if (event.type === "progress") progress.push(event.update);
      if (event.type === "log") said.push([event.callId, event.level, event.text]);
    });
    await registry.execute("talk", {}, { callId: "c-1" });
    expect(said).toEqual([
      ["c-1", "warn", '[talk] careful {"password":"[redacted]","n":1}'],
      ["c-1", "error", expect.stringMatching(/^\[talk\] failed .*why/)],
      ["c-1", "info", expect.stringContaining("plain")],
    ]);
    await close();
    expect(workspace.messages.join("\n")).toMatch(
      /\[talk\] careful[\s\S]*\[talk\] failed[\s\S]*\[talk\] plain/,
    );
    expect(progress).toEqual([{ progress: 1, total: 2, message: "half" }]);
    const { readFile } = await import("node:fs/promises");
    const lines = (await readFile(`${workspace.directory}/log/tools/talk.log`, "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toMatchObject([
      {
        level: "warn",
        tool: "talk",
        callId: "c-1",
        message: "careful",
        data: { password: "[redacted]", n: 1 },
      },
      { level: "error", message: "failed", data: { message: "why" } },
      { level: "info", message: expect.stringContaining("plain") },
    ]);
  });

  it("calls other sandboxed tools, and tools outside the sandbox only when granted", async () => {
    const caller = (id: string) =>
      tool(
        id,
        `execute: async function ({ name, input }) { return { got: await this.api.callTool(name, input) }; }`,
      );
    const { workspace, registry } = await open({
      "tools/caller.tool.js": caller("caller"),
      "tools/granted.tool.js": caller("granted"),
      "tools/double.tool.js": tool("double", `execute: ({ n }) => ({ n: n * 2 })`),
      "tools/outside.ts": `export const schema = { name: "outside", description: "", type: "object", properties: {} }; export default async () => "from outside";`,
      "toolrack.config.mjs": `export default { sandbox: { grants: { granted: { tools: ["out*", "mcp:git/log"] } } } };`,
    });
    await using _ = workspace;
    for (const name of ["log", "delete"]) {
      const mcp = upstreamOrigin({ server: "git", tool: name });
      const upstream = { parameters: { type: "object" }, metadata: { mcp }, execute: async () => name };
      registry.register(Tool.define({ name: `mcp_git_${name}`, ...upstream }));
    }
    const records: { toolName: string; depth: number }[] = [];
    registry.subscribe((event) => void (event.type === "record" && records.push(event.record as never)));
    expect((await registry.execute("caller", { name: "double", input: { n: 4 } })).structured).toEqual({
      got: { n: 8 },
    });
    expect(records).toMatchObject([{ depth: 1 }, { depth: 0 }]);
    const refused = await registry.execute("caller", { name: "outside" });
    expect(refused.content).toContain('sandbox: { grants: { "caller": { tools: ["outside"] } } }');
    expect((await registry.execute("granted", { name: "outside" })).structured).toEqual({
      got: "from outside",
    });
    expect((await registry.execute("granted", { name: "mcp_git_log" })).structured).toEqual({ got: "log" });
    expect((await registry.execute("granted", { name: "mcp_git_delete" })).content).toContain("not granted");
    expect((await registry.execute("caller", { name: "nobody" })).content).toContain("nobody");
  });

  it("chooses neither session nor caller nor permissions for the tools that it calls", async () => {
    const chosen =
      '{ sessionID: "other", caller: "root", callId: "mine", env: { A: "1" }, permissions: ["*"] }';
    const { workspace, registry } = await open({
      "tools/caller.tool.js": tool(
        "caller",
        `async execute({ name }) { return this.api.callTool(name, {}, ${chosen}); }`,
      ),
      "tools/who.ts": `import { Tool } from "@toolrack/core";
        const parameters = { type: "object" };
        export const who = Tool.define({ name: "who", parameters, execute: async ({ sessionID, caller, env }) => ({ sessionID, caller, env }) });
        export const guarded = Tool.define({ name: "guarded", parameters, metadata: { permissions: ["p"] }, execute: async () => "ran" });`,
      "toolrack.config.mjs": `export default { sandbox: { grants: { caller: { tools: ["*"] } } } };`,
    });
    await using _ = workspace;
    const call = (name: string) =>
      registry.execute("caller", { name }, { sessionID: "s", callId: `call-${name}`, permissions: [] });
    expect((await call("who")).structured).toEqual({ sessionID: "s", caller: "caller_call-who", env: {} });
    expect((await call("guarded")).content).toContain('needs the permission "p"');
  });

  it("has bridges whose mocks stand in for everything real in a dry run", async () => {
    const { workspace, registry } = await open({
      "tools/mail.tool.js": `module.exports = {
        getMetadata: () => ({ id: "mail" }),
        getSchema: () => ({ parameters: { type: "object", properties: { to: { type: "string" } } }, environment: { type: "object", properties: { KEY: { type: "string" } }, required: ["KEY"] } }),
        getBridges() { return { "mail:send": { real: async () => { throw new Error("ECONNREFUSED 1.2.3.4"); }, mock: async (args, api) => ({ sent: args.to, via: this.getMetadata().id, dry: api.bridge.isDryRun }) } }; },
        getMockArgs: (operation) => ({ to: "mock of " + operation }),
        getBridgeErrors: () => ({ "mail:send": [{ code: "SMTP_DOWN", match: /ECONNREFUSED/, solution: "check the server", retryable: true }] }),
        async execute({ to }) {
          this.api.storage.setItem("last", to);
          return { result: await this.api.bridge.execute("mail:send", { to }), all: await this.api.bridge.dryRunAll(), last: this.api.storage.getItem("last"), key: this.api.environment.has("KEY") };
        },
      };`,
      "toolrack.config.mjs": `export default { sandbox: { grants: { mail: { environment: process.env.NOTHING ? { KEY: "" } : {} } } } };`,
    });
    await using _ = workspace;
    expect(await registry.execute("mail", { to: "ann" }, { extra: { dryRun: true } })).toMatchObject({
      structured: {
        result: { sent: "ann", via: "mail", dry: true },
        all: { "mail:send": { success: true, result: { sent: "mock of mail:send" } } },
        last: "ann",
        key: false,
      },
    });
    const { readdir } = await import("node:fs/promises");
    await expect(readdir(`${workspace.directory}/.toolrack/storage/mail`)).rejects.toThrow("ENOENT");
    await workspace.write(
      "toolrack.config.mjs",
      `export default { sandbox: { grants: { mail: { environment: { KEY: "k" } } } } };`,
    );
    const real = await (await workspace.open()).registry.execute("mail", { to: "ann" });
    expect(real.error).toMatchObject({
      code: "business_error",
      details: { code: "SMTP_DOWN", retryable: true },
    });
  });

  it("is given packages that can only be imported by importx, and told so by require", async () => {
    const registry = await startRegistry({
      "toolrack-test-browser": {
        "1.0.0": {
          text: "import { cpus } from 'node:os'; class Browser { async launch() { return 'launched'; } } export const { launch } = { launch: () => new Browser().launch() }; export default new Browser();",
          manifest: { type: "module", exports: { ".": { import: "./index.js" } } },
        },
      },
      "toolrack-test-waiting": {
        "1.0.0": {
          text: "export const waited = await Promise.resolve('waited');",
          manifest: { type: "module", exports: { ".": { import: "./index.js" } } },
        },
      },
    });
    await using workspace = await TemporaryWorkspace.create({
      "tools/page.tool.js": `module.exports = { getMetadata: () => ({ id: "page" }), ${anything}, getDependencies: () => ({ "toolrack-test-browser": "^1.0.0", "toolrack-test-waiting": "^1.0.0" }),
        async execute({ wrong }) {
          if (wrong) return require("toolrack-test-browser");
          const browser = await this.api.importx("toolrack-test-browser");
          const { launch } = await importx("toolrack-test-browser");
          return [await browser.launch(), await launch(), (await loadModule("toolrack-test-waiting")).waited];
        } };`,
    });
    await registry.useFor(workspace.directory);
    const app = await workspace.open();
    await registry.close();
    expect((await app.registry.execute("page", {})).structured).toEqual(["launched", "launched", "waited"]);
    expect((await app.registry.execute("page", { wrong: true })).content).toContain(
      'await importx("toolrack-test-browser")',
    );
  });

  it("is given arguments that its schema does not declare, unless the schema or the tool forbids them", async () => {
    const dates = (id: string, more = "", metadata = "") =>
      `module.exports = { getMetadata: () => ({ id: "${id}", description: "d"${metadata} }),
        getSchema: () => ({ parameters: { type: "object", properties: { input: { type: "string" } }, required: ["input"]${more} } }),
        async execute(params) {
          if (params.startDate > params.endDate) throw new Error("开始日期不能晚于结束日期");
          return Object.keys(params);
        } };`;
    const { workspace, registry } = await open({
      "tools/open.tool.js": dates("open"),
      "tools/closed.tool.js": dates("closed", ", additionalProperties: false"),
      "tools/strict.tool.js": dates("strict", "", ", strict: true"),
    });
    await using _ = workspace;
    const input = { input: "x", startDate: "2026-02-01", endDate: "2026-01-01" };
    expect((await registry.execute("open", input)).content).toContain("开始日期不能晚于结束日期");
    expect((await registry.execute("open", { ...input, endDate: "2026-03-01" })).structured).toEqual([
      "input",
      "startDate",
      "endDate",
    ]);
    for (const name of ["closed", "strict"])
      expect((await registry.execute(name, input)).error, name).toMatchObject({ code: "invalid_arguments" });
  });

  it("is given its dependencies by require and importx, at the top of the file and in it, and no others", async () => {
    const registry = await startRegistry({
      "toolrack-test-left": { "1.0.0": "exports.left = 'left';" },
      "toolrack-test-right": { "1.0.0": "module.exports = () => 'right';" },
    });
    await using workspace = await TemporaryWorkspace.create({
      "tools/deps.tool.js": `const { left } = require("toolrack-test-left");
        module.exports = { getMetadata: () => ({ id: "deps", description: left }), ${anything}, getDependencies: () => ["toolrack-test-left@^1.0.0", "toolrack-test-right"],
          async execute({ other }) { if (other) return require(other); return [left, (await importx("toolrack-test-right"))(), (await this.api.importx("path")).basename("/a/b")]; } };`,
    });
    await workspace.write(
      "tools/imports.tool.ts",
      `import main, { left } from "toolrack-test-left";
        const made = new main.Missing({ a: left.of(1) });
        export default { getMetadata: () => ({ id: "imports", description: typeof made }), ${anything}, getDependencies: () => ({ "toolrack-test-left": "1" }), execute: () => left };`,
    );
    await registry.useFor(workspace.directory);
    const app = await workspace.open();
    await registry.close();
    // The package stood in for while it was not there has no such thing, and that is said of the real one.
    expect(app.report.files[1]?.failure).toMatchObject({
      line: 2,
      reason: expect.stringContaining("left.of is not a function"),
    });
    expect(app.report.files[0]?.failure).toBeUndefined();
    expect(app.registry.get("deps")?.description).toBe("left");
    expect((await app.registry.execute("deps", {})).structured).toEqual(["left", "right", "b"]);
    const undeclared = await app.registry.execute("deps", { other: "toolrack-test-third" });
    expect(undeclared.content).toContain('"toolrack-test-third" is not declared');
    expect(workspace.messages.join("\n")).toContain("installing toolrack-test-left, toolrack-test-right");
    // The next start finds everything where it is, although the registry is gone.
    await app.close();
    const again = await workspace.open();
    expect((await again.registry.execute("deps", {})).structured).toEqual(["left", "right", "b"]);
  });

  it("may change its own environment, which is kept with the secrets", async () => {
    process.env.TOOLRACK_KEYRING = "off";
    const { workspace, registry, close } = await open({
      "tools/own.tool.js": `module.exports = { getMetadata: () => ({ id: "own" }),
        getSchema: () => ({ parameters: { type: "object", properties: { set: {}, name: { default: "LEVEL" } } }, environment: { type: "object", properties: { LEVEL: { type: "integer" } } } }),
        async execute({ set, name }) { const { environment } = this.api; if (set) await environment.set(name, set); return { level: environment.get("LEVEL", 0), type: typeof environment.get("LEVEL") }; } };`,
    });
    await using _ = workspace;
    expect((await registry.execute("own", {})).structured).toEqual({ level: 0, type: "undefined" });
    await registry.execute("own", { set: "7000" });
    expect((await registry.execute("own", {})).structured).toEqual({ level: 7000, type: "number" });
    expect((await registry.execute("own", { set: "x", name: "PATH" })).content).toContain(
      '"PATH" is not in the environment',
    );
    await close();
    const again = await workspace.open();
    expect((await again.registry.execute("own", {})).structured).toEqual({ level: 7000, type: "number" });
    delete process.env.TOOLRACK_KEYRING;
  });

  it("keeps its last good version while a new one is wrong, and calls under way end on the version they began on", async () => {
    const version = (text: string) =>
      tool(
        "v",
        `execute: async ({ wait }) => { if (wait) await new Promise((resolve) => setTimeout(resolve, wait)); return "${text}"; }`,
      );
    const { workspace, registry, files } = await open({ "tools/v.tool.js": version("one") });
    await using _ = workspace;
    const slow = registry.execute("v", { wait: 1_500 });
    await workspace.write("tools/v.tool.js", version("two"));
    expect((await files.load()).changed).toEqual(["v"]);
    expect((await registry.execute("v", {})).content).toBe("two");
    expect((await slow).content).toBe("one");
    await workspace.write("tools/v.tool.js", "module.exports = {");
    expect((await files.load()).files[0]).toMatchObject({ status: "stale", failure: { line: 1 } });
    expect((await registry.execute("v", {})).content).toBe("two");
    await workspace.remove("tools/v.tool.js");
    expect((await files.load()).removed).toEqual(["v"]);
  });

  it("shows the lines of its own source in stack traces", async () => {
    const { workspace, registry } = await open({
      "tools/trace.tool.ts": `interface Unused {\n  a: string;\n}\nexport default {\n  getMetadata: () => ({ id: "trace" }),\n  execute() {\n    throw new Error("here");\n  },\n};`,
    }).catch((error) => {
      throw error;
    });
    await using _ = workspace;
    let stack = "";
    registry.subscribe((event) => {
      if (event.type === "record") stack = event.error?.stack ?? "";
    });
    await registry.execute("trace", {});
    expect(stack).toContain("/tools/trace.tool.ts:7:");
  });

  it("that wants a host which is not granted says so", async () => {
    const source = `module.exports = { getMetadata: () => ({ id: "net", network: ["api.example.com"] }), ${anything}, execute: () => 1 };`;
    const { workspace, report } = await open({ "tools/net.tool.js": source });
    await using _ = workspace;
    expect(report.files[0]).toMatchObject({
      status: "adapted",
      warnings: [expect.stringContaining('{ "net": { hosts: ["api.example.com"] } }')],
    });
    await workspace.write(
      "toolrack.config.mjs",
      `export default { sandbox: { grants: { net: { hosts: ["*.example.com"] } } } };`,
    );
    const granted = await workspace.open();
    expect(granted.report.files[0]?.status).toBe("loaded");
    expect(granted.registry.get("net")?.metadata.singleFile).toMatchObject({ hosts: ["api.example.com"] });
  });
});
