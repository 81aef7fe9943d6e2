import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../../testing.ts";
import copy from "../copy.ts";
import move from "../move.ts";
import write from "../write.ts";

let far: TestWorkspace;
let space: TestWorkspace;

beforeEach(async () => {
  far = await openTestWorkspace({});
  const files = {
    "a.ts": "new",
    "lib/tools/a.ts": "new",
    "box/tools/a.ts": "new",
    "src/tools/old.ts": "old",
  };
  const first = await openTestWorkspace(files);
  const { directory } = first;
  space = await openTestWorkspace(
    {},
    {
      directory,
      roots: [directory, far.directory],
      toolFolders: [`${directory}/src/tools`],
      logFile: `${directory}/log/ToolBox.log`,
    },
  );
  await mkdir(`${directory}/log`);
  await symlink(`${directory}/src/tools`, `${directory}/way`);
});

afterEach(async () => {
  await Promise.all([space, far].map((one) => one[Symbol.asyncDispose]()));
});

const at = (path: string) => `${space.workspace.directory}/${path}`;

describe("without anybody to ask", () => {
  it.each([
    "src/tools/new.ts",
    "src/tools/deep/new.ts",
    "way/new.ts",
    "toolrack.config.ts",
    "Toolrack.config.js",
    ".env",
    "sub/.env.local",
    "log/ToolBox.log",
    "log/ToolBox.log.1",
  ])("%s is not written", async (path) => {
    const result = await space.call(write, { path, content: "x" });
    expect(result.error?.code).toBe("approval_denied");
    await expect(readFile(at(path), "utf8")).rejects.toThrow("ENOENT");
    expect(await readdir(dirname(at("src/tools/x")))).toEqual(["old.ts"]);
  });

  it("nothing is written into another root", async () => {
    const path = `${far.directory}/x.txt`;
    expect((await space.call(write, { path, content: "x" })).error?.code).toBe("approval_denied");
    expect(await readdir(far.directory)).toEqual([]);
  });

  it.each([
    ["a file", "a.ts", "src/tools"],
    ["a folder that becomes one of tools", "box/tools", "src"],
  ])("%s is neither copied nor moved there", async (_, source, destination) => {
    for (const tool of [copy, move]) {
      const result = await space.call(tool, { source, destination, overwrite: true });
      expect(result.error?.code).toBe(
        tool === move && source !== "a.ts" ? "execution_failed" : "approval_denied",
      );
    }
    expect(await readdir(at("src/tools"))).toEqual(["old.ts"]);
  });

  it("everything else is written as before", async () => {
    for (const path of ["log/notes.txt", "src/other.ts", "src/toolshed/a.ts", "env"])
      await space.text(write, { path, content: "x" });
  });
});

it("asks with the path and the reason, and goes on after a yes", async () => {
  space.answer = "deny";
  expect((await space.call(write, { path: "src/tools/x.ts", content: "x" })).error?.code).toBe(
    "approval_denied",
  );
  space.answer = "allow";
  await space.text(write, { path: "src/tools/x.ts", content: "x" });
  expect(space.questions).toEqual(Array(2).fill("Write src/tools/x.ts? What lies there runs as a tool."));
  expect(await readFile(at("src/tools/x.ts"), "utf8")).toBe("x");
});
