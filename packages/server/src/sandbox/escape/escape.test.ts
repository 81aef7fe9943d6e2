import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import inspector from "node:inspector";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defaultLimits } from "../../config/config.ts";
import { DataFolders } from "../data-folder.ts";
import { openSandbox } from "../sandbox.ts";
import { type OpenedFolders, type Sandbox, SandboxError, type WorkerSpec } from "../sandbox-types.ts";

import { levelsToTest, quietLogger } from "../test-levels.fixture.ts";

import { Worker } from "../worker.ts";
import { workerBootstrap } from "../worker-bootstrap.ts";
import { attempts, attemptsCode, signsOfEscape } from "./escape-suite.fixture.ts";
import { programAttempts } from "./network-attempts.fixture.ts";
import { Trap } from "./trap.fixture.ts";

const perl = "/usr/bin/perl";

let trap: Trap;
let dependencies: string;
beforeAll(async () => {
  trap = await Trap.set();
  dependencies = makeDependencies();
});
afterAll(() => {
  trap.close();
  rmSync(dependencies, { recursive: true, force: true });
});

const spec = (): WorkerSpec => ({
  key: "escape",
  label: "escape",
  code: attemptsCode,
  filename: "escape.cjs",
  dependencies,
  hosts: [],
  settings: null,
  foreign: false,
});

it("tries at least 45 ways out", () => {
  expect(new Set(attempts.map(({ name }) => name)).size).toBe(attempts.length);
  expect(attempts.length).toBeGreaterThanOrEqual(45);
});

describe("without a sandbox, the trap notices", { timeout: 30_000 }, () => {
  it.each(attempts.filter(({ worksOutside }) => worksOutside))("$name", async ({ name }) => {
    const child = spawn(process.execPath, ["-e", workerBootstrap({})], {
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      env: { ...process.env, TMPDIR: tmpdir() },
      detached: true,
    });
    const launched = { child, codeDirectory: dependencies, release() {} };
    const worker = new Worker(launched);
    await worker.load(spec(), defaultLimits, "");
    const signs = await signsOfEscape(trap, () =>
      worker.invoke({ method: name, params: trap.places, signal: AbortSignal.timeout(10_000) }),
    );
    worker.kill();
    await worker.ended;
    expect(signs).not.toEqual([]);
    rmSync(join(dependencies, "written-beside"), { force: true });
  });
});

describe.each(levelsToTest)("at level %i", { timeout: 30_000 }, (level) => {
  const isOwnUser = level === 3 || process.getuid?.() === 0;
  let sandbox: Sandbox;
  let scratch: string;
  /** A folder of its own and an opened one give a tool no more ways out. */
  let opened: OpenedFolders;
  beforeAll(async () => {
    scratch = mkdtempSync(join(realpathSync(tmpdir()), "toolrack-sandbox-"));
    const path = join(scratch, "reports");
    for (const folder of [scratch, path]) {
      mkdirSync(folder, { recursive: true });
      chmodSync(folder, 0o777);
    }
    const data = new DataFolders(join(scratch, ".toolrack/data")).open("escape");
    opened = { data, folders: [{ path, place: "reports", isWritable: true }] };
    sandbox = await openSandbox({ directory: scratch, logger: quietLogger, level });
    expect(sandbox.level).toBe(level);
  });
  afterAll(async () => {
    await sandbox.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  it.each(attempts.filter(({ needsOwnUser }) => isOwnUser || !needsOwnUser))(
    "nobody can $name",
    async ({ name }) => {
      const signs = await signsOfEscape(trap, (said) =>
        sandbox.invoke(
          { ...spec(), ...opened },
          {
            method: name,
            params: trap.places,
            signal: AbortSignal.timeout(10_000),
            onNotify: (...values) => said(values),
            onRequest: async (...values) => said(values),
          },
        ),
      );
      expect(signs).toEqual([]);
      expect(inspector.url()).toBeUndefined();
      expect(readdirSync(dependencies)).toEqual(["node_modules"]);
    },
  );

  it.runIf(level === 3 && existsSync(perl)).each(programAttempts)(
    "no program can $name",
    async ({ code }) => {
      const run = (text: string) =>
        sandbox.run(
          {
            label: "escape",
            command: "perl",
            args: ["-e", text],
            directory: dependencies,
            environment: {},
            hosts: [],
            foreign: false,
          },
          "",
          AbortSignal.timeout(20_000),
        );
      const outside = spawnSync(perl, ["-e", code], { encoding: "utf8" });
      // Where this kernel has no such thing, or keeps it to itself, nothing is shown by not getting it.
      if (outside.stdout !== "ESCAPED") console.warn(`No way out here, even outside: ${outside.stderr}`);
      const inside = await run(code);
      expect(inside.stdout).toBe("");
      expect(inside.stderr).toMatch(/not permitted|not supported|not implemented/);
      expect((await run(`socket(my $socket, 2, 1, 0) or die "$!"; print "made"`)).stdout).toBe("made");
    },
  );

  it("what is allowed still works after all that", async () => {
    const answer = await sandbox.invoke(
      {
        ...spec(),
        key: "works",
        code: `const fs = require("fs"); module.exports = { methods: { work() {
          fs.writeFileSync(process.env.TMPDIR + "/own", "own");
          return [fs.readFileSync(process.env.TMPDIR + "/own", "utf8"), require("harmless"), process.getuid() !== 0];
        } } };`,
      },
      { method: "work", params: null, signal: AbortSignal.timeout(10_000) },
    );
    expect(answer).toEqual(["own", "harmless", true]);
  });

  it("a tool cannot find the scratch directory of another", async () => {
    const at = (key: string, code: string): WorkerSpec => ({
      ...spec(),
      key,
      code: `module.exports = { methods: { run(given) { ${code} } } };`,
    });
    const run = (tool: WorkerSpec, params: unknown) =>
      sandbox.invoke(tool, { method: "run", params, signal: AbortSignal.timeout(10_000) });
    const directory = await run(
      at(
        "first",
        `require("fs").writeFileSync(process.env.TMPDIR + "/mine", given); return process.env.TMPDIR`,
      ),
      trap.secret,
    );
    const signs = await signsOfEscape(trap, () =>
      run(at("second", `return require("fs").readFileSync(given + "/mine", "utf8")`), directory),
    );
    expect(signs).toEqual([]);
  });

  it("refuses code from elsewhere below level 3, and says what would help", async () => {
    const call = sandbox.invoke(
      { ...spec(), key: "foreign", foreign: true },
      {
        method: "find the host's secrets in the arguments",
        params: trap.places,
        signal: AbortSignal.timeout(10_000),
      },
    );
    if (level === 3) return expect(call).resolves.toBeDefined();
    await expect(call).rejects.toThrow(SandboxError);
    await expect(call).rejects.toThrow(/sandbox\.allowForeign/);
  });
});

/** A package that a tool may use, with a real native addon in it. All users can read it, and write it if let. */
function makeDependencies(): string {
  const directory = mkdtempSync(join(realpathSync(tmpdir()), "toolrack-dependencies-"));
  const folder = join(directory, "node_modules/harmless");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "index.js"), `module.exports = "harmless";`);
  const root = fileURLToPath(new URL("../../../../../node_modules/", import.meta.url));
  const [addon = ""] = globSync("@{parcel,napi-rs,oxc-*,tailwindcss,rolldown,rollup}/*/*.node", {
    cwd: root,
  });
  copyFileSync(join(root, addon), join(folder, "addon.node"));
  for (const path of [directory, join(directory, "node_modules"), folder]) chmodSync(path, 0o777);
  chmodSync(join(folder, "index.js"), 0o666);
  return directory;
}
