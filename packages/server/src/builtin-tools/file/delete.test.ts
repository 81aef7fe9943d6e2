import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import remove from "./delete.ts";
import { removeEntry } from "./support/copy-and-remove.ts";

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({ "a.txt": "a", "tree/b.txt": "b", "tree/deep/c.txt": "c" });
});

afterEach(() => space[Symbol.asyncDispose]());

const names = (path = "") => readdir(space.path(path));

describe("deleting", () => {
  it("asks a person first", () => {
    expect(remove.metadata).toMatchObject({ dangerous: true, confirm: expect.any(String) });
  });

  it("removes a file", async () => {
    expect(await space.text(remove, { path: "a.txt" })).toBe("Deleted a.txt.");
    expect(await names()).toEqual(["tree"]);
  });

  it("removes an empty folder without recursive", async () => {
    await mkdir(space.path("void"));
    expect(await space.text(remove, { path: "void" })).toBe("Deleted the folder void.");
  });

  it("refuses a full folder without recursive and removes nothing", async () => {
    expect(await space.failure(remove, { path: "tree" })).toBe(
      "The folder tree is not empty (2 entries). Pass recursive: true to delete it with everything in it.",
    );
    expect(await names("tree")).toEqual(["b.txt", "deep"]);
  });

  it("removes a full folder with recursive and says how much went", async () => {
    expect(await space.text(remove, { path: "tree", recursive: true })).toBe(
      "Deleted the folder tree with 2 files and 1 folder in it.",
    );
    expect(await names()).toEqual(["a.txt"]);
  });

  it("says what is near when there is nothing", async () => {
    expect(await space.failure(remove, { path: "tree/b.tx" })).toContain("Nearest in tree/: b.txt");
  });
});

describe("a link", () => {
  it("is removed itself, with or without a slash, and its target stays", async () => {
    for (const path of ["link", "link/"]) {
      await symlink("tree", space.path("link"));
      expect(await space.text(remove, { path, recursive: true })).toBe("Deleted the link link.");
      expect(await names()).toEqual(["a.txt", "tree"]);
      expect(await names("tree")).toEqual(["b.txt", "deep"]);
    }
  });

  it("may point outside or to nothing", async () => {
    const other = await openTestWorkspace({ "kept.txt": "kept" });
    await symlink(other.directory, space.path("tree/out"));
    await symlink("nowhere", space.path("tree/dangling"));
    await space.text(remove, { path: "tree/dangling" });
    await space.text(remove, { path: "tree", recursive: true });
    expect(await readFile(other.path("kept.txt"), "utf8")).toBe("kept");
    await other[Symbol.asyncDispose]();
  });

  it("does not lead a deletion out of the workspace", async () => {
    const other = await openTestWorkspace({ "kept.txt": "kept" });
    await symlink(other.directory, space.path("out"));
    expect(await space.failure(remove, { path: "out/kept.txt" })).toContain("leads through a link out of");
    await other[Symbol.asyncDispose]();
  });
});

describe("a root of the workspace", () => {
  it.each([".", "tree/..", "./"])("is never deleted: %s", async (path) => {
    expect(await space.failure(remove, { path, recursive: true })).toContain("is a root of the workspace");
    expect(await names()).toEqual(["a.txt", "tree"]);
  });

  it("is not deleted with the folder that holds it", async () => {
    const inner = await openTestWorkspace(
      {},
      {
        directory: space.path("tree/deep"),
        roots: [space.path("tree/deep"), space.directory],
      },
    );
    expect(await inner.failure(remove, { path: "..", recursive: true })).toContain(
      "holds a root of the workspace",
    );
    expect(await names("tree")).toEqual(["b.txt", "deep"]);
    await inner[Symbol.asyncDispose]();
  });
});

it("stops when it is cancelled", async () => {
  await mkdir(space.path("many"));
  await Promise.all(Array.from({ length: 600 }, (_, index) => writeFile(space.path("many", `${index}`), "")));
  const controller = new AbortController();
  const removal = removeEntry(space.path("many"), {
    signal: controller.signal,
    removed: { files: 0, folders: 0 },
    onProgress: () => controller.abort(),
  });
  await expect(removal).rejects.toThrow("aborted");
  expect(await names("many")).toHaveLength(100);
});

it("refuses a folder in which the server keeps its own files, reached by a link", async () => {
  await using space = await openTestWorkspace({ "state/own/token": "the-token", "state/other.txt": "" });
  await symlink("state/own", space.path(".toolrack"));
  expect(await space.failure(remove, { path: "state", recursive: true })).toContain(
    "holds files of the server itself",
  );
  expect(await readFile(space.path("state/own/token"), "utf8")).toBe("the-token");
});
