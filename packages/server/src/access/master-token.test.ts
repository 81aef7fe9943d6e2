import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ensureMasterToken } from "./tokens.ts";

let workspace: string;
const file = () => join(workspace, ".toolrack", "token");

beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), "toolrack-"));
});
afterEach(() => rm(workspace, { recursive: true, force: true }));

it("makes a token of 32 random bytes that only its owner can read, and keeps it", async () => {
  const token = await ensureMasterToken(workspace);
  expect(Buffer.from(token, "base64url").length).toBe(32);
  expect((await stat(file())).mode & 0o777).toBe(0o600);
  expect(await ensureMasterToken(workspace)).toBe(token);
  expect(await readdir(join(workspace, ".toolrack"))).toEqual(["token"]);
});

it("is one and the same for servers that start at once", async () => {
  const tokens = await Promise.all(Array.from({ length: 20 }, () => ensureMasterToken(workspace)));
  expect(new Set(tokens).size).toBe(1);
});

it("closes a file that others could read", async () => {
  await ensureMasterToken(workspace);
  await chmod(file(), 0o644);
  await ensureMasterToken(workspace);
  expect((await stat(file())).mode & 0o777).toBe(0o600);
});

it("takes a token that the operator chose, and refuses one that is none", async () => {
  await mkdir(join(workspace, ".toolrack"));
  await writeFile(file(), "an-operators-own-token\n");
  expect(await ensureMasterToken(workspace)).toBe("an-operators-own-token");
  await writeFile(file(), "\n");
  await expect(ensureMasterToken(workspace)).rejects.toThrow("Delete it");
  expect(await readFile(file(), "utf8")).toBe("\n");
});
