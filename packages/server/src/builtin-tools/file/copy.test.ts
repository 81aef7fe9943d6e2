import { execFileSync } from "node:child_process";
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  readlink,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { basename, dirname } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import copy from "./copy.ts";

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({
    "a.txt": "a",
    "b.txt": "b",
    "tree/one.txt": "1",
    "tree/deep/two.txt": "2",
    "folder/kept.txt": "kept",
  });
});

afterEach(() => space[Symbol.asyncDispose]());

const contentOf = (path: string) => readFile(space.path(path), "utf8");
const names = async (path = "") => (await readdir(space.path(path), { recursive: true })).sort();

describe("copying a file", () => {
  it("makes a second one with the same mode", async () => {
    await chmod(space.path("a.txt"), 0o750);
    expect(await space.text(copy, { source: "a.txt", destination: "new/c.txt" })).toBe(
      "Copied a.txt to new/c.txt (1 byte).",
    );
    expect(await contentOf("new/c.txt")).toBe("a");
    expect((await stat(space.path("new/c.txt"))).mode & 0o777).toBe(0o750);
    expect(await contentOf("a.txt")).toBe("a");
  });

  it("keeps the name in an existing folder, and in a new one that is named with a slash", async () => {
    expect(await space.structured(copy, { source: "a.txt", destination: "folder" })).toMatchObject({
      destination: "folder/a.txt",
    });
    expect(await space.structured(copy, { source: "a.txt", destination: "fresh/" })).toMatchObject({
      destination: "fresh/a.txt",
    });
  });

  it("does not replace a file unless told to", async () => {
    expect(await space.failure(copy, { source: "a.txt", destination: "b.txt" })).toContain(
      "b.txt already exists",
    );
    expect(await contentOf("b.txt")).toBe("b");
    await space.text(copy, { source: "a.txt", destination: "b.txt", overwrite: true });
    expect(await contentOf("b.txt")).toBe("a");
  });

  it("copies what a link points to when the link is named", async () => {
    await symlink("a.txt", space.path("link"));
    await space.text(copy, { source: "link", destination: "folder" });
    expect(await contentOf("folder/link")).toBe("a");
    expect((await stat(space.path("folder/link"))).isFile()).toBe(true);
  });

  it("copies a large file exactly and stops when cancelled", async () => {
    const large = Buffer.alloc(5_000_000, "abcdefg");
    await writeFile(space.path("large"), large);
    await space.text(copy, { source: "large", destination: "large2" });
    expect((await readFile(space.path("large2"))).equals(large)).toBe(true);

    await truncate(space.path("large"), 4 * 1024 ** 3);
    const controller = new AbortController();
    const call = space.call(copy, { source: "large", destination: "large3" }, { signal: controller.signal });
    await expect
      .poll(async () => (await names()).some((name) => name.endsWith(".tmp")), { interval: 1 })
      .toBe(true);
    controller.abort();
    expect((await call).error?.code).toBe("cancelled");
    await expect.poll(async () => (await names()).filter((name) => /tmp$|large3/.test(name))).toEqual([]);
  });
});

describe("copying a folder", () => {
  it("creates the target and copies everything in it", async () => {
    expect(await space.structured(copy, { source: "tree", destination: "new/tree2" })).toEqual({
      source: "tree",
      destination: "new/tree2",
      files: 2,
      folders: 2,
      bytes: 2,
      skipped: [],
    });
    expect(await names("new/tree2")).toEqual(["deep", "deep/two.txt", "one.txt"]);
  });

  it("into an existing folder keeps its name and what is there", async () => {
    await space.text(copy, { source: "tree", destination: "folder" });
    expect(await names("folder")).toEqual([
      "kept.txt",
      "tree",
      "tree/deep",
      "tree/deep/two.txt",
      "tree/one.txt",
    ]);
  });

  it("merges into a folder of the same name only with overwrite", async () => {
    await mkdir(space.path("folder/tree"));
    await writeFile(space.path("folder/tree/one.txt"), "old");
    await writeFile(space.path("folder/tree/extra.txt"), "extra");
    expect(await space.failure(copy, { source: "tree", destination: "folder" })).toContain(
      "folder/tree already exists",
    );
    await space.text(copy, { source: "tree", destination: "folder", overwrite: true });
    expect(await contentOf("folder/tree/one.txt")).toBe("1");
    expect(await contentOf("folder/tree/extra.txt")).toBe("extra");
  });

  it("keeps write-protected folders", async () => {
    await chmod(space.path("tree/deep"), 0o555);
    await space.text(copy, { source: "tree", destination: "copy" });
    expect((await stat(space.path("copy/deep"))).mode & 0o777).toBe(0o555);
    expect(await contentOf("copy/deep/two.txt")).toBe("2");
    await chmod(space.path("tree/deep"), 0o755);
    await chmod(space.path("copy/deep"), 0o755);
  });

  it("is refused without recursive", async () => {
    expect(await space.failure(copy, { source: "tree", destination: "x", recursive: false })).toContain(
      "Pass recursive: true",
    );
  });

  it.each(["tree", "tree/deep", "tree/new/place", "alias/inner"])(
    "is refused into itself: %s",
    async (destination) => {
      await symlink("tree", space.path("alias"));
      expect(await space.failure(copy, { source: "tree", destination })).toMatch(/into itself|onto itself/);
      expect(await names("tree")).toEqual(["deep", "deep/two.txt", "one.txt"]);
    },
  );

  it("is refused over a file, and a file over a folder", async () => {
    expect(await space.failure(copy, { source: "tree", destination: "a.txt", overwrite: true })).toContain(
      "a.txt is a file and cannot be replaced by a folder",
    );
    await mkdir(space.path("folder/a.txt"));
    expect(await space.failure(copy, { source: "a.txt", destination: "folder", overwrite: true })).toContain(
      "folder/a.txt is a folder and cannot be replaced by a file",
    );
  });

  it("copies links that stay inside as links and leaves out the others", async () => {
    await symlink("one.txt", space.path("tree/inside"));
    await symlink("/etc/passwd", space.path("tree/outside"));
    await symlink("../../..", space.path("tree/deep/up"));
    execFileSync("mkfifo", [space.path("tree/pipe")]);
    const text = await space.text(copy, { source: "tree", destination: "copy" });
    expect(await readlink(space.path("copy/inside"))).toBe("one.txt");
    expect(await names("copy")).toEqual(["deep", "deep/two.txt", "inside", "one.txt"]);
    expect(text).toContain("Left out deep/up: it is a link that leads out of the workspace.");
    expect(text).toContain("Left out outside: it is a link that leads out of the workspace.");
    expect(text).toContain("Left out pipe: it is neither a file nor a folder.");
  });

  it("never writes through a link in the target", async () => {
    const other = await openTestWorkspace({});
    await mkdir(space.path("folder/tree"));
    await symlink(other.directory, space.path("folder/tree/deep"));
    expect(await space.failure(copy, { source: "tree", destination: "folder", overwrite: true })).toContain(
      "stands in the way",
    );
    expect(await readdir(other.directory)).toEqual([]);
    await other[Symbol.asyncDispose]();
  });
});

it("refuses to copy from or to a place outside", async () => {
  expect(await space.failure(copy, { source: "/etc/passwd", destination: "x" })).toContain("lies outside");
  expect(await space.failure(copy, { source: "a.txt", destination: "/tmp/x" })).toContain("lies outside");
});

describe("the server's own files", () => {
  beforeEach(async () => {
    await mkdir(space.path(".toolrack/blobs"), { recursive: true });
    await writeFile(space.path(".toolrack/token"), "the-token");
  });

  it("are left out of a copy of the workspace, which says so", async () => {
    await using outside = await openTestWorkspace();
    const roots = [space.directory, outside.directory];
    await using both = await openTestWorkspace({}, { directory: space.directory, roots });
    both.answer = "allow";
    const input = { source: ".", destination: outside.path("c"), recursive: true };
    const copied = await both.structured<{ skipped: { path: string }[] }>(copy, input);
    expect(copied.skipped).toEqual([{ path: ".toolrack", reason: "it belongs to the server itself" }]);
    const there = await readdir(outside.path("c"));
    expect(there).toContain("a.txt");
    expect(there).not.toContain(".toolrack");
    expect(await both.text(copy, { ...input, destination: outside.path("d") })).toContain(
      "Left out .toolrack: it belongs to the server itself.",
    );
  });

  it("are not replaced by a copy that is merged over the workspace", async () => {
    const above = dirname(space.directory);
    const name = basename(space.directory);
    await mkdir(space.path("fake", name, ".toolrack"), { recursive: true });
    await writeFile(space.path("fake", name, ".toolrack/token"), "known-token");
    await writeFile(space.path("fake", name, "a.txt"), "merged");
    await using wide = await openTestWorkspace(
      {},
      { directory: space.directory, roots: [space.directory, above] },
    );
    wide.answer = "allow";
    await using elsewhere = await openTestWorkspace();
    await wide.text(copy, { source: `fake/${name}`, destination: elsewhere.path(name) });
    await wide.text(copy, { source: elsewhere.path(name), destination: above, overwrite: true });
    expect(await contentOf("a.txt")).toBe("merged");
    expect(await contentOf(".toolrack/token")).toBe("the-token");
  });
});
