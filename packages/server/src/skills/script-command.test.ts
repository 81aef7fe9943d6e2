import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { resolveCommand, splitCommand } from "./script-command.ts";

describe("the command of a script", () => {
  let workspace: string;
  const skill = (trusted = true) => ({ name: "S", directory: join(workspace, "skills/s"), trusted });

  beforeAll(() => {
    workspace = mkdtempSync(join(tmpdir(), "toolrack-command-"));
    const files = {
      "skills/s/run.js": "console.log(1)",
      "skills/s/module.mjs": "export async function execute() {}",
      "skills/s/main.py": "async def execute(tool, params, context):\n  pass",
      "skills/s/bin/go.sh": "true",
      "shared/tool.js": "exports.execute = () => 1",
      ".toolrack/secret.js": "",
      "top.js": "",
    };
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(workspace, name)), { recursive: true });
      writeFileSync(join(workspace, name), text);
    }
  });
  afterAll(() => rmSync(workspace, { recursive: true }));

  it.each([
    ["node run.js --flag 'two words'", ["node", "run.js", "--flag", "two words"]],
    ['a "b \\" c" d\\ e \'\'', ["a", 'b " c', "d e", ""]],
    ["  spaced   out  ", ["spaced", "out"]],
  ])("is split as a shell splits it: %s", (text, words) => {
    expect(splitCommand(text)).toEqual(words);
  });

  it("with a quote left open is refused", () => {
    expect(() => splitCommand("node 'x")).toThrow("not closed");
  });

  it("finds its file in the skill's folder, and calls what has execute", () => {
    const directory = join(workspace, "skills/s");
    expect(resolveCommand("node run.js", skill(), workspace)).toEqual({
      command: "node",
      args: ["run.js"],
      directory,
    });
    expect(resolveCommand("node module.mjs", skill(), workspace).module).toEqual({
      language: "node",
      file: "module.mjs",
    });
    expect(resolveCommand("python main.py", skill(), workspace)).toMatchObject({
      command: "python3",
      module: { language: "python", file: "main.py" },
    });
    expect(resolveCommand("python3 main.py --once", skill(), workspace)).not.toHaveProperty("module");
    expect(resolveCommand("bin/go.sh x", skill(), workspace)).toMatchObject({
      command: "./bin/go.sh",
      args: ["x"],
    });
    expect(resolveCommand("sort | uniq -c", skill(), workspace)).toMatchObject({
      command: "sh",
      args: ["-c", "sort | uniq -c"],
    });
  });

  it("of a trusted skill may name a file of the workspace, but nothing that holds its settings", () => {
    expect(resolveCommand("node shared/tool.js", skill(), workspace)).toMatchObject({
      args: ["tool.js"],
      directory: join(workspace, "shared"),
      module: { file: "tool.js" },
    });
    for (const command of ["node top.js", "node .toolrack/secret.js", "node ../../etc/passwd.js"]) {
      expect(resolveCommand(command, skill(), workspace).directory).toBe(join(workspace, "skills/s"));
    }
    expect(resolveCommand("node shared/tool.js", skill(false), workspace)).toMatchObject({
      args: ["shared/tool.js"],
      directory: join(workspace, "skills/s"),
    });
  });

  it("is needed where there is no index file", () => {
    expect(() => resolveCommand("", skill(), workspace)).toThrow("needs a command");
  });
});
