import { spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { Tool } from "@toolrack/core";
import { expect, it } from "vitest";
import { makeProgram } from "../program.ts";
import { sampleWorkspace } from "../testing/sample-workspace.ts";
import { cleanEnvironment, program as words } from "../testing/spawn-cli.ts";
import { candidates, completionScripts } from "./completion.ts";

const unit = Tool.define({
  name: "unit_convert",
  aliases: ["convert"],
  description: "Converts.",
  parameters: { type: "object", properties: { value: { type: "number" }, to: { enum: ["km", "m"] } } },
  execute: async () => "",
});

async function complete(...typed: string[]): Promise<string[]> {
  const found = await candidates(
    makeProgram(async () => {}),
    typed,
    async () => [unit],
  );
  return found.map(({ word }) => word);
}

it("offers commands, options, values, tools and their arguments", async () => {
  expect(await complete("c")).toEqual(["chat", "call", "check", "calls", "completion"]);
  expect(await complete("")).not.toContain("__complete");
  expect(await complete("logs", "--s")).toEqual(["--status", "--since"]);
  expect(await complete("list", "--j")).toEqual(["--json"]);
  expect(await complete("logs", "--status", "")).toEqual(["success", "error"]);
  expect(await complete("new", "in")).toEqual(["internal"]);
  expect(await complete("completion", "")).toEqual(["bash", "zsh", "fish"]);
  expect(await complete("--dir", "x", "call", "unit")).toEqual(["unit_convert"]);
  expect(await complete("call", "unit_convert", "")).toEqual(["value=", "to=km", "to=m"]);
  expect(await complete("call", "convert", "value=1", "to=k")).toEqual(["to=km"]);
  expect(await complete("show", "unit_convert", "")).toEqual([]);
});

it("works in bash, where = divides words", { timeout: 180_000 }, async (test) => {
  if (spawnSync("bash", ["--version"]).status !== 0) test.skip();
  await using workspace = await sampleWorkspace();
  await workspace.write(
    "bin/toolrack",
    `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`,
  );
  await chmod(join(workspace.directory, "bin/toolrack"), 0o755);
  const script = `${completionScripts.bash}
    try() { COMP_LINE="$1" COMP_POINT=\${#1}; _toolrack; echo "\${COMPREPLY[*]}"; }
    try "toolrack sho"; try "toolrack call ec"; try "toolrack call echo mode=f"`;
  const { stdout, stderr } = spawnSync("bash", ["-c", script], {
    cwd: workspace.directory,
    encoding: "utf8",
    env: cleanEnvironment({ PATH: `${join(workspace.directory, "bin")}${delimiter}${process.env.PATH}` }),
  });
  expect(stderr).toBe("");
  expect(stdout).toBe("show\necho\nfancy\n");
});
