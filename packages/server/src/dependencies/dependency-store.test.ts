import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { parseDependencies } from "./dependency-map.ts";
import { DependencyStore } from "./dependency-store.ts";
import { startRegistry, type TestRegistry } from "./testing/test-registry.ts";

let registry: TestRegistry;
let directory = "";
const said: string[] = [];
const say = (...values: unknown[]) => void said.push(values.join(" "));
const logger = { debug: say, info: say, warn: say, error: say };

beforeAll(async () => {
  registry = await startRegistry({
    "toolrack-test-left": {
      "1.0.0": "module.exports = 'left 1.0';",
      "1.2.0": "module.exports = 'left 1.2';",
    },
    "toolrack-test-script": { "1.0.0": "module.exports = 'script';" },
  });
});
afterAll(() => registry.close());
afterEach(async () => {
  if (directory !== "") {
    // A pnpm whose parent was killed may still be writing.
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
  }
});

async function store(): Promise<DependencyStore> {
  directory = await mkdtemp(join(tmpdir(), "toolrack-deps-"));
  await registry.useFor(directory);
  return new DependencyStore({
    directory: join(directory, "deps"),
    npmrc: join(directory, ".npmrc"),
    logger,
  });
}

describe("what a tool declares", () => {
  it("may be an object or a list, and comes out sorted", () => {
    expect(parseDependencies({ b: "1", a: "^2.0.0" })).toEqual({ a: "^2.0.0", b: "1" });
    expect(parseDependencies(["b@1", "@s/a@^2.0.0", "c"])).toEqual({ "@s/a": "^2.0.0", b: "1", c: "*" });
    expect(parseDependencies(undefined)).toEqual({});
  });

  it.each([
    ["text", "a text"],
    [{ "../x": "1" }, "is not the name of a package"],
    [{ lodash: "file:/etc" }, "no version, range or tag"],
    [{ lodash: "git+https://example.com/x.git" }, "no version, range or tag"],
    [{ lodash: 4 }, 'The version of "lodash" is 4'],
    [[7], "holds 7"],
  ])("%j is refused", (declared, problem) => {
    expect(() => parseDependencies(declared)).toThrow(problem);
  });
});

describe("installing", { timeout: 120_000 }, () => {
  it("brings the packages once, without running their scripts, and needs no network afterwards", async () => {
    const deps = await store();
    const wanted = { "toolrack-test-left": "^1.0.0", "toolrack-test-script": "1.0.0" };
    const [folder, again] = await Promise.all([deps.install(wanted, "t"), deps.install(wanted, "t")]);
    expect(again).toBe(folder);
    const require = createRequire(join(folder, "x.js"));
    expect(require("toolrack-test-left")).toBe("left 1.2");
    expect(await readdir(join(folder, "node_modules/toolrack-test-script"))).not.toContain("ran");
    expect(said.join("\n")).toMatch(
      /\[t\] installing toolrack-test-left, toolrack-test-script[\s\S]*installed/,
    );

    // Deleted and asked for again, it comes out of the store as it was.
    const asked = registry.requests.length;
    await rm(folder, { recursive: true });
    expect(await deps.install(wanted, "t")).toBe(folder);
    expect(registry.requests.length).toBe(asked);
    // Another set of packages that are known needs none either.
    await deps.install({ "toolrack-test-left": "^1.1.0" }, "t");
    expect(registry.requests.length).toBe(asked);
    expect((await readdir(join(directory, "deps"))).filter((name) => name.startsWith("installing-"))).toEqual(
      [],
    );
  });

  it("names the package that does not exist, and the version that does not", async () => {
    const deps = await store();
    await expect(deps.install({ "toolrack-test-nowhere": "1" }, "t")).rejects.toMatchObject({
      name: "DependencyError",
      packageName: "toolrack-test-nowhere",
      isTemporary: false,
      remedy: expect.stringContaining("Check its name"),
    });
    await expect(deps.install({ "toolrack-test-left": "^9.0.0" }, "t")).rejects.toMatchObject({
      packageName: "toolrack-test-left",
      remedy: expect.stringContaining("version"),
    });
  });

  it("says that it may go well later when the registry is away", async () => {
    const deps = await store();
    await writeFile(join(directory, ".npmrc"), "registry=http://127.0.0.1:1/\n");
    await expect(deps.install({ "toolrack-test-left": "1" }, "t")).rejects.toMatchObject({
      isTemporary: true,
    });
  });

  it("repairs what a killed install left, and lets two processes install the same", async () => {
    const deps = await store();
    const wanted = { "toolrack-test-left": "1.0.0" };
    // A process that dies in the middle, and one that is as fast as this one.
    const program = `
      const { DependencyStore } = await import(${JSON.stringify(new URL("./dependency-store.ts", import.meta.url).href)});
      const quiet = { debug() {}, info() {}, warn() {}, error() {} };
      const store = new DependencyStore({ directory: process.argv[1], npmrc: process.argv[2], logger: quiet });
      const installing = store.install(${JSON.stringify(wanted)}, "t");
      if (process.argv[3] === "die") {
        const { readdirSync } = await import("node:fs");
        const isUnderWay = () => {
          try {
            return readdirSync(process.argv[1], { recursive: true }).some((path) => path.endsWith("pnpm-workspace.yaml"));
          } catch {
            return false;
          }
        };
        setInterval(() => isUnderWay() && process.kill(process.pid, "SIGKILL"), 1);
      }
      await installing;`;
    const run = (how: string) =>
      new Promise<number | null>((resolve) => {
        const args = [
          "--input-type=module",
          "-e",
          program,
          join(directory, "deps"),
          join(directory, ".npmrc"),
          how,
        ];
        spawn(process.execPath, ["--conditions=toolrack-source", ...args], { stdio: "inherit" }).once(
          "exit",
          resolve,
        );
      });
    await run("die");
    const [folder, code] = await Promise.all([deps.install(wanted, "t"), run("live")]);
    expect(code).toBe(0);
    expect(createRequire(join(folder, "x.js"))("toolrack-test-left")).toBe("left 1.0");
  });

  it("deletes what nobody used for long, and keeps the rest", async () => {
    const deps = await store();
    const old = await deps.install({ "toolrack-test-left": "1.0.0" }, "t");
    const used = await deps.install({ "toolrack-test-left": "1.2.0" }, "t");
    const leftover = join(directory, "deps", "installing-x");
    await mkdir(leftover);
    const yesterday = new Date(Date.now() - 86_400_000);
    await utimes(old, yesterday, yesterday);
    await utimes(leftover, yesterday, yesterday);
    expect(await deps.prune(3_600_000)).toBe(2);
    expect(await readdir(join(directory, "deps"))).toContain(used.split("/").at(-1));
  });
});
