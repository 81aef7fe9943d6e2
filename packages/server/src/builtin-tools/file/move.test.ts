import { statSync } from "node:fs";
import {
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  utimes,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import move from "./move.ts";

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({
    "a.txt": "a",
    "b.txt": "b",
    "tree/deep/two.txt": "2",
    "folder/kept.txt": "kept",
  });
});

afterEach(() => space[Symbol.asyncDispose]());

const contentOf = (path: string) => readFile(space.path(path), "utf8");
const names = async (path = "") => (await readdir(space.path(path), { recursive: true })).sort();

describe("moving", () => {
  it("asks a person first", () => {
    expect(move.metadata).toMatchObject({ dangerous: true, confirm: expect.any(String) });
  });

  it("renames a file, making missing folders", async () => {
    expect(await space.text(move, { source: "a.txt", destination: "new/c.txt" })).toBe(
      "Moved a.txt to new/c.txt.",
    );
    expect(await contentOf("new/c.txt")).toBe("a");
    expect(await names()).not.toContain("a.txt");
  });

  it("moves a folder with everything in it", async () => {
    await space.text(move, { source: "tree", destination: "wood" });
    expect(await contentOf("wood/deep/two.txt")).toBe("2");
  });

  it("into an existing folder keeps the name", async () => {
    expect(await space.structured(move, { source: "tree", destination: "folder" })).toEqual({
      source: "tree",
      destination: "folder/tree",
      replaced: false,
    });
    expect(await names("folder")).toEqual(["kept.txt", "tree", "tree/deep", "tree/deep/two.txt"]);
  });

  it("replaces a file only when told to", async () => {
    expect(await space.failure(move, { source: "a.txt", destination: "b.txt" })).toContain(
      "b.txt already exists",
    );
    expect(await contentOf("b.txt")).toBe("b");
    expect(await space.text(move, { source: "a.txt", destination: "b.txt", overwrite: true })).toBe(
      "Moved a.txt to b.txt, replacing what was there.",
    );
    expect(await contentOf("b.txt")).toBe("a");
  });

  it("replaces an empty folder, never a full one", async () => {
    await mkdir(space.path("folder/tree"));
    await space.text(move, { source: "tree", destination: "folder", overwrite: true });
    expect(await contentOf("folder/tree/deep/two.txt")).toBe("2");
    await mkdir(space.path("tree"));
    expect(await space.failure(move, { source: "tree", destination: "folder", overwrite: true })).toContain(
      "is not empty",
    );
  });

  it("moves a link itself", async () => {
    await symlink("a.txt", space.path("link"));
    await space.text(move, { source: "link", destination: "moved" });
    expect(await readlink(space.path("moved"))).toBe("a.txt");
    expect(await contentOf("a.txt")).toBe("a");
  });

  it("leaves one name when two names of one file are moved onto each other", async () => {
    await link(space.path("a.txt"), space.path("same.txt"));
    await space.text(move, { source: "a.txt", destination: "same.txt", overwrite: true });
    expect(await names()).not.toContain("a.txt");
    expect(await contentOf("same.txt")).toBe("a");
  });
});

describe("a move that makes no sense", () => {
  it.each([
    ["onto itself", "a.txt", "a.txt", "is already there"],
    ["into its own folder", "a.txt", ".", "is already there"],
    ["into itself", "tree", "tree/deep", "cannot be moved into itself"],
    ["of a root", ".", "folder", "is a root of the workspace"],
    ["of nothing", "c.txt", "d.txt", 'There is no "c.txt". Nearest in the workspace: a.txt, b.txt.'],
    ["out of the workspace", "a.txt", "../a.txt", "lies outside"],
    ["from outside", "/etc/hostname", "x", "lies outside"],
  ])("is refused: %s", async (_, source, destination, message) => {
    const before = await names();
    expect(await space.failure(move, { source, destination })).toContain(message);
    expect(await names()).toEqual(before);
  });
});

const isOtherDisk = (() => {
  try {
    return statSync("/dev/shm").dev !== statSync(tmpdir()).dev;
  } catch {
    return false;
  }
})();

describe.skipIf(!isOtherDisk)("moving to another file system", () => {
  let far: string;
  let both: TestWorkspace;

  beforeEach(async () => {
    far = await mkdtemp("/dev/shm/toolrack-");
    both = await openTestWorkspace({}, { directory: space.directory, roots: [space.directory, far] });
    both.answer = "allow";
  });

  afterEach(async () => {
    await rm(far, { recursive: true });
    await both[Symbol.asyncDispose]();
  });

  it("takes everything along, with times and links, and leaves nothing", async () => {
    await utimes(space.path("tree/deep/two.txt"), 1_000_000, 1_000_000);
    await symlink("/nowhere/outside", space.path("tree/link"));
    expect(await both.structured(move, { source: "tree", destination: far })).toMatchObject({
      destination: join(far, "tree"),
    });
    expect(await readFile(join(far, "tree/deep/two.txt"), "utf8")).toBe("2");
    expect((await stat(join(far, "tree/deep/two.txt"))).mtimeMs).toBe(1_000_000_000);
    expect(await readlink(join(far, "tree/link"))).toBe("/nowhere/outside");
    expect(await names()).toEqual(["a.txt", "b.txt", "folder", "folder/kept.txt"]);
    expect(await readdir(far)).toEqual(["tree"]);
  });

  it("replaces a file there only when told to", async () => {
    await both.text(move, { source: "a.txt", destination: join(far, "x") });
    expect(await both.failure(move, { source: "b.txt", destination: join(far, "x") })).toContain(
      "already exists",
    );
    await both.text(move, { source: "b.txt", destination: join(far, "x"), overwrite: true });
    expect(await readFile(join(far, "x"), "utf8")).toBe("b");
  });
});

it("refuses a folder in which the server keeps its own files, reached by a link", async () => {
  await using space = await openTestWorkspace({ "state/own/token": "the-token" });
  await symlink("state/own", space.path(".toolrack"));
  expect(await space.failure(move, { source: "state", destination: "moved" })).toContain(
    "holds files of the server itself",
  );
});
