import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { materialise, pruneMaterialised } from "./folder.ts";
import { isSafePath } from "./skill.ts";

let parent: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "toolrack-files-"));
});
afterEach(() => rm(parent, { recursive: true, force: true }));

const file = (path: string, text: string, executable = false) => ({
  path,
  content: Buffer.from(text),
  executable,
});

it("one content has one folder, however many make it at once", async () => {
  const files = [file("a/b.sh", "one", true), file("c.txt", "two")];
  const folders = await Promise.all(Array.from({ length: 8 }, () => materialise(parent, "s", files)));
  expect(new Set(folders).size).toBe(1);
  expect(await readFile(join(folders[0]!, "a/b.sh"), "utf8")).toBe("one");
  expect((await stat(join(folders[0]!, "a/b.sh"))).mode & 0o111).not.toBe(0);
  expect(await materialise(parent, "s", [file("c.txt", "other")])).not.toBe(folders[0]);
});

it("folders that nothing has used for a day are deleted, and no others", async () => {
  const [used, fresh, old] = [
    await materialise(parent, "s", [file("a", "1")]),
    await materialise(parent, "s", [file("a", "2")]),
    await materialise(parent, "s", [file("a", "3")]),
  ];
  const before = new Date(Date.now() - 48 * 60 * 60_000);
  for (const folder of [used, old]) await utimes(folder, before, before);
  await pruneMaterialised(parent, new Set([used]));
  expect([used, fresh, old].map((folder) => existsSync(folder))).toEqual([true, true, false]);
});

it.each(["../x", "/etc/passwd", "a//b", "a/../b", "", ".", "a\\b", "c:x", "a\0b"])(
  "a path that leads elsewhere is refused: %j",
  async (path) => {
    expect(isSafePath(path)).toBe(false);
    await expect(materialise(parent, "s", [file(path, "x")])).rejects.toThrow();
  },
);
