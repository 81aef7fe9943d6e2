import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { DependencyStore, dependencyKey, parseDependencies } from "./dependencies.ts";
import { checkLinks, checkLock } from "./pnpm.ts";

import { startRegistry, type TestRegistry } from "./testing/test-registry.ts";

let registry: TestRegistry;
let directory = "";
/** A folder of the machine that is nobody's business, with a package in it. */
let outside = "";
const said: string[] = [];
const say = (...values: unknown[]) => void said.push(values.join(" "));
const logger = { debug: say, info: say, warn: say, error: say };

beforeAll(async () => {
  outside = await mkdtemp(join(tmpdir(), "toolrack-outside-"));
  await writeFile(join(outside, "package.json"), '{"name":"inner","version":"1.0.0"}');
  await writeFile(join(outside, "secret.txt"), "of-the-machine");
  const brings = (inner: string) => ({ "1.0.0": { text: "", dependencies: { inner } } });
  registry = await startRegistry({
    "toolrack-test-file": brings(`file:${outside}`),
    "toolrack-test-link": brings(`link:${outside}`),
    "toolrack-test-above": brings("file:../../.."),
    "toolrack-test-git": brings("git+file:///nowhere/repository.git"),
    "toolrack-test-deep": { "1.0.0": { text: "", dependencies: { "toolrack-test-file": "1.0.0" } } },
    "toolrack-test-fine": {
      "1.0.0": {
        text: "module.exports = require('renamed');",
        dependencies: { renamed: "npm:toolrack-test-left@1.0.0" },
      },
    },
    "toolrack-test-left": {
      "1.0.0": "module.exports = 'left 1.0';",
      "1.2.0": "module.exports = 'left 1.2';",
    },
    "toolrack-test-script": { "1.0.0": "module.exports = 'script';" },
  });
});
afterAll(async () => {
  await registry.close();
  await rm(outside, { recursive: true, force: true });
});
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
    [{ toString: "1" }, '"toString" cannot be installed'],
    [["constructor@1"], '"constructor" cannot be installed'],
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

  it.each(["toolrack-test-left", "@toolrack-test/scoped"])(
    "says that it may go well later when the registry is away, and names %s",
    async (packageName) => {
      const deps = await store();
      await writeFile(join(directory, ".npmrc"), "registry=http://127.0.0.1:1/\n");
      await expect(deps.install({ [packageName]: "1" }, "t")).rejects.toMatchObject({
        isTemporary: true,
        packageName,
      });
    },
  );

  it.each(["/toolrack-test-left", "/toolrack-test-left/-/toolrack-test-left-1.0.0.tgz"])(
    "names the package when the registry fails for %s",
    async (path) => {
      const deps = await store();
      registry.broken.add(path);
      try {
        await expect(deps.install({ "toolrack-test-left": "1.0.0" }, "t")).rejects.toMatchObject({
          packageName: "toolrack-test-left",
          message: expect.stringContaining('The package "toolrack-test-left" could not be installed'),
        });
      } finally {
        registry.broken.clear();
      }
    },
  );

  it.each([
    ["toolrack-test-file", "toolrack-test-file"],
    ["toolrack-test-link", "toolrack-test-link"],
    ["toolrack-test-above", "toolrack-test-above"],
    ["toolrack-test-deep", "toolrack-test-file"],
  ])(
    "brings nothing of the machine for %s, and names the package that asked for it",
    async (wanted, named) => {
      const deps = await store();
      await expect(deps.install({ [wanted]: "1.0.0" }, "t")).rejects.toMatchObject({
        name: "DependencyError",
        packageName: named,
        message: expect.stringContaining("does not come from a registry"),
      });
      const kept = await readdir(join(directory, "deps"), { recursive: true });
      expect(kept.filter((path) => /secret\.txt|inner/.test(path))).toEqual([]);
      // A lock that somebody else wrote is no way around it.
      const lock = join(
        directory,
        "deps",
        "locks",
        `${dependencyKey({ "toolrack-test-left": "1.0.0" })}.yaml`,
      );
      await writeFile(
        lock,
        `lockfileVersion: '9.0'\npackages:\n  toolrack-test-left@1.0.0:\n    resolution: {directory: ${outside}, type: directory}\n`,
      );
      await expect(deps.install({ "toolrack-test-left": "1.0.0" }, "t")).rejects.toThrow(
        "does not come from a registry",
      );
    },
  );

  it("does not run a repository's address", async () => {
    const deps = await store();
    await expect(deps.install({ "toolrack-test-git": "1.0.0" }, "t")).rejects.toMatchObject({
      name: "DependencyError",
    });
  });

  it("says nothing about the workspace in the folder that tools can read", async () => {
    const deps = await store();
    const folder = await deps.install({ "toolrack-test-fine": "1.0.0" }, "t");
    expect(createRequire(join(folder, "x.js"))("toolrack-test-fine")).toBe("left 1.0");
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      expect(await readFile(path, "utf8"), path).not.toContain(directory);
    }
  });

  it("repairs what a killed install left, and lets two processes install the same", async () => {
    const deps = await store();
    const wanted = { "toolrack-test-left": "1.0.0" };
    // A process that dies in the middle, and one that is as fast as this one.
    const program = `
      const { DependencyStore } = await import(${JSON.stringify(new URL("./dependencies.ts", import.meta.url).href)});
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
    await mkdir(join(directory, "deps", "installing-now"));
    const yesterday = new Date(Date.now() - 86_400_000);
    await utimes(old, yesterday, yesterday);
    await utimes(leftover, yesterday, yesterday);
    expect(await deps.prune(3_600_000)).toBe(2);
    const left = await readdir(join(directory, "deps"));
    expect(left).toEqual(expect.arrayContaining([used.split("/").at(-1), "installing-now"]));
  });
});

describe("what was found and installed", () => {
  it.each([
    ["a repository", "resolution: {commit: abc, repo: 'https://example.com/x.git', type: git}"],
    ["an archive of the machine", "resolution: {integrity: sha512-x, tarball: 'file:../x.tgz'}"],
    ["an archive that nobody vouches for", "resolution: {tarball: 'https://example.com/x.tgz'}"],
    ["a runtime", "resolution: {integrity: sha512-x, type: variations}"],
  ])("is refused when it is %s", async (_what, resolution) => {
    await expect(checkLock(`packages:\n  '@s/x@1.0.0':\n    ${resolution}\n`)).rejects.toThrow(
      '"@s/x" was not installed',
    );
  });

  it("is refused when a link in it leads out, be it to nothing", async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-deps-"));
    const folder = join(directory, "set");
    await mkdir(join(folder, "a/b"), { recursive: true });
    await symlink("../b", join(folder, "a/b/inside"));
    await expect(checkLinks(folder)).resolves.toBeUndefined();
    await symlink(join(directory, "not-yet"), join(folder, "a/b/out"));
    await expect(checkLinks(folder)).rejects.toThrow("a/b/out is a link to a place outside");
  });
});
