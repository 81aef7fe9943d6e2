import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
  new Map(files.map(({ path, content }) => [path.split("/").slice(1).join("/"), new TextDecoder().decode(content)]));

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
  expect(frontMatter).toMatchObject({ name: "searxng-search", description: skill.description, license: "MIT" });
});

it("says which files are no text, and that a folder without SKILL.md is none", () => {
  const texts = new Map([
    ["SKILL.md", "---\nname: x\n---\n"],
    ["logo.png", undefined],
  ]);
  expect(readFolder(texts)).toMatchObject({ left: ["logo.png"], files: {} });
  expect(readFolder(new Map())).toBeUndefined();
});

it("packs an archive that other programs open", () => {
  const directory = mkdtempSync(join(tmpdir(), "toolrack-zip-"));
  try {
    const { files } = folderOf(skill);
    writeFileSync(join(directory, "skill.zip"), zip(files));
    const script = "import zipfile, sys; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall(sys.argv[2]); print(*z.namelist(), sep='\\n')";
    const names = execFileSync("python3", ["-c", script, join(directory, "skill.zip"), directory], { encoding: "utf8" });
    expect(names.trim().split("\n")).toEqual(files.map(({ path }) => path));
    expect(readFileSync(join(directory, "searxng-search/scripts/run.sh"), "utf8")).toBe("#!/bin/sh");
    expect(statSync(join(directory, "skill.zip")).size).toBeGreaterThan(0);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
