import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SandboxHarness } from "./sandbox-harness.fixture.ts";
import type { ProgramSpec } from "./sandbox-types.ts";
import { levelsToTest } from "./test-levels.fixture.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "toolrack-skill-"));
  // Other users may look in, as they may in most workspaces.
  rmSync(directory, { recursive: true });
  mkdirSync(directory, { mode: 0o755 });
  writeFileSync(join(directory, "data.txt"), "data of the skill");
  writeFileSync(
    join(directory, "script.js"),
    `const fs = require("fs"); let input = ""; process.stdin.on("data", (chunk) => { input += chunk }).on("end", () => { console.log(JSON.stringify([input, process.argv.slice(2), fs.readFileSync("data.txt", "utf8"), process.env.TOKEN, process.version])); console.error("note"); process.exitCode = 5 })`,
  );
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe.each(levelsToTest)("programs at level %i", { timeout: 60_000 }, (level) => {
  let harness: SandboxHarness;
  beforeAll(async () => {
    harness = await SandboxHarness.open({ level });
  });
  afterAll(() => harness[Symbol.asyncDispose]());

  const run = (command: string, args: readonly string[], more: Partial<ProgramSpec> = {}, input = "") =>
    harness.sandbox.run(
      { label: "skill", command, args, directory, environment: {}, hosts: [], foreign: false, ...more },
      input,
      AbortSignal.timeout(30_000),
    );

  it("get input, arguments, environment and their directory, and give output and exit code", async () => {
    const result = await run("node", ["script.js", "a", "b c"], { environment: { TOKEN: "t" } }, "input ü");
    expect(JSON.parse(result.stdout)).toEqual([
      "input ü",
      ["a", "b c"],
      "data of the skill",
      "t",
      process.version,
    ]);
    expect(result).toMatchObject({ exitCode: 5, signal: null, stderr: "note\n", truncated: false });
  });

  it("cannot change their directory or read the machine", async () => {
    const source = `for (const act of [() => require("fs").writeFileSync("made", ""), () => require("fs").readFileSync("/etc/shadow")]) { try { act(); console.log("done") } catch (error) { console.log(error.code) } }`;
    const { stdout } = await run("node", ["-e", source]);
    expect(stdout).not.toContain("done");
    expect(readdirSync(directory)).toEqual(["data.txt", "script.js"]);
  });

  it("are cut off when they flood", async () => {
    const result = await run("node", ["-e", `for (;;) require("fs").writeSync(1, "x".repeat(1000))`], {
      limits: { outputBytes: 50_000 },
    });
    expect(result.truncated).toBe(true);
    expect(result.stdout.length).toBe(50_000);
  });

  it("end at their time limit, and when the caller gives up", async () => {
    const endless = ["-e", "for (;;);"];
    await expect(run("node", endless, { limits: { timeoutMs: 300 } })).rejects.toMatchObject({
      code: "sandbox_limit",
      data: { limit: "time" },
    });
    const controller = new AbortController();
    const running = harness.sandbox.run(
      {
        label: "skill",
        command: "node",
        args: endless,
        directory,
        environment: {},
        hosts: [],
        foreign: false,
      },
      "",
      controller.signal,
    );
    controller.abort(new Error("enough"));
    await expect(running).rejects.toThrow("enough");
  });

  it("may be given more time than a timer can count", async () => {
    const { stdout } = await run("node", ["-e", "console.log(6 * 7)"], { limits: { timeoutMs: 1e12 } });
    expect(stdout).toBe("42\n");
  });

  it("are run a few at once when that is asked for, and the others wait", async () => {
    const args = [
      "-e",
      `const began = performance.timeOrigin; setTimeout(() => console.log(JSON.stringify([began, Date.now()])), 300)`,
    ];
    const runs = await Promise.all([1, 2, 3].map(() => run("node", args, { limits: { atOnce: 1 } })));
    const times = runs.map(({ stdout }) => JSON.parse(stdout) as [number, number]).sort(([a], [b]) => a - b);
    for (const [index, [began]] of times.entries())
      if (index > 0) expect(began).toBeGreaterThanOrEqual(times[index - 1]![1]);
    const controller = new AbortController();
    const endless = {
      label: "skill",
      command: "node",
      args: ["-e", "for (;;);"],
      directory,
      environment: {},
      hosts: [],
      foreign: false,
      limits: { atOnce: 1 },
    };
    const running = harness.sandbox.run(endless, "", controller.signal);
    const waiting = harness.sandbox.run(endless, "", AbortSignal.timeout(200));
    await expect(waiting).rejects.toMatchObject({ name: "TimeoutError" });
    controller.abort(new Error("enough"));
    await expect(running).rejects.toThrow("enough");
    expect((await run("node", ["-p", "1"], { limits: { atOnce: 1 } })).stdout).toBe("1\n");
  });

  describe.runIf(level === 2)("cannot take their permissions off", () => {
    const peek = `try { console.log(require("fs").readFileSync(${JSON.stringify("/etc/hostname")}, "utf8"), "ESCAPED") } catch (error) { console.log(error.code) }`;

    it.each([
      ["options", ["--allow-fs-read=*", "--allow-child-process", "-e", peek]],
      ["a module that is loaded first", ["--require", "/etc/hostname", "-e", peek]],
      ["a file of options", ["--env-file=/etc/hostname", "script.js"]],
      ["the inspector", ["--inspect=0", "script.js"]],
      ["short options", ["-r", "/etc/hostname", "script.js"]],
    ])("by %s, which are refused", async (_what, args) => {
      await expect(run("node", args)).rejects.toMatchObject({
        code: "sandbox_refused",
        message: expect.stringContaining(args[0]!.split("=")[0]!),
      });
    });

    it("by options after the code, which are arguments", async () => {
      const { stdout } = await run("node", [
        "-e",
        `${peek}; console.log(process.argv.slice(1))`,
        "--allow-fs-read=*",
      ]);
      expect(stdout).toMatch(/^ERR_ACCESS_DENIED\n.*--allow-fs-read=\*/);
      expect((await run("node", ["-p", "process.argv[1]", "--inspect"])).stdout).toBe("--inspect\n");
    });

    it("by the environment", async () => {
      const names = [
        "NODE_OPTIONS",
        "node_options",
        "LD_PRELOAD",
        "BASH_FUNC_ulimit%%",
        "OPENSSL_CONF",
        "SHELLOPTS",
        "TOKEN",
      ];
      const environment = Object.fromEntries(names.map((name) => [name, "--allow-fs-read=*"]));
      const { stdout } = await run(
        "node",
        [
          "-e",
          `${peek}; console.log(Object.keys(process.env).filter((name) => ${JSON.stringify(names)}.includes(name)).join())`,
        ],
        { environment },
      );
      expect(stdout).toBe("ERR_ACCESS_DENIED\nTOKEN\n");
    });
  });

  it.runIf(level === 2)("are refused when they are not Node's, with the remedy", async () => {
    await expect(run("sh", ["-c", "true"])).rejects.toThrow(/Install bubblewrap/);
  });

  describe.runIf(level === 3)("of any kind", () => {
    it("run: shell and whatever /usr has", async () => {
      const { stdout, exitCode } = await run(
        "sh",
        ["-c", "cat; pwd; id -u; echo $TOKEN; node -p 6*7; exit 4"],
        { environment: { TOKEN: "t" } },
        "in ",
      );
      expect(stdout).toMatch(/^in \/toolrack\/program\n\d+\nt\n42\n$/);
      expect(stdout).not.toContain("\n0\n");
      expect(exitCode).toBe(4);
    });

    it("that do not exist are reported", async () => {
      const { exitCode, stderr } = await run("no-such-program", []);
      expect(exitCode).toBe(127);
      expect(stderr).toContain("no-such-program");
    });

    it("killed by a signal are reported so", async () => {
      expect(await run("sh", ["-c", "kill -9 $$"])).toMatchObject({ exitCode: null, signal: "SIGKILL" });
    });

    it("end when the caller gives up at any moment of their start", async () => {
      for (let turns = 0; turns < 12; turns++) {
        const controller = new AbortController();
        const sleeping = { label: "skill", command: "sleep", args: ["1000"], directory, environment: {} };
        const spec = { ...sleeping, hosts: [], foreign: false };
        const running = harness.sandbox.run(spec, "", controller.signal);
        for (let turn = 0; turn < turns; turn++) await undefined;
        controller.abort(new Error("enough"));
        await expect(running).rejects.toThrow("enough");
      }
    });

    it("leave no process behind, not even in sessions of their own", async () => {
      const marker = `4${Math.floor(Math.random() * 1e8)}`;
      await run("sh", ["-c", `setsid sleep ${marker} >/dev/null 2>&1 & sleep 0.2`]);
      const controller = new AbortController();
      const running = harness.sandbox.run(
        {
          label: "skill",
          command: "sh",
          args: ["-c", `setsid sleep ${marker} & sleep ${marker}`],
          directory,
          environment: {},
          hosts: [],
          foreign: false,
        },
        "",
        controller.signal,
      );
      await vi.waitFor(() => expect(processesWith(marker)).not.toEqual([]), 10_000);
      controller.abort(new Error("enough"));
      await expect(running).rejects.toThrow("enough");
      await vi.waitFor(() => expect(processesWith(marker)).toEqual([]), 10_000);
    });

    it("cannot bomb with processes or memory", async () => {
      const marker = `5${Math.floor(Math.random() * 1e8)}`;
      const bomb = `i=0; while [ $i -lt 300 ]; do sleep ${marker} & i=$((i+1)); done; echo started $i`;
      const { stderr } = await run("sh", ["-c", bomb], { limits: { timeoutMs: 20_000 } });
      expect(stderr).toMatch(/fork|Resource temporarily/i);
      await vi.waitFor(() => expect(processesWith(marker)).toEqual([]), 10_000);
      const hungry = await run("sh", [
        "-c",
        "head -c 2000000000 /dev/zero | tail -c 1500000000 | wc -c",
      ]).catch((error: unknown) => error as { code: string });
      // Whichever limit is the first to be reached.
      if ("stdout" in hungry) expect(hungry.stdout.trim()).not.toBe("1500000000");
      else expect(hungry.code).toBe("sandbox_limit");
    });

    it("cannot hold more memory than they may by being many, or by sharing it", async () => {
      const many = `const { spawn } = require("child_process"); for (let n = 0; n < 6; n++) spawn(process.execPath, ["-e", "globalThis.kept = Buffer.alloc(60 << 20, 1); setInterval(() => {}, 1000)"]); setInterval(() => {}, 1000)`;
      const limits = { memoryMb: 64, timeoutMs: 20_000 };
      await expect(run("node", ["-e", many], { limits })).rejects.toMatchObject({
        code: "sandbox_limit",
        data: { limit: "memory" },
      });
      const shared =
        "import mmap, time\nm = mmap.mmap(-1, 400 << 20)\nfor at in range(0, 400 << 20, 4096): m[at] = 1\ntime.sleep(30)";
      if (existsSync("/usr/bin/python3"))
        await expect(run("python3", ["-c", shared], { limits })).rejects.toMatchObject({
          code: "sandbox_limit",
          data: { limit: "memory" },
        });
    });

    it("cannot make namespaces, trace, mount or see the host's processes", async () => {
      const tries = [
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "chroot / true",
        "test -e /root",
        "test -e /home",
        "test -e /etc/shadow",
        "test -e /etc/passwd",
        `kill -0 ${process.pid}`,
        "touch /usr/made",
        "touch /toolrack/program/made",
        "touch /made",
        "touch /dev/made",
        "dd if=/dev/zero of=/dev/shm/flood bs=1M count=100",
        "dd if=/dev/zero of=/tmp/flood bs=1M count=100",
        "ls /proc | grep -x 200",
      ];
      const script = tries
        .map((attempt) => `if ${attempt} >/dev/null 2>&1; then echo "worked: ${attempt}"; fi`)
        .join("\n");
      expect(await run("sh", ["-c", `${script}\necho end`])).toMatchObject({ stdout: "end\n", exitCode: 0 });
    });
  });
});

function processesWith(marker: string): string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0").includes(marker);
    } catch {
      return false;
    }
  });
}
