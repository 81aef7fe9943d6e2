import { appendFile, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CompileCache } from "./compile-cache.ts";

it("keeps compiled files from one start to the next, and survives lines that are broken", async () => {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-cache-"));
  const file = join(directory, "deep", "compiled");
  const first = new CompileCache(file);
  expect(await first.get("a")).toBeUndefined();
  first.add("a", { code: "1", map: "{}" });
  first.add("b", { code: "line\none", map: "{}" });
  await first.settle();
  first.add("c", { code: "3", map: "{}" });
  await first.settle();
  await appendFile(file, "no tab at all\nd\t{half a li");

  const second = new CompileCache(file);
  expect(await second.get("b")).toEqual({ code: "line\none", map: "{}" });
  expect(await second.get("c")).toEqual({ code: "3", map: "{}" });
  expect(await second.get("d")).toBeUndefined();
  expect((await readFile(file, "utf8")).split("\n").length).toBeGreaterThan(3);
  await rm(directory, { recursive: true });
});

it("a place that cannot be written is a cache that holds nothing", async () => {
  const cache = new CompileCache("/dev/null/compiled");
  cache.add("a", { code: "1", map: "{}" });
  await cache.settle();
  expect(await cache.get("a")).toBeUndefined();
});

it("stays within its bound while it grows, and drops what nobody has used for the longest time", async () => {
  const directory = await mkdtemp(join(tmpdir(), "toolrack-cache-"));
  const file = join(directory, "compiled");
  const bound = 4_000;
  const code = "x".repeat(400);
  const first = new CompileCache(file, bound);
  first.add("used", { code, map: "{}" });
  await first.settle();

  const second = new CompileCache(file, bound);
  expect(await second.get("used")).toBeDefined();
  for (let version = 0; version < 40; version++) {
    second.add(`version${version}`, { code, map: "{}" });
    await second.settle();
    expect((await stat(file)).size).toBeLessThanOrEqual(bound);
  }

  const third = new CompileCache(file, bound);
  expect(await third.get("used")).toBeDefined();
  expect(await third.get("version39")).toBeDefined();
  expect(await third.get("version38")).toBeDefined();
  expect(await third.get("version0")).toBeUndefined();
  expect(await third.get("version20")).toBeUndefined();
  await rm(directory, { recursive: true });
});
