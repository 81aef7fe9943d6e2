import { cp, mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readServerAddress, writeServerAddress } from "./server-address.ts";

let workspace: string;
beforeEach(async () => {
  workspace = await mkdtemp(join(tmpdir(), "toolrack-address-"));
  await mkdir(join(workspace, ".toolrack"));
});
afterEach(() => rm(workspace, { recursive: true, force: true }));

const url = async () => (await readServerAddress(workspace))?.url;

it("names the newest server, and when that ends the one before it that still runs", async () => {
  const endFirst = await writeServerAddress(workspace, "http://127.0.0.1:1");
  const endSecond = await writeServerAddress(workspace, "http://127.0.0.1:2");
  const endThird = await writeServerAddress(workspace, "http://127.0.0.1:3");
  expect(await url()).toBe("http://127.0.0.1:3");
  await endSecond();
  expect(await url()).toBe("http://127.0.0.1:3");
  await endThird();
  expect(await url()).toBe("http://127.0.0.1:1");
  await endFirst();
  expect(await url()).toBeUndefined();
});

it("forgets a server that was killed, and closes the file to others", async () => {
  const file = join(workspace, ".toolrack", "server.json");
  // No process has so high a number.
  await writeFile(file, JSON.stringify({ url: "http://127.0.0.1:9", pid: 2 ** 30 }), { mode: 0o644 });
  const end = await writeServerAddress(workspace, "http://127.0.0.1:1");
  if (process.platform !== "win32") expect((await stat(file)).mode & 0o777).toBe(0o600);
  await end();
  expect(await url()).toBeUndefined();
});

it("is no address for a copy of the workspace, but one for a workspace that was moved", async () => {
  const end = await writeServerAddress(workspace, "http://127.0.0.1:1");
  const original = workspace;
  const copy = `${workspace}-copy`;
  await cp(workspace, copy, { recursive: true });
  expect(await readServerAddress(copy)).toBeUndefined();
  workspace = `${workspace}-moved`;
  await rename(original, workspace);
  expect(await url()).toBe("http://127.0.0.1:1");
  await rename(workspace, original);
  workspace = original;
  await end();
  await rm(copy, { recursive: true });
});
