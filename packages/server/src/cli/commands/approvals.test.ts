import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { sampleWorkspace } from "../testing/sample-workspace.ts";
import { cleanEnvironment, program } from "../testing/spawn-cli.ts";

const DOWN = "\u001b[B";
const ENTER = "\r";
const CONTROL_C = "\u0003";

/** What appears on the screen, and what is then typed. */
type Step = readonly [sees: string, types: string];

const hasTerminal = spawnSync("script", ["--version"]).status === 0 && process.platform === "linux";

describe.runIf(hasTerminal)("on a terminal", { timeout: 180_000 }, () => {
  let workspace: TemporaryWorkspace;
  beforeAll(async () => {
    workspace = await sampleWorkspace();
  });
  afterAll(() => workspace[Symbol.asyncDispose]());

  async function play(steps: readonly Step[]): Promise<{ code: number; screen: string }> {
    const command = `stty cols 100 rows 40; ${program.join(" ")} call remove path=old`;
    const child = spawn("script", ["-qec", command, "/dev/null"], {
      cwd: workspace.directory,
      env: cleanEnvironment({ TERM: "xterm" }),
    });
    let screen = "";
    let from = 0;
    const waiting = [...steps];
    child.stdout.setEncoding("utf8").on("data", (text) => {
      screen += text;
      const at = waiting.length === 0 ? -1 : screen.indexOf(waiting[0]![0], from);
      if (at < 0) return;
      from = screen.length;
      child.stdin.write(waiting.shift()![1]);
    });
    const [code] = await once(child, "close");
    return { code, screen: stripVTControlCharacters(screen) };
  }

  it("shows what would run, and runs it when the person approves", async () => {
    const { code, screen } = await play([
      ["confirm", DOWN],
      ["Approve", ENTER],
    ]);
    expect(screen).toContain("真的要删除吗？");
    expect(screen).toContain('"path": "old"');
    expect(screen).toContain("removed old");
    expect(code).toBe(0);
  });

  it("Enter alone denies, and the reason is told", async () => {
    const { code, screen } = await play([
      ["confirm", ENTER],
      ["Why?", `too risky${ENTER}`],
    ]);
    expect(screen).toContain("was refused: too risky");
    expect(code).toBe(5);
  });

  it("edited arguments are shown again before they are approved", async () => {
    const { code, screen } = await play([
      ["confirm", DOWN],
      ["Approve", DOWN],
      ["Edit", ENTER],
      ["as JSON", '\u007f\u007f-one"}'],
      ["-one", ENTER],
      ["confirm", DOWN],
      ["Approve", ENTER],
    ]);
    expect(screen).toContain('"path": "old-one"');
    expect(screen).toContain("removed old-one");
    expect(code).toBe(0);
  });

  it("Ctrl-C at the question ends the call", async () => {
    const { code, screen } = await play([["confirm", CONTROL_C]]);
    expect(screen).not.toContain("removed");
    expect(code).toBe(130);
  });
});
