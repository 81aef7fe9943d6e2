import { crc32 } from "node:zlib";
import { expect, it } from "vitest";
import { readSkillText } from "../../../../server/src/sources/skills/front-matter.ts";
import type { Skill } from "../../api/skill-types.ts";
import { folderOf, readFolder } from "./skill-folder.ts";
import { zip } from "./zip.ts";

const tool = {
  id: "t1",
  skillId: "s1",
  skillName: "SearXNG Search",
  name: "web_search",
  displayName: "网页搜索",
  description: "Searches the web.",
  type: "http",
  usage: { type: "object", properties: { q: { type: "string" } } },
  endpoint: "https://example.com/search?q={q}",
  enabled: true,
  status: "ok",
} as const;
const skill: Skill = {
  id: "s1",
  name: "SearXNG Search",
  mark: "searxng",
  description: 'Searches: "everything"',
  instructions: "# How\n",
  frontMatter: { license: "MIT", metadata: { author: "us" } },
  owner: "database",
  enabled: true,
  trusted: true,
  toolCount: 1,
  failedTools: 0,
  tools: [tool],
  files: [
    { path: "scripts/run.sh", size: 9, executable: true, text: "#!/bin/sh" },
    { path: "logo.png", size: 900_000, executable: false },
  ],
};

const textsOf = ({ files }: ReturnType<typeof folderOf>) =>
  new Map(
    files.map(({ path, content }) => [path.split("/").slice(1).join("/"), new TextDecoder().decode(content)]),
  );

it("writes a skill as a folder and reads the same from it", async () => {
  const folder = folderOf(skill);
  expect(folder.name).toBe("searxng-search");
  const { skill: read, tools, files } = readFolder(textsOf(folder))!;
  expect(read).toEqual({
    name: "SearXNG Search",
    description: skill.description,
    mark: "searxng",
    instructions: "# How\n",
    frontMatter: { name: "searxng-search", license: "MIT", metadata: { author: "us" } },
  });
  expect(tools).toMatchObject([{ id: "t1", name: "web_search", usage: tool.usage }]);
  expect(files).toEqual({ "scripts/run.sh": "#!/bin/sh" });
});

it("writes front matter that the server reads", async () => {
  const { frontMatter } = await readSkillText(textsOf(folderOf(skill)).get("SKILL.md")!);
  expect(frontMatter).toMatchObject({
    name: "searxng-search",
    description: skill.description,
    license: "MIT",
  });
});

it("says which files are no text, and that a folder without SKILL.md is none", () => {
  const texts = new Map([
    ["SKILL.md", "---\nname: x\n---\n"],
    ["logo.png", undefined],
  ]);
  expect(readFolder(texts)).toMatchObject({ left: ["logo.png"], files: {} });
  expect(readFolder(new Map())).toBeUndefined();
});

it("packs an archive whose directory names every file, with its checksum and mode", () => {
  const { files } = folderOf(skill);
  const archive = Buffer.from(zip(files));
  const end = archive.length - 22;
  expect(archive.readUInt32LE(end)).toBe(0x06054b50);
  expect(archive.readUInt16LE(end + 10)).toBe(files.length);
  let at = archive.readUInt32LE(end + 16);
  for (const { path, content, executable } of files) {
    expect(archive.readUInt32LE(at)).toBe(0x02014b50);
    const nameLength = archive.readUInt16LE(at + 28);
    expect(archive.toString("utf8", at + 46, at + 46 + nameLength)).toBe(path);
    const local = archive.readUInt32LE(at + 42);
    expect(archive.readUInt32LE(local)).toBe(0x04034b50);
    const from = local + 30 + archive.readUInt16LE(local + 26);
    const kept = archive.subarray(from, from + archive.readUInt32LE(at + 24));
    expect(kept.equals(Buffer.from(content))).toBe(true);
    expect(archive.readUInt32LE(at + 16)).toBe(crc32(kept));
    expect((archive.readUInt32LE(at + 38) >>> 16) & 0o777).toBe(executable ? 0o755 : 0o644);
    at += 46 + nameLength;
  }
  expect(at).toBe(end);
});
