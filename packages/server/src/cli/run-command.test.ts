import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { type CliOutcome, type RunOptions, runCli } from "./testing/run-cli.ts";
import { sampleWorkspace } from "./testing/sample-workspace.ts";
import { program, type SpawnOptions, spawnCli } from "./testing/spawn-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await sampleWorkspace();
});
afterAll(() => workspace[Symbol.asyncDispose]());

function toolrack(words: readonly string[], options: Partial<RunOptions> = {}): Promise<CliOutcome> {
  return runCli(words, { cwd: workspace.directory, ...options });
}

/** In a process of its own, for what only a process can show. */
function spawned(words: readonly string[], options: Partial<SpawnOptions> = {}): Promise<CliOutcome> {
  return spawnCli(words, { cwd: workspace.directory, ...options });
}

/** The program ends as the command does: one of each exit code shows it. */
const isSpawned = new Set(["a call that succeeds", "a tool that calls process.exit", "an unknown tool"]);

describe("exit codes", { timeout: 180_000 }, () => {
  it.each<[number, string, string[]]>([
    [0, "a call that succeeds", ["call", "echo", "text=a"]],
    [1, "a workspace that does not exist", ["list", "--dir", "missing"]],
    [2, "an unknown command", ["lst"]],
    [2, "an unknown option", ["list", "--colour"]],
    [2, "arguments that do not fit", ["call", "echo", "count=0"]],
    [2, "arguments that are not JSON", ["call", "echo", "--args", "{x"]],
    [2, "a duration without a unit", ["call", "echo", "text=a", "--timeout", "3"]],
    [3, "a tool that fails", ["call", "fails"]],
    [3, "a tool that calls process.exit", ["call", "exits"]],
    [4, "an unknown tool", ["call", "ecko", "text=a"]],
    [4, "an unknown tool to show", ["show", "ecko"]],
    [5, "a dangerous tool and nobody to ask", ["call", "remove", "path=x"]],
    [5, "a permission that is not held", ["call", "guarded"]],
    [6, "a tool that takes too long", ["call", "waits", "--timeout", "50ms"]],
  ])("%i: %s", async (code, what, words) => {
    const run = isSpawned.has(what) ? spawned : toolrack;
    const outcome = await run([...words, "--json"]);
    expect(outcome.code).toBe(code);
    const answer = JSON.parse(outcome.stdout);
    if (code === 0) {
      expect(answer).toMatchObject({ result: { type: "json" }, record: { toolName: "echo", caller: "cli" } });
      return;
    }
    expect(answer.error).toMatchObject({ code: expect.any(String), message: expect.any(String) });
  });

  it("are the same without --json, and then people are told on standard error and data stays clean", async () => {
    const outcomes = await Promise.all([
      toolrack(["lst"]),
      toolrack(["call", "fails"]),
      toolrack(["call", "remove", "path=x"]),
    ]);
    expect(outcomes.map(({ code }) => code)).toEqual([2, 3, 5]);
    expect(outcomes.map(({ stdout }) => stdout)).toEqual(["", "", ""]);
    expect(outcomes[0]!.stderr).toContain("unknown command 'lst'");
    expect(outcomes[1]!.stderr).toContain("no paper");
    expect(outcomes[2]!.stderr).toContain("add --yes to approve it");
  });

  it("come with words that a terminal shows and does not obey", async () => {
    const { stderr } = await toolrack(["list", "--dir", "missing\u001b]0;title\u0007\nfolder"]);
    expect(stderr).toMatch(/^error: There is no folder .*missing\\u001b\]0;title\\u0007\nfolder\. Name the/);
  });

  it("names the nearest tools, and the files that failed, when there is no such tool", async () => {
    const { stderr } = await toolrack(["show", "ecko"]);
    expect(stderr).toContain('nearest names are "echo"');
    expect(stderr).toContain("tools/broken.ts:3");
  });

  it("an invalid config is named with its key", async () => {
    await using broken = await TemporaryWorkspace.create({
      "toolrack.config.ts": "export default { tool: [] };",
    });
    const { code, stderr } = await runCli(["list"], { cwd: broken.directory });
    expect(code).toBe(1);
    expect(stderr).toContain("toolrack.config.ts");
    expect(stderr).toContain("tool");
  });
});

describe("output", { timeout: 180_000 }, () => {
  it("is the tool's text alone, whatever the tool prints, and timers left behind do not keep us alive", async () => {
    const { code, stdout, stderr } = await spawned(["call", "noisy"]);
    expect(stdout).toBe("the result\n");
    for (const text of ["printed while loading", "printed", "written", "logged"])
      expect(stderr).toContain(text);
    expect(code).toBe(0);
  });

  it("is whole, although a model would be given a part, and although a pipe takes only so much at a time", async () => {
    const { stdout } = await spawned(["call", "long"]);
    expect(stdout.length).toBe(400_001);
    const json = JSON.parse((await toolrack(["call", "long", "--json"])).stdout);
    expect(json.result.content.length).toBe(400_000);
    expect(json.record.flags.truncated).toBe(true);
  });

  it("ends quietly when whoever reads it has had enough", async () => {
    const [file, ...words] = program;
    const child = spawn(file!, [...words, "call", "long"], { cwd: workspace.directory });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    child.stdout.once("data", () => child.stdout.destroy());
    const [code] = await once(child, "exit");
    expect(code).toBe(0);
    expect(stderr).not.toContain("EPIPE");
  });

  it("stays open for who writes to it after us, such as the shell that started us", async () => {
    // What Node gives a child to write to is a socket, and the shell and all that it runs share it.
    const child = spawn("sh", ["-c", '"$@"; echo after', "sh", ...program, "--version"]);
    const said = text(child.stdout);
    const [code, signal] = await once(child, "exit");
    expect([code, signal]).toEqual([0, null]);
    expect(await said).toMatch(/^\d+\.\d+\.\d+\nafter\n$/);
  });

  it("has no colours when it is no terminal, and has them when they are forced", async () => {
    const forced = { env: { FORCE_COLOR: "1" } };
    const [plain, coloured, refused] = await Promise.all([
      spawned(["list"]),
      spawned(["list"], forced),
      spawned(["list", "--no-color"], forced),
    ]);
    expect(plain.stdout).not.toContain("\u001b[");
    expect(coloured.stdout).toContain("\u001b[");
    expect(refused.stdout).not.toContain("\u001b[");
  });

  it("describes attachments and saves them byte for byte", async () => {
    const file = join(workspace.directory, "picture.png");
    const described = await toolrack(["call", "picture"]);
    expect(described.stdout).toBe("a picture\n");
    expect(described.stderr).toContain("image/png, 6 B");
    const saved = await toolrack(["call", "picture", "--output", file]);
    expect(saved.code).toBe(0);
    expect(await readFile(file, "utf8")).toBe("pixels");
    const noisy = await toolrack(["call", "noisy", "-o", file]);
    expect(noisy.stdout).toBe("");
    expect(await readFile(file, "utf8")).toBe("the result");
  });

  it("help says what commands, exit codes and --json mean; the version is the package's", async () => {
    const [help, callHelp, version] = await Promise.all([
      toolrack(["--help"]),
      toolrack(["call", "--help"]),
      toolrack(["--version"]),
    ]);
    expect(help.stdout).toMatch(/Exit codes: 0 ok[\s\S]*6 timed out/);
    expect(help.stdout).toContain('{"error": {"code", "message", "details"}}');
    expect(callHelp.stdout).toContain("--dir <dir>");
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect([help.code, callHelp.code, version.code]).toEqual([0, 0, 0]);
  });
});

describe("arguments of a call", { timeout: 180_000 }, () => {
  const words = ["text=42", "count=3", "loud=yes", "tags=a", "tags=b", "mode=fancy", "at.x=1.5"];
  const expected = { text: "42", count: 3, loud: true, tags: ["a", "b"], mode: "fancy", at: { x: 1.5 } };

  it("come as pairs, as JSON, from a file and from standard input", async () => {
    const json = JSON.stringify(expected);
    await workspace.write("arguments.json", json);
    const outcomes = await Promise.all([
      toolrack(["call", "repeat", ...words]),
      toolrack(["call", "echo", "--args", json]),
      toolrack(["call", "echo", "--args", "@arguments.json"]),
      toolrack(["call", "echo", "--args", "-"], { input: json }),
      toolrack([
        "call",
        "echo",
        "--args",
        '{"text": "x", "count": 3}',
        ...words.filter((word) => !word.startsWith("count")),
      ]),
    ]);
    for (const { stdout } of outcomes) expect(JSON.parse(stdout)).toEqual(expected);
  });

  it("that the tool does not know are told of", async () => {
    const { code, stderr } = await toolrack(["call", "echo", "text=a", "txet=b"]);
    expect(stderr).toContain('the tool has no "txet"');
    expect(code).toBe(0);
  });

  it("--yes approves a dangerous tool, and the session is in the record", async () => {
    const { stdout } = await toolrack(["call", "remove", "path=x", "--yes", "--session", "s1", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      result: { content: "removed x" },
      record: { sessionID: "s1" },
    });
  });
});

describe("Ctrl-C", { timeout: 180_000 }, () => {
  it("cancels the call, so that the tool sees its signal, and ends with 130", async () => {
    const when = { says: "waiting", act: (child: { kill(signal: "SIGINT"): void }) => child.kill("SIGINT") };
    const { code, stderr, stdout } = await spawned(["call", "waits"], { when });
    expect(code).toBe(130);
    expect(stderr).toContain("saw the abort");
    expect(stderr).toContain("was cancelled");
    expect(stdout).toBe("");
    const { stdout: lines } = await toolrack(["logs", "--tool", "waits", "--json", "--limit", "1"]);
    expect(JSON.parse(lines)).toMatchObject({ tool: "waits", stat: "error", code: "cancelled" });
  });
});
