import { join } from "node:path";
import { ToolRegistry } from "@toolrack/core";
import { describe, expect, it } from "vitest";
import { FileVersion } from "../../files/load-report.ts";
import { Compiler } from "../../files/loader/compile.ts";
import { SingleFileTools } from "../../files/single-file.ts";
import { StackMapper } from "../../helpers/stack-mapper.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { DependencyStore } from "../dependencies.ts";
import { openSandbox } from "../sandbox.ts";
import { ToolLogs } from "./tool-storage.ts";

const source = `module.exports = {
  getMetadata: () => ({ id: "t", network: ["localhost"] }),
  getSchema: () => ({ type: "object", properties: { file: { type: "string" } }, required: ["file"] }),
  getBusinessErrors: () => [{ code: "DENIED", match: /restricted|EACCES|ENOENT/ }],
  async init() { this.ready = true; },
  async execute({ file }) {
    if (file !== "") return fs.readFileSync(file, "utf8");
    this.api.storage.setItem("n", (this.api.storage.getItem("n") ?? 0) + 1);
    return { ready: this.ready, n: this.api.storage.getItem("n"), net: await fetch("http://127.0.0.1:1/").then(() => "reached", () => "none") };
  },
};`;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

describe("where only the reduced sandbox can be had", { timeout: 120_000 }, () => {
  it("the workspace's own tools run with the whole contract, without files and network", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/t.tool.js": source,
      "secret.txt": "secret",
    });
    const { directory } = workspace;
    const sandbox = await openSandbox({
      directory: join(directory, ".toolrack/sandbox"),
      level: 2,
      logger: quiet,
    });
    expect(sandbox.level).toBe(2);
    const stacks = new StackMapper();
    const tools = new SingleFileTools({
      workspace: directory,
      compiler: new Compiler(),
      stacks,
      sandbox: async () => sandbox,
      dependencies: new DependencyStore({ directory: join(directory, ".toolrack/deps"), logger: quiet }),
      variables: { get: async () => undefined, set: async () => {}, refresh: async () => {} },
      logs: new ToolLogs({ folder: join(directory, "log/tools"), secrets: () => [] }),
      config: {},
      powers: async () => () => undefined,
      logger: quiet,
      isCached: false,
    });
    const path = join(directory, "tools/t.tool.js");
    const place = { folders: [], stem: "t.tool", origin: "tools/t.tool.js" };
    const { recognised, retire } = await tools.load(path, place, new FileVersion(path, stacks));
    const registry = new ToolRegistry({});
    for (const info of recognised.tools) registry.register(info);
    for (const n of [1, 2]) {
      expect((await registry.execute("t", { file: "" })).structured).toEqual({ ready: true, n, net: "none" });
    }
    const peek = await registry.execute("t", { file: join(directory, "secret.txt") });
    expect(peek.error).toMatchObject({ code: "business_error", details: { code: "DENIED" } });
    await retire();
    await sandbox.close();
    tools.close();
  });
});
