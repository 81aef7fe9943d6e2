import { link, mkdir, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import analyze from "../builtin-tools/code/analyze.ts";
import copy from "../builtin-tools/file/copy.ts";
import list from "../builtin-tools/file/list.ts";
import read from "../builtin-tools/file/read.ts";
import { openTestWorkspace, type TestWorkspace } from "../builtin-tools/testing/tool-rig.ts";
import { privatePaths } from "./power-files.ts";

let space: TestWorkspace;

beforeEach(async () => {
  const made = await openTestWorkspace({
    "log/calls.log": "of others",
    "log/calls.log.1": "of others, before",
    "log/notes.txt": "plain",
    ".toolrack/token": "the-token",
    "sub/.toolrack/token": "another-token",
  });
  space = await openTestWorkspace(
    {},
    { ...made.workspace, logFile: made.path("log/calls.log"), isAdmin: false },
  );
});

afterEach(() => space[Symbol.asyncDispose]());

const at = (path: string) => `${space.workspace.directory}/${path}`;

it("says of paths whether they are out of reach, however they are written", async () => {
  const isPrivate = await privatePaths(space.workspace);
  const hidden = [
    "log/calls.log",
    "LOG/Calls.log",
    "log/calls.log.1",
    ".toolrack",
    ".Toolrack/x",
    "sub/.toolrack/x",
  ];
  expect(hidden.filter((path) => !isPrivate(at(path)))).toEqual([]);
  expect(
    ["log", "log/notes.txt", "log/calls.logs", "toolrack"].filter((path) => isPrivate(at(path))),
  ).toEqual([]);
  const isPrivateToAdmin = await privatePaths({ ...space.workspace, isAdmin: true });
  expect(hidden.filter((path) => isPrivateToAdmin(at(path)))).toEqual([".toolrack", ".Toolrack/x"]);
});

it("shows neither names nor numbers of what is out of reach", async () => {
  const { entries } = await space.structured<{ entries: { path: string }[] }>(list, {
    recursive: true,
    all: true,
  });
  expect(entries.map(({ path }) => path)).toEqual(["log", "sub", "log/notes.txt"]);
  expect(await space.failure(read, { path: "log/calls.lo" })).not.toContain("calls.log");
  expect(await space.failure(read, { path: "log/zzzzzzzz" })).toContain("1 entry");
  expect(await space.failure(analyze, { path: "log/calls.log" })).toContain("belongs to the server itself");
  const copied = await space.structured<{ skipped: unknown }>(copy, { source: "log", destination: "copy" });
  expect(copied).toMatchObject({
    files: 1,
    skipped: [{ path: ".", reason: "it belongs to the server itself" }],
  });
});

it("knows such a file by its other names", async () => {
  await mkdir(at("data"));
  await link(at("log/calls.log"), at("data/a.txt"));
  await link(at(".toolrack/token"), at("data/b.txt"));
  await writeFile(at("data/c.txt"), "plain");
  await link(at("data/c.txt"), at("data/d.txt"));
  for (const path of ["data/a.txt", "data/b.txt"]) {
    expect(await space.failure(read, { path })).toContain("belongs to the server itself");
  }
  expect(await space.text(read, { path: "data/d.txt" })).toBe("plain");
  const copied = await space.structured<{ files: number }>(copy, { source: "data", destination: "copy" });
  expect(copied.files).toBe(2);
});
