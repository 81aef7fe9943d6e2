import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { KeptItems } from "./tool-storage.ts";

let folder: string;
beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), "toolrack-items-")), "tool");
});
afterEach(() => rm(join(folder, ".."), { recursive: true, force: true }));

describe("what a tool stores", () => {
  it("is there for the next process, and nothing is written for a tool that stores nothing", async () => {
    const items = new KeptItems(folder);
    expect(await items.refresh()).toBe(await items.refresh());
    await expect(readdir(folder)).rejects.toThrow("ENOENT");
    items.apply({ type: "set", key: "a/../b", value: { n: 1 } });
    items.apply({ type: "set", key: "__proto__", value: 2 });
    await items.settle(0, 2);
    const next = new KeptItems(folder);
    await next.refresh();
    expect(Object.entries(next.snapshot().items).sort()).toEqual([
      ["__proto__", 2],
      ["a/../b", { n: 1 }],
    ]);
  });

  it("of two processes at once is kept from both", async () => {
    const one = new KeptItems(folder);
    const other = new KeptItems(folder);
    await Promise.all([one.refresh(), other.refresh()]);
    for (let index = 0; index < 20; index++) {
      one.apply({ type: "set", key: `one-${index}`, value: index });
      other.apply({ type: "set", key: `other-${index}`, value: index });
    }
    await Promise.all([one.settle(0, 20), other.settle(0, 20)]);
    await one.refresh();
    expect(Object.keys(one.snapshot().items)).toHaveLength(40);
    other.apply({ type: "remove", key: "one-0" });
    await other.settle(0, 1);
    await one.refresh();
    expect(one.snapshot().items).not.toHaveProperty("one-0");
    other.apply({ type: "clear" });
    await other.settle(0, 1);
    await one.refresh();
    expect(one.snapshot().items).toEqual({});
  });

  it("tells a worker that knew all changes so, and one that others have outrun too", async () => {
    const items = new KeptItems(folder);
    const version = await items.refresh();
    items.apply({ type: "set", key: "a", value: 1 });
    expect(await items.settle(version, 1)).toBe(version + 1);
    items.apply({ type: "set", key: "a", value: 2 });
    items.apply({ type: "set", key: "b", value: 2 });
    expect(await items.settle(version + 1, 1)).toBe(-1);
  });

  it("has a limit, and what does not fit says so and leaves the rest", async () => {
    const items = new KeptItems(folder);
    items.apply({ type: "set", key: "small", value: 1 });
    items.apply({ type: "set", key: "large", value: "x".repeat(12 * 1024 * 1024) });
    await expect(items.settle(0, 2)).rejects.toThrow("10 MiB");
    items.apply({ type: "set", key: "k".repeat(2_000), value: 1 });
    await expect(items.settle(0, 1)).rejects.toThrow("characters");
    expect(Object.keys(items.snapshot().items)).toEqual(["small"]);
  });

  it("survives files that are not its own", async () => {
    const items = new KeptItems(folder);
    items.apply({ type: "set", key: "a", value: 1 });
    await items.settle(0, 1);
    await writeFile(join(folder, "odd.json"), "{");
    await writeFile(join(folder, "null.json"), "null");
    const next = new KeptItems(folder);
    await next.refresh();
    expect(next.snapshot().items).toEqual({ a: 1 });
  });
});
