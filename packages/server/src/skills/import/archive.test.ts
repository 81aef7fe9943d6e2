import { deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { SkillFile } from "../../store/skills.ts";
import { readZip, writeZip } from "./archive.ts";

const limits = { files: 10, bytes: 1_000_000 };
const file = (path: string, text: string, executable = false): SkillFile => ({
  path,
  content: Buffer.from(text),
  executable,
});
const files = [
  file("天气/SKILL.md", "# 天气"),
  file("天气/scripts/run.sh", "#!/bin/sh", true),
  file("天气/empty", ""),
];

describe("a zip archive", () => {
  it("gives back what was packed: paths, contents and modes", async () => {
    expect(await readZip(await writeZip(files), limits)).toEqual(files);
  });

  it("may be compressed", async () => {
    const text = "again and again ".repeat(1_000);
    expect(await readZip(await deflated(file("a.md", text)), limits)).toEqual([file("a.md", text)]);
  });

  it("may end with a comment, and has no folders, links or what macOS adds", async () => {
    const packed = await writeZip([
      file("__MACOSX/._a", "x"),
      file("a/.DS_Store", "x"),
      file("folder-", ""),
      file("a/b", "b"),
    ]);
    for (const at of [packed.indexOf("folder-"), packed.lastIndexOf("folder-")]) packed.write("folder/", at);
    const commented = Buffer.concat([packed, Buffer.from("made by hand")]);
    commented.writeUInt16LE(12, packed.length - 2);
    expect((await readZip(commented, limits)).map(({ path }) => path)).toEqual(["a/b"]);
    const link = await writeZip([file("to-etc", "/etc/passwd")]);
    link.writeUInt32LE(0o120777 * 0x10000, directoryOf(link) + 38);
    expect(await readZip(link, limits)).toEqual([]);
  });

  it.each<[string, Buffer | Promise<Buffer>, RegExp]>([
    ["is none", Buffer.from("not at all an archive, only text"), /no zip archive/],
    ["is empty", Buffer.alloc(0), /no zip archive/],
    ["is cut off", writeZip(files).then((bytes) => bytes.subarray(20)), /damaged/],
    ["was changed", writeZip(files).then(changed), /damaged/],
    ["is encrypted", writeZip(files).then(encrypted), /"天气\/SKILL.md" is encrypted/],
    [
      "has too many files",
      writeZip(Array.from({ length: 11 }, (_, at) => file(`${at}`, ""))),
      /more than 10 files/,
    ],
    ["unpacks to too much", deflated(file("bomb", "0".repeat(2_000_000))), /more than can be imported/],
    [
      "lies about how much it unpacks to",
      deflated(file("bomb", "0".repeat(2_000_000))).then(lying),
      /more than can be/,
    ],
  ])("is refused when it %s", async (_, bytes, reason) => {
    await expect(readZip(await bytes, limits)).rejects.toThrow(reason);
  });
});

/** One file, compressed as other programs do. */
async function deflated(one: SkillFile): Promise<Buffer> {
  const raw = deflateRawSync(one.content);
  const stored = await writeZip([one]);
  const data = 30 + Buffer.byteLength(one.path);
  const head = Buffer.from(stored.subarray(0, data));
  const tail = Buffer.from(stored.subarray(data + one.content.length));
  head.writeUInt16LE(8, 8);
  tail.writeUInt16LE(8, 10);
  tail.writeUInt32LE(raw.length, 20);
  tail.writeUInt32LE(data + raw.length, tail.length - 22 + 16);
  return Buffer.concat([head, raw, tail]);
}

function directoryOf(archive: Buffer): number {
  return archive.readUInt32LE(archive.length - 22 + 16);
}

function lying(archive: Buffer): Buffer {
  archive.writeUInt32LE(10, directoryOf(archive) + 24);
  return archive;
}

function encrypted(archive: Buffer): Buffer {
  archive.writeUInt16LE(1, directoryOf(archive) + 8);
  return archive;
}

function changed(archive: Buffer): Buffer {
  archive.write("X", 30 + Buffer.byteLength("天气/SKILL.md"));
  return archive;
}
