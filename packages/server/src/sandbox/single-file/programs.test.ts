import { chmod, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

const anything = `getSchema: () => ({ type: "object", properties: {}, additionalProperties: true })`;

const runner = `module.exports = { getMetadata: () => ({ id: "run", concurrency: 4 }), ${anything},
  async execute({ runs }) {
    this.api.storage.setItem("n", 1);
    return Promise.all(runs.map(({ args, options }) => this.api.execute("node", args, options)));
  } };`;

describe("programs that a tool starts", { timeout: 120_000 }, () => {
  afterEach(() => vi.unstubAllEnvs());

  it("run a few at once, and the others in their turn", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/run.tool.js": runner });
    const { registry } = await workspace.open({ builtins: false });
    const timed = `setTimeout(() => console.log(performance.timeOrigin + " " + Date.now()), 500)`;
    const runs = Array.from({ length: 6 }, () => ({ args: ["-e", timed], options: { timeout: 1e12 } }));
    const { structured } = await registry.execute("run", { runs });
    const times = (structured as { stdout: string }[]).map(({ stdout }) => stdout.split(" ").map(Number));
    const atOnce = times.map(
      ([began = 0]) => times.filter(([a = 0, b = 0]) => a <= began && began < b).length,
    );
    expect(Math.max(...atOnce)).toBeLessThanOrEqual(4);
    expect(times).toHaveLength(6);
  });

  it("hold to the limits that the operator set", async () => {
    const flood = `setInterval(() => process.stdout.write("x".repeat(20000)), 20)`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/flood.tool.js": `module.exports = { getMetadata: () => ({ id: "flood" }), ${anything}, execute() { return this.api.execute("node", ["-e", ${JSON.stringify(flood)}], { timeout: 20000 }).then(({ stdout }) => stdout.length); } };`,
      "toolrack.config.mjs": `export default { sandbox: { limits: { outputBytes: 200_000 } } };`,
    });
    const { registry } = await workspace.open({ builtins: false });
    expect((await registry.execute("flood", {})).content).toBe("200000");
  });

  it("keep their permissions at level 2, where a closed folder of the server is opened for them", async () => {
    await using workspace = await TemporaryWorkspace.create({
      "tools/run.tool.js": runner,
      "secret.txt": "of the workspace",
    });
    await chmod(workspace.directory, 0o755);
    await mkdir(join(workspace.directory, ".toolrack"), { mode: 0o700 });
    // No bubblewrap is found there.
    vi.stubEnv("PATH", dirname(process.execPath));
    const { registry, sandbox } = await workspace.open({ builtins: false });
    expect((await sandbox()).level).toBe(2);
    const peek = `try { console.log(require("fs").readFileSync(${JSON.stringify(join(workspace.directory, "secret.txt"))}, "utf8")) } catch (error) { console.log(error.code) }`;
    const said = await registry.execute("run", {
      runs: [
        { args: ["-e", peek] },
        { args: ["-e", peek, "--allow-fs-read=*"] },
        { args: ["-e", peek], options: { env: { NODE_OPTIONS: "--allow-fs-read=*" } } },
      ],
    });
    expect((said.structured as { stdout: string }[]).map(({ stdout }) => stdout)).toEqual(
      Array(3).fill("ERR_ACCESS_DENIED\n"),
    );
    const refused = await registry.execute("run", { runs: [{ args: ["--allow-fs-read=*", "-e", peek] }] });
    expect(refused.content).toContain("--allow-fs-read");
    expect(refused.type).toBe("error");
  });
});

it("a tool that calls itself is served, however many workers its own calls hold", {
  timeout: 120_000,
}, async () => {
  await using workspace = await TemporaryWorkspace.create({
    "tools/deep.tool.js": `module.exports = { getMetadata: () => ({ id: "deep" }), ${anything}, async execute({ left }) { return left === 0 ? 0 : 1 + (await this.api.callTool("deep", { left: left - 1 })); } };`,
  });
  const { registry } = await workspace.open({ builtins: false });
  const deep = async (left: number) => (await registry.execute("deep", { left })).content;
  expect(await deep(7)).toBe("7");
  expect(await Promise.all([1, 1, 1, 1, 2].map(deep))).toEqual(["1", "1", "1", "1", "2"]);
});
