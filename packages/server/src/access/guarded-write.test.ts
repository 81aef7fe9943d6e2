import { link, mkdir, readdir, readFile, readlink, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import format from "../builtin-tools/code/format.ts";
import copy from "../builtin-tools/file/copy.ts";
import remove from "../builtin-tools/file/delete.ts";
import mkdirTool from "../builtin-tools/file/mkdir.ts";
import move from "../builtin-tools/file/move.ts";
import write from "../builtin-tools/file/write.ts";
import download from "../builtin-tools/network/download.ts";
import { openTestWorkspace, type TestWorkspace } from "../builtin-tools/testing/tool-rig.ts";

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

describe("a caller without an admin grant", () => {
  const powerful = [
    "src/tools/new.ts",
    "SRC/Tools/new.ts",
    "way/new.ts",
    "ai/skills/x/tools.json",
    "ai/skills/x/SKILL.md",
    "mcp.json",
    "MCP.json",
    "apis.json",
    "graphql/a.graphql",
    "json/scheduled_tasks.json",
    "toolrack.config.ts",
    ".env",
    ".ENV.local",
    ".envrc",
    "package.json",
    "deep/down/package.json",
    "package-lock.json",
    "pnpm-workspace.yaml",
    ".npmrc",
    ".pnpmfile.cjs",
    "node_modules/x/index.js",
    "deep/node_modules/.bin/biome",
    ".git/hooks/pre-commit",
    ".GIT/hooks/pre-commit",
    ".g\u200cit/hooks/pre-commit",
    "deep/.git/config",
    ".gitmodules",
    ".husky/pre-commit",
    ".prettierrc",
    "biome.json",
    "tsconfig.json",
    ".vscode/tasks.json",
    "tests/all.calls.yaml",
    "lib/shared.ts",
    "lib/shared.mjs",
    "lib/shared/index.ts",
  ];

  beforeEach(async () => {
    const { directory } = space.workspace;
    const limited = await openTestWorkspace(
      { "lib/shared.js": "", "plain/notes.txt": "x", "proj/package.json": "{}", "proj/a.txt": "x" },
      {},
    );
    await symlink(`${directory}/src/tools`, limited.path("way"));
    await mkdir(limited.path("src"));
    space = await openTestWorkspace(
      {},
      {
        ...limited.workspace,
        toolFolders: [`${directory}/src/tools`, limited.path("src/tools")],
        roots: [limited.directory, directory],
        skillFolders: [limited.path("ai/skills")],
        logFile: limited.path("log/ToolBox.log"),
        usedFiles: async () => [limited.path("lib/shared.js")],
        isAdmin: false,
      },
    );
    // Somebody who agrees to everything makes up for no grant.
    space.answer = "allow";
  });

  it.each(powerful)("does not write %s, whoever agrees", async (path) => {
    const before = await readFile(at(path), "utf8").catch(() => undefined);
    for (const append of [false, true]) {
      const { error } = await space.call(write, { path, content: "x", append });
      expect(error?.code).toBe("permission_denied");
      expect(error?.message).toMatch(/may not write .*\. .*Only a token with an admin grant may do that/s);
    }
    expect(await readFile(at(path), "utf8").catch(() => undefined)).toBe(before);
    expect(space.questions).toEqual([]);
  });

  it.each(powerful)("neither copies, moves nor downloads something to %s", async (path) => {
    for (const tool of [copy, move]) {
      const { error } = await space.call(tool, {
        source: "plain/notes.txt",
        destination: path,
        overwrite: true,
      });
      expect(error?.code).toBe("permission_denied");
    }
    const { error } = await space.call(download, { url: "http://127.0.0.1:1/x", path, overwrite: true });
    expect(error?.code).toBe("permission_denied");
  });

  it.each(["src/tools", "ai/skills", "ai/skills/x", ".git", "graphql", "node_modules/x"])(
    "does not make the folder %s",
    async (path) => {
      expect((await space.call(mkdirTool, { path })).error?.code).toBe("permission_denied");
    },
  );

  it("makes the folders above them, and writes beside them", async () => {
    await space.text(mkdirTool, { path: "ai" });
    for (const path of ["ai/notes.txt", "lib/other.ts", "package.txt", "src/x.ts", "gitignore"]) {
      await space.text(write, { path, content: "x" });
    }
  });

  it("neither moves nor removes a folder that holds one, or becomes one", async () => {
    await mkdir(at("ai/skills/x"), { recursive: true });
    await mkdir(at("plain/skills/x"), { recursive: true });
    for (const path of ["ai", "lib", "proj"]) {
      const removed = await space.call(remove, { path, recursive: true });
      expect(removed.error?.code).toBe("permission_denied");
      const moved = await space.call(move, { source: path, destination: "elsewhere" });
      expect(moved.error?.code).toBe("permission_denied");
    }
    expect((await space.call(copy, { source: "plain/skills", destination: "ai" })).error?.code).toBe(
      "execution_failed",
    );
    const merged = await space.call(copy, { source: "plain/skills", destination: "ai", overwrite: true });
    expect(merged.error?.code).toBe("permission_denied");
    expect(await readdir(at("proj"))).toEqual(["a.txt", "package.json"]);
  });

  it("puts no link in their place, nor exchanges one on the way to them", async () => {
    const { directory } = space.workspace;
    await symlink("plain", at("link"));
    await mkdir(at("store/skills"), { recursive: true });
    await symlink("store", at("ai"));
    const skillFolders = [`${directory}/skills`, `${directory}/ai/skills`];
    space = await openTestWorkspace({}, { ...space.workspace, skillFolders });
    space.answer = "allow";
    for (const [tool, input] of [
      [move, { source: "link", destination: "skills" }],
      [remove, { path: "ai" }],
      [move, { source: "ai", destination: "other" }],
      [remove, { path: "store", recursive: true }],
      [move, { source: "store", destination: "other" }],
    ] as const) {
      expect((await space.call(tool, input)).error?.code).toBe("permission_denied");
    }
    expect(await readlink(at("ai"))).toBe("store");
    expect(await readdir(at("."))).not.toContain("skills");
  });

  it("copies a folder without what gives power in it, and says so", async () => {
    const copied = await space.structured<{ skipped: unknown[] }>(copy, {
      source: "proj",
      destination: "new",
    });
    expect(copied.skipped).toEqual([
      { path: "package.json", reason: expect.stringContaining("takes an admin grant") },
    ]);
    expect(await readdir(at("new"))).toEqual(["a.txt"]);
  });

  it("does not write to a file that has other names", async () => {
    await link(at("lib/shared.js"), at("plain/twin.js"));
    const { error } = await space.call(write, { path: "plain/twin.js", content: "x", append: true });
    expect(error?.code).toBe("permission_denied");
  });

  it("has no files formatted that give power", async () => {
    for (const path of ["proj", "lib/shared.js"]) {
      expect((await space.call(format, { path })).error?.code).toBe("permission_denied");
    }
  });
});
