import { chmod, link, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import write from "./write.ts";

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({ "old.txt": "old" });
});

afterEach(() => space[Symbol.asyncDispose]());

const contentOf = (path: string) => readFile(space.path(path), "utf8");

describe("writing", () => {
  it("creates a file in the workspace, not in the process's directory", async () => {
    expect(await space.structured(write, { path: "b.txt", content: "hé\n" })).toEqual({
      path: "b.txt",
      action: "created",
      bytes: 4,
      size: 4,
    });
    expect(await contentOf("b.txt")).toBe("hé\n");
  });

  it("replaces a file whole and says so", async () => {
    expect(await space.text(write, { path: "old.txt", content: "" })).toBe(
      "Replaced old.txt (0 bytes; before: 3 bytes).",
    );
    expect(await contentOf("old.txt")).toBe("");
  });

  it("makes missing folders", async () => {
    expect(await space.text(write, { path: "a/b/c.txt", content: "x" })).toBe("Created a/b/c.txt (1 byte).");
    expect(await contentOf("a/b/c.txt")).toBe("x");
  });

  it("makes no folders when told not to", async () => {
    const message = await space.failure(write, { path: "a/c.txt", content: "x", createDirs: false });
    expect(message).toContain("its folder does not exist. Pass createDirs: true");
    expect(await readdir(space.directory)).toEqual(["old.txt"]);
  });

  it("appends on request", async () => {
    expect(await space.text(write, { path: "old.txt", content: "er", append: true })).toBe(
      "Appended 2 bytes to old.txt (now 5 bytes).",
    );
    expect(await contentOf("old.txt")).toBe("older");
    expect(await space.structured(write, { path: "log/new.txt", content: "1", append: true })).toMatchObject({
      action: "created",
    });
  });

  it("appends of many callers all arrive", async () => {
    const lines = Array.from({ length: 20 }, (_, index) => `line ${index}\n`);
    await Promise.all(lines.map((content) => space.text(write, { path: "log", content, append: true })));
    expect((await contentOf("log")).split("\n").sort()).toEqual(
      ["", ...lines.map((line) => line.trim())].sort(),
    );
  });
});

describe("replacing", () => {
  it("keeps the mode of the file", async () => {
    await chmod(space.path("old.txt"), 0o751);
    await space.text(write, { path: "old.txt", content: "new" });
    expect((await stat(space.path("old.txt"))).mode & 0o777).toBe(0o751);
  });

  it("never shows a reader a part of the file", async () => {
    const [one, two] = ["1".repeat(300_000), "2".repeat(300_000)];
    await writeFile(space.path("big"), one);
    let isWriting = true;
    const seen = new Set<string>();
    const reader = (async () => {
      while (isWriting) seen.add(await contentOf("big"));
    })();
    for (let round = 0; round < 20; round += 1) {
      await space.text(write, { path: "big", content: round % 2 === 0 ? two : one });
    }
    isWriting = false;
    await reader;
    for (const content of seen) expect([one, two]).toContain(content);
  });

  it("gives the path a new file: other names of the old one keep the old text", async () => {
    await link(space.path("old.txt"), space.path("other-name.txt"));
    await space.text(write, { path: "old.txt", content: "new" });
    expect(await contentOf("other-name.txt")).toBe("old");
  });

  it("goes through a link that stays inside and leaves the link", async () => {
    await symlink("old.txt", space.path("link"));
    expect(await space.structured(write, { path: "link", content: "new" })).toMatchObject({
      path: "old.txt",
    });
    expect(await readlink(space.path("link"))).toBe("old.txt");
    expect(await contentOf("old.txt")).toBe("new");
  });

  it("leaves nothing behind when it cannot finish", async () => {
    await mkdir(space.path("folder"));
    await space.failure(write, { path: "folder", content: "x" });
    const controller = new AbortController();
    const call = space.call(
      write,
      { path: "old.txt", content: "y".repeat(1e6) },
      { signal: controller.signal },
    );
    controller.abort();
    expect((await call).error?.code).toBe("cancelled");
    await expect.poll(() => readdir(space.directory)).toEqual(["folder", "old.txt"]);
    expect(await contentOf("old.txt")).toBe("old");
  });
});

describe("a place that cannot be written", () => {
  it.each([
    ["a folder", "folder", "folder is a folder"],
    ["a path that ends in a slash", "new/", "names a folder"],
    ["a path below a file", "old.txt/x", "a file with that name stands in the way"],
    ["a path outside", "../x.txt", "lies outside"],
    ["a link to a new file outside", "out", "leads through a link out of"],
    ["a device", "device", "leads through a link out of"],
  ])("is refused: %s", async (_, path, message) => {
    await mkdir(space.path("folder"));
    await symlink(`${space.directory}-elsewhere.txt`, space.path("out"));
    await symlink("/dev/null", space.path("device"));
    expect(await space.failure(write, { path, content: "x" })).toContain(message);
    expect((await readdir(space.directory)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  it.skipIf(process.getuid?.() === 0)("is refused: a write-protected file", async () => {
    await chmod(space.path("old.txt"), 0o444);
    expect(await space.failure(write, { path: "old.txt", content: "x" })).toContain("write-protected");
  });
});
