import { existsSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import execute from "./execute.ts";

interface Executed {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutBytes: number;
  readonly ended: string | null;
  readonly backgroundGroup: number | null;
  readonly elapsed: number;
}

/** Tells the processes of this run from those of any other; also a legal number of seconds. */
const mark = `33.${process.pid}`;

let workspace: TestWorkspace;
const run = async (input: Record<string, unknown>) => {
  const result = await workspace.call(execute, input);
  return { result, executed: result.structured as Executed };
};

beforeAll(async () => {
  workspace = await openTestWorkspace({ "sub/file.txt": "hello\n" });
});
afterAll(() => workspace[Symbol.asyncDispose]());

describe("running a command", () => {
  test("the shell runs it in the workspace", async () => {
    const { result, executed } = await run({ command: "pwd && echo a b | tr a-z A-Z" });
    expect(result.type).not.toBe("error");
    expect(executed).toMatchObject({ exitCode: 0, signal: null, ended: null, backgroundGroup: null });
    expect(executed.stdout).toBe(`${workspace.directory}\nA B\n`);
  });

  test("with args there is no shell, so nothing is expanded", async () => {
    const { executed } = await run({ command: "printf", args: ["%s|", "$HOME", "a b", "; ls", "*"] });
    expect(executed.stdout).toBe("$HOME|a b|; ls|*|");
  });

  test("cwd is a directory of the workspace and stays inside it", async () => {
    expect((await run({ command: "cat file.txt", cwd: "sub" })).executed.stdout).toBe("hello\n");
    expect(await workspace.failure(execute, { command: "ls", cwd: ".." })).toContain(workspace.directory);
    expect(await workspace.failure(execute, { command: "ls", cwd: "sub/file.txt" })).toContain(
      "it is a file",
    );
    expect(await workspace.failure(execute, { command: "ls", cwd: "missing" })).toContain("missing");
  });

  test("stdin is given to it; without one it sees an empty input", async () => {
    expect((await run({ command: "cat", stdin: "grüße" })).executed.stdout).toBe("grüße");
    expect((await run({ command: "cat; echo done" })).executed.stdout).toBe("done\n");
  });

  test("a command that does not read its input is no failure", async () => {
    const { executed } = await run({ command: "true", stdin: "x".repeat(1_000_000) });
    expect(executed.exitCode).toBe(0);
  });

  test("a program that is not there is refused with advice", async () => {
    expect(await workspace.failure(execute, { command: "no-such-program", args: [] })).toContain(
      "no-such-program",
    );
    expect(await workspace.failure(execute, { command: "ls -l", args: [] })).toContain("leave args out");
  });
});

describe("failure", () => {
  test("a non-zero exit is an error that keeps both streams and the code", async () => {
    const { result, executed } = await run({ command: "echo out; echo err >&2; exit 3" });
    expect(result.type).toBe("error");
    expect(executed).toMatchObject({ exitCode: 3, signal: null, stdout: "out\n", stderr: "err\n" });
    expect(result.content).toMatch(/Exit code 3[\s\S]*stdout:\nout[\s\S]*stderr:\nerr/);
  });

  test("a signal is named", async () => {
    const { result, executed } = await run({ command: "kill -9 $$" });
    expect(result.type).toBe("error");
    expect(executed).toMatchObject({ exitCode: null, signal: "SIGKILL" });
  });
});

describe("the environment", () => {
  test("holds nothing of the server's own but the basic variables", async () => {
    process.env.SECRET_TOKEN_FOR_TEST = "hush";
    process.env.LC_TIME = "C";
    try {
      const { executed } = await run({ command: "env", env: { ADDED: "yes" } });
      const names = executed.stdout.split("\n").map((line) => line.split("=")[0]!);
      expect(executed.stdout).not.toContain("hush");
      expect(executed.stdout).toContain("ADDED=yes");
      expect(executed.stdout).toContain("TERM=dumb");
      expect(executed.stdout).toContain("LC_TIME=C");
      // The shell itself adds PWD, OLDPWD, SHLVL and _.
      const known = /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|USER|SHELL|TERM|ADDED|PWD|OLDPWD|SHLVL|_)?$/;
      expect(names.filter((name) => !known.test(name))).toEqual([]);
    } finally {
      delete process.env.SECRET_TOKEN_FOR_TEST;
      delete process.env.LC_TIME;
    }
  });
});

describe("output", () => {
  test("beginning and end of a long output are kept, and the gap is counted", async () => {
    const { executed } = await run({ command: "seq 1 100000" });
    expect(executed.stdoutBytes).toBe(588_895);
    expect(executed.stdout.startsWith("1\n2\n3\n")).toBe(true);
    expect(executed.stdout.endsWith("99999\n100000\n")).toBe(true);
    expect(executed.stdout).toContain("[… 523,359 of 588,895 bytes left out …]");
    expect(executed.stdout.length).toBeLessThan(66_000);
  });

  test("a cut never leaves half a character", async () => {
    const { executed } = await run({ command: "yes 語語語 | head -c 300000", maxOutput: 1_025 });
    expect(executed.stdout).toContain("left out");
    expect(executed.stdout).not.toContain("\uFFFD");
  });

  test("endless output ends the command", async () => {
    const { result, executed } = await run({ command: `yes ${mark} & yes ${mark}`, timeout: 60_000 });
    expect(executed.ended).toBe("flood");
    expect(result.content).toContain("more than 100 MB");
    expect(executed.stdout.length).toBeLessThan(66_000);
    await expectNoneLeft(`yes ${mark}`);
  }, 40_000);
});

describe("ending", () => {
  test("a timeout kills the command and keeps what it wrote", async () => {
    const { result, executed } = await run({
      command: "echo early; echo warned >&2; exec sleep 31",
      timeout: 300,
    });
    expect(result.type).toBe("error");
    expect(executed).toMatchObject({
      ended: "timeout",
      stdout: "early\n",
      stderr: "warned\n",
      signal: "SIGTERM",
    });
    expect(executed.elapsed).toBeLessThan(20_000);
  });

  test("grandchildren that ignore SIGTERM are killed as well", async () => {
    const script = `(trap "" TERM; echo $BASHPID > stubborn.pid; while :; do sleep 0.2; done) & wait`;
    const { executed } = await run({ command: "bash", args: ["-c", script], timeout: 500 });
    expect(executed.ended).toBe("timeout");
    const id = Number(readFileSync(workspace.path("stubborn.pid"), "utf8"));
    expect(isRunning(id)).toBe(false);
  }, 10_000);

  test("cancelling kills the whole group", async () => {
    const controller = new AbortController();
    const call = workspace.call(
      execute,
      { command: `echo $$ > cancelled.pid; sleep ${mark} & sleep ${mark}` },
      {
        signal: controller.signal,
      },
    );
    await appears(workspace.path("cancelled.pid"));
    controller.abort();
    expect((await call).type).toBe("error");
    await expectNoneLeft(`sleep ${mark}`);
  });

  test("a background process that keeps the output open does not hang the call", async () => {
    const { result, executed } = await run({ command: "echo started; sleep 34 &" });
    try {
      expect(executed).toMatchObject({ exitCode: 0, stdout: "started\n" });
      expect(executed.elapsed).toBeLessThan(20_000);
      expect(executed.backgroundGroup).toBeTypeOf("number");
      expect(result.content).toContain(`kill -- -${executed.backgroundGroup}`);
    } finally {
      endGroup(executed.backgroundGroup);
    }
  });

  test("nor does one that goes on writing", async () => {
    const { executed } = await run({ command: "(while :; do echo tick; sleep 0.05; done) &" });
    // It may have ended by itself: nobody reads what it writes any more.
    if (executed.backgroundGroup !== null) endGroup(executed.backgroundGroup);
    expect(executed.elapsed).toBeLessThan(20_000);
  });

  test("a background process that has ended is not reported", async () => {
    // Nobody collects the first sleep: the shell that started it has become the second.
    const { executed } = await run({ command: "sleep 0.01 & exec sleep 0.2" });
    expect(executed.backgroundGroup).toBeNull();
  });
});

/** Careful with nothing: signalling group 0 would end the test run itself. */
function endGroup(id: number | null): void {
  if (id === null || id <= 1) throw new Error("No background process was reported.");
  try {
    process.kill(-id, "SIGKILL");
  } catch (error) {
    // One that writes ends by itself as soon as nobody reads.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function appears(file: string): Promise<void> {
  while (!existsSync(file)) await delay(10);
}

function isRunning(id: number): boolean {
  try {
    // A process that was killed and not yet collected by its parent shows as a zombie.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${id}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** No process of this command line may be left in any group that the test started. */
async function expectNoneLeft(commandLine: string): Promise<void> {
  const survivors = () => workspace.structured<Executed>(execute, { command: "ps -eo stat=,args=" });
  for (let attempt = 0; attempt < 40; attempt++) {
    const { stdout } = await survivors();
    const found = stdout
      .split("\n")
      .some((line) => !line.startsWith("Z") && line.endsWith(` ${commandLine}`));
    if (!found) return;
    await delay(100);
  }
  throw new Error(`"${commandLine}" is still running`);
}
