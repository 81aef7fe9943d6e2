import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { cpuSecondsOf } from "./confinement/process-tree.ts";
import { SandboxHarness, toolOf } from "./sandbox-harness.fixture.ts";
import { levelsToTest } from "./test-levels.fixture.ts";

/** A server that starts a tool which never ends, says so, and waits for its own end. */
const server = (level: number, marker: string) => `
  const { openSandbox } = await import(${JSON.stringify(new URL("./sandbox.ts", import.meta.url).href)});
  const ignore = () => {};
  const sandbox = await openSandbox({ directory: process.argv[1], level: ${level}, logger: { debug: ignore, info: ignore, warn: ignore, error: ignore } });
  const spec = { key: "k", label: "loop", filename: "loop.js", hosts: [], settings: null, foreign: false,
    code: "module.exports = { methods: { loop(_, call) { process.title = '${marker}'; call.notify('looping'); setTimeout(() => { for (;;); }, 50); return new Promise(() => {}) } } }" };
  await sandbox.invoke(spec, { method: "loop", params: null, signal: new AbortController().signal, onNotify: () => console.log("looping") });
`;

describe.each(levelsToTest)("at level %i", { timeout: 60_000 }, (level) => {
  it("nothing survives a server that is killed, not even a tool in an endless loop", async () => {
    const directory = mkdtempSync(join(tmpdir(), "toolrack-sandbox-"));
    const marker = `loop${Math.floor(Math.random() * 1e6)}`;
    const child = spawn(
      process.execPath,
      ["--conditions=toolrack-source", "--input-type=module", "-e", server(level, marker), directory],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    await once(child.stdout, "data");
    await vi.waitFor(() => expect(processesTitled(marker)).toHaveLength(1), 10_000);
    // Before its loop it would notice by itself that the server is gone.
    await vi.waitFor(() => {
      expect(cpuSecondsOf(processesTitled(marker).map(Number))).toBeGreaterThan(1);
    }, 20_000);
    child.kill("SIGKILL");
    await once(child, "exit");
    await vi.waitFor(() => expect(processesTitled(marker)).toEqual([]), 10_000);
    rmSync(directory, { recursive: true, force: true });
  });

  it("dependencies are found by require and import, from a directory that is closed to others only with level 3", async () => {
    await using harness = await SandboxHarness.open({ level });
    const closed = mkdtempSync(join(tmpdir(), "toolrack-closed-"));
    const dependencies = join(closed, "deps/hash");
    const folder = (name: string) => join(dependencies, "node_modules", name);
    for (const name of ["old", "new"]) mkdirSync(folder(name), { recursive: true });
    writeFileSync(join(folder("old"), "index.js"), `exports.name = "old";`);
    writeFileSync(join(folder("new"), "package.json"), `{ "type": "module", "exports": "./main.js" }`);
    writeFileSync(join(folder("new"), "main.js"), `export const name = "new";`);
    const tool = () =>
      toolOf(
        { load: `async () => [require("old").name, (await import("new")).name, require("new").name]` },
        { dependencies },
      );
    chmodSync(closed, 0o755);
    expect(await harness.call(tool(), "load")).toEqual(["old", "new", "new"]);
    chmodSync(closed, 0o700);
    const behindClosedDoor = harness.call(tool(), "load");
    if (level === 3 || process.getuid?.() !== 0)
      expect(await behindClosedDoor).toEqual(["old", "new", "new"]);
    else await expect(behindClosedDoor).rejects.toThrow(/cannot be read by other users.*Install bubblewrap/);
    rmSync(closed, { recursive: true, force: true });
  });
});

it("refuses everything when the level that is required cannot be had", { timeout: 30_000 }, async () => {
  await using harness = await SandboxHarness.open({ level: 2, require: 3 });
  expect(harness.sandbox.level).toBe(0);
  expect(harness.sandbox.reason).toContain("sandbox.require");
  await expect(harness.call(toolOf({ run: "() => 1" }), "run")).rejects.toMatchObject({
    code: "sandbox_refused",
  });
});

it.runIf(process.getuid?.() === 0)(
  "says at level 2 that tools have the user of a server that is not root, and what they could do with it",
  { timeout: 60_000 },
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "toolrack-sandbox-"));
    chmodSync(directory, 0o777);
    const source = `
      const { openSandbox } = await import(${JSON.stringify(new URL("./sandbox.ts", import.meta.url).href)});
      const ignore = () => {};
      const sandbox = await openSandbox({ directory: process.argv[1], level: 2, logger: { debug: ignore, info: ignore, warn: ignore, error: ignore } });
      console.log(JSON.stringify([sandbox.level, sandbox.reason]));
      await sandbox.close();`;
    const reason = async (user: object) => {
      const child = spawn(
        process.execPath,
        ["--conditions=toolrack-source", "--input-type=module", "-e", source, directory],
        { stdio: ["ignore", "pipe", "inherit"], ...user },
      );
      return JSON.parse(String(await child.stdout.toArray())) as [number, string];
    };
    expect(await reason({ uid: 65_534, gid: 65_534 })).toEqual([
      2,
      expect.stringContaining("by signals it can stop the server"),
    ]);
    expect(await reason({})).toEqual([2, expect.not.stringContaining("by signals it can stop the server")]);
    rmSync(directory, { recursive: true, force: true });
  },
);

function processesTitled(title: string): string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/comm`, "utf8").trim() === title;
    } catch {
      return false;
    }
  });
}
