import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { startRegistry } from "../testing/test-registry.ts";

const anything = `getSchema: () => ({ type: "object", properties: {}, additionalProperties: true })`;

describe("the server and unreviewed code", { timeout: 120_000 }, () => {
  it("no line of a file is evaluated by the server, neither for its metadata nor for a call", async () => {
    const outside = await mkdtemp(join(tmpdir(), "toolrack-mark-"));
    const mark = (name: string) =>
      `try { require("node:fs").writeFileSync("${outside}/${name}", "x"); } catch {} globalThis.touched = "${name}";`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/touch.tool.js": `${mark("top")} module.exports = { getMetadata() { ${mark("metadata")} return { id: "touch" }; }, ${anything}, init() { ${mark("init")} }, execute() { ${mark("execute")} return { pid: process.pid, touched: globalThis.touched }; } };`,
    });
    const { registry } = await workspace.open({ builtins: false });
    const { structured } = await registry.execute("touch", {});
    expect(structured).toMatchObject({ touched: "execute" });
    expect((structured as { pid: number }).pid).not.toBe(process.pid);
    expect(await readdir(outside)).toEqual([]);
    expect("touched" in globalThis).toBe(false);
    await rm(outside, { recursive: true });
  });

  it("what a tool says about itself is remembered, so that a start needs no worker", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/a.tool.js": `module.exports = { getMetadata: () => ({ id: "a", description: String(Math.random()) }), ${anything}, execute: () => 1 };`,
    });
    const first = await workspace.open({ builtins: false });
    const description = first.registry.get("a")?.description;
    await first.close();
    const again = await workspace.open({ builtins: false });
    expect(again.registry.get("a")?.description).toBe(description);
  });

  it("a tool reaches a host that was granted, and none else", async () => {
    let asked = 0;
    const server = createServer((_, response) => {
      asked++;
      response.end("from the host");
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    const source = (id: string) =>
      `module.exports = { getMetadata: () => ({ id: "${id}" }), ${anything}, execute: async ({ url }) => (await fetch(url)).text() };`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/granted.tool.js": source("granted"),
      "tools/bare.tool.js": source("bare"),
      "toolrack.config.mjs": `export default { sandbox: { grants: { granted: { hosts: ["127.0.0.1:${port}"] } } } };`,
    });
    const { registry, sandbox } = await workspace.open({ builtins: false });
    const url = `http://127.0.0.1:${port}/`;
    expect((await registry.execute("bare", { url })).type).toBe("error");
    expect(asked).toBe(0);
    if ((await sandbox()).level === 3) {
      expect((await registry.execute("granted", { url })).content).toBe("from the host");
      const dry = await registry.execute("granted", { url }, { extra: { dryRun: true } });
      expect(dry.type).toBe("error");
      expect(asked).toBe(1);
    }
    server.close();
  });

  it("api.execute runs a program in a sandbox of its own", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "secret.txt": "of the workspace",
      "tools/run.tool.js": `module.exports = { getMetadata: () => ({ id: "run" }), ${anything}, execute({ command, args, options }) { return this.api.execute(command, args, options).then((value) => ({ ...value })); } };`,
    });
    const { registry } = await workspace.open({ builtins: false });
    const run = async (input: object) =>
      (await registry.execute("run", input as never)) as { structured?: unknown; type: string };
    const said = await run({ command: "node", args: ["-e", "console.log(6 * 7)"] });
    expect(said.structured).toMatchObject({ success: true, exitCode: 0, stdout: "42\n" });
    const peek = await run({
      command: "node",
      args: ["-e", `console.log(require("fs").readFileSync("${workspace.directory}/secret.txt", "utf8"))`],
    });
    expect(JSON.stringify(peek)).not.toContain("of the workspace");
  });

  it("a file that a link brings in from elsewhere is refused where the sandbox is weaker, and allowed when the operator says so", async () => {
    const elsewhere = await TemporaryWorkspace.create({
      "x.tool.js": `module.exports = { getMetadata: () => ({ id: "x" }), ${anything}, execute: () => "ran" };`,
    });
    await using _ = elsewhere;
    await using workspace = await TemporaryWorkspace.create({ "tools/readme.txt": "" });
    const { symlink } = await import("node:fs/promises");
    await symlink(join(elsewhere.directory, "x.tool.js"), join(workspace.directory, "tools/x.tool.js"));
    const { registry, sandbox, report } = await workspace.open({ builtins: false });
    if ((await sandbox()).level === 3) expect((await registry.execute("x", {})).content).toBe("ran");
    else expect(report.files[0]?.failure?.reason).toContain("came from elsewhere");
  });

  it.each(["file", "link"])(
    "a package that wants a folder of the machine as a %s: dependency brings nothing of it",
    async (kind) => {
      const outside = await mkdtemp(join(tmpdir(), "toolrack-outside-"));
      await writeFile(join(outside, "package.json"), '{"name":"inner","version":"1.0.0"}');
      await writeFile(join(outside, "index.js"), 'module.exports = "of-the-machine";');
      const packages = await startRegistry({
        "toolrack-test-carrier": {
          "1.0.0": {
            text: "module.exports = require('inner');",
            dependencies: { inner: `${kind}:${outside}` },
          },
        },
      });
      await using workspace = await TemporaryWorkspace.create({
        "tools/x.tool.js": `module.exports = { getMetadata: () => ({ id: "x" }), ${anything}, getDependencies: () => ({ "toolrack-test-carrier": "1.0.0" }), execute: () => require("toolrack-test-carrier") };`,
      });
      await packages.useFor(workspace.directory);
      const { registry, report } = await workspace.open({ builtins: false });
      expect(report.files[0]?.failure?.reason).toContain(
        'The package "toolrack-test-carrier" was not installed: inner@',
      );
      expect(registry.get("x")).toBeUndefined();
      await packages.close();
      await rm(outside, { recursive: true });
    },
  );

  it("nothing of a workspace without such tools opens a sandbox", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/plain.ts": `export const schema = { name: "plain", description: "", type: "object", properties: {} }; export default async () => "x";`,
    });
    const { registry } = await workspace.open({ builtins: false });
    await registry.execute("plain", {});
    expect(existsSync(join(workspace.directory, ".toolrack", "sandbox"))).toBe(false);
  });
});
