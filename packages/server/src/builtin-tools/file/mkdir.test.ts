import { stat, symlink } from "node:fs/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openTestWorkspace, type TestWorkspace } from "../testing/tool-rig.ts";
import mkdir from "./mkdir.ts";

let space: TestWorkspace;

beforeEach(async () => {
  space = await openTestWorkspace({ "file.txt": "" });
});

afterEach(() => space[Symbol.asyncDispose]());

it("makes the folder and those above it", async () => {
  expect(await space.structured(mkdir, { path: "a/b/c" })).toEqual({ path: "a/b/c", created: true });
  expect((await stat(space.path("a/b/c"))).isDirectory()).toBe(true);
});

it("is content with a folder that is there", async () => {
  await space.text(mkdir, { path: "a" });
  expect(await space.structured(mkdir, { path: "a" })).toEqual({ path: "a", created: false });
  expect(await space.text(mkdir, { path: "." })).toBe("The folder . was already there.");
});

it("without recursive wants the parent to be there and the folder not", async () => {
  expect(await space.failure(mkdir, { path: "a/b", recursive: false })).toContain(
    "the folder above it does not exist",
  );
  expect(await space.text(mkdir, { path: "a", recursive: false })).toBe("Created the folder a.");
  expect(await space.failure(mkdir, { path: "a", recursive: false })).toBe("a already exists.");
});

it("refuses a name that a file has", async () => {
  expect(await space.failure(mkdir, { path: "file.txt" })).toContain("stands in the way");
  expect(await space.failure(mkdir, { path: "file.txt/x" })).toContain("stands in the way");
  expect(await space.failure(mkdir, { path: "file.txt", recursive: false })).toContain("is a file");
});

it("refuses to leave the workspace, also through a link to nothing", async () => {
  expect(await space.failure(mkdir, { path: "../x" })).toContain("lies outside");
  await symlink(`${space.directory}-elsewhere`, space.path("link"));
  expect(await space.failure(mkdir, { path: "link/x" })).toContain("leads through a link out of");
});
