import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServedWorkspace } from "../../testing/served-workspace.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({
    "toolrack.config.js": "export default { builtins: false };",
    "returns.js": 'console.log("alpha\\nbeta");\nconsole.warn("gamma");\nreturn "first\\n\\nlast\\n";',
    "prints.js": 'console.log("only printed");',
    "silent.js": "await 0;",
    "throws.js": 'console.log("before");\nthrow new Error("no more");',
  });
});
afterAll(() => workspace[Symbol.asyncDispose]());

const run = (...words: string[]) => runCli(["run", ...words], { cwd: workspace.directory });
const count = (text: string, word: string) => text.split(word).length - 1;

/** What a person sees of each file, on a server and without one. */
async function expectOnce(): Promise<void> {
  const returns = await run("returns.js");
  expect(returns.stdout).toBe("first\n\nlast\n");
  for (const word of ["alpha", "beta", "gamma"]) expect(count(returns.stderr, word)).toBe(1);
  const prints = await run("prints.js");
  expect([prints.stdout, count(prints.stderr, "only printed")]).toEqual(["", 1]);
  const silent = await run("silent.js");
  expect([silent.code, silent.stdout]).toEqual([0, ""]);
  const throws = await run("throws.js");
  expect([throws.code, throws.stdout, count(throws.stderr, "before")]).toEqual([3, "", 1]);
  expect(throws.stderr).toContain("Line 2: Error: no more");
  expect(throws.stderr).not.toContain("console:");
}

describe("what code prints is on standard error once, and what it returns on standard output", {
  timeout: 180_000,
}, () => {
  it("in a workspace that no server serves", async () => {
    await expectOnce();
    await run("returns.js", "--output", "kept.txt");
    expect(await readFile(join(workspace.directory, "kept.txt"), "utf8")).toBe("first\n\nlast\n");
  });

  it("on a running server", async () => {
    await using _served = await ServedWorkspace.here(workspace.directory);
    await expectOnce();
  });

  it("and programs have both, with --json", async () => {
    const { stdout } = await run("returns.js", "--json");
    const { result } = JSON.parse(stdout);
    expect(result.content).toBe("first\n\nlast\n\n\nconsole:\nalpha\nbeta\ngamma");
    expect(result.metadata).toMatchObject({ calls: 0, consoleLines: 3 });
  });
});
