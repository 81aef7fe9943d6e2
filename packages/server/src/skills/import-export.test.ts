import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SkillBundle } from "../store/skills.ts";
import { exportSkill, exportSkills } from "./export.ts";
import { readSkillFiles } from "./folder.ts";

import { importSkills } from "./import/import.ts";
import { TestLibrary } from "./testing/library.fixture.ts";

const bundle: SkillBundle = {
  skill: {
    id: "mm0o9un9nbdcy31jfsxr",
    name: "SearXNG Search 搜索",
    mark: "searxng",
    description: 'Searches: the web, "images" & more\n第二行',
    instructions: "# 用法\n\n---\nnot front matter\n---\n\ttabs and `code`\n",
    frontMatter: {
      license: "MIT",
      "allowed-tools": "Read Grep",
      metadata: { "title-zh": "搜索", version: "1.0" },
    },
    enabled: false,
    sourcePath: "data/skills/searxng",
  },
  tools: [
    {
      id: "abc123tool456",
      name: "web_search",
      displayName: "网页搜索",
      description: "搜索网络",
      type: "http",
      usage: '{ "properties": { "q": {"type": "string"} } }',
      endpoint: "https://search.example/{q}",
      method: "GET",
      enabled: false,
    },
    {
      id: "def789tool012",
      name: "二",
      type: "script",
      command: "node 'my index.js' -x",
      usage: '{"parameters":{"properties":{}}}',
    },
    { id: "bad", name: "broken", type: "builtin", usage: "{not json", command: "x" },
  ],
  files: [
    { path: "data/bytes.bin", content: Buffer.from([0, 255, 1]), executable: false },
    { path: "my index.js", content: Buffer.from("console.log('{}')"), executable: true },
  ],
};

describe("export and import", () => {
  let fixture: TestLibrary;
  beforeEach(async () => {
    fixture = await TestLibrary.open();
  });
  afterEach(() => fixture[Symbol.asyncDispose]());

  const options = { sandbox: () => Promise.reject(new Error("no sandbox")), trusted: true, replace: false };

  it("lose nothing: the same skill with the same ids, tools and files, byte by byte", async () => {
    const { library, store, directory } = fixture;
    const skill = await library.add(bundle);
    const [tools, files] = [await store.skills.listTools(skill.id), await store.skills.listFiles(skill.id)];
    const folder = await exportSkill(skill, () => library.filesOf(skill), join(directory, "out"));
    expect(folder).toBe(join(directory, "out", "searxng-search"));
    await library.remove(skill.id);
    const imported = await importSkills(library, [folder], options);
    expect(imported.failed).toEqual([]);
    const times = { createdAt: expect.any(Number), updatedAt: expect.any(Number) };
    const again = await store.skills.get(skill.id);
    const {
      createdAt: _made,
      updatedAt: _changed,
      directory: _d,
      owner: _o,
      revision: _r,
      tools: _t,
      warnings: _w,
      ...same
    } = skill;
    // The name that the format allows is kept beside the one that people see.
    expect(again).toEqual({
      ...same,
      ...times,
      frontMatter: { name: "searxng-search", ...same.frontMatter },
      frontMatterText: expect.stringContaining("license: MIT"),
    });
    expect(await store.skills.listTools(skill.id)).toEqual(tools.map((tool) => ({ ...tool, ...times })));
    expect(await store.skills.listFiles(skill.id)).toEqual(files);

    const second = await exportSkill(
      library.require(skill.id),
      () => library.filesOf(library.require(skill.id)),
      join(directory, "again"),
    );
    expect(await readSkillFiles(second)).toEqual(await readSkillFiles(folder));
  });

  it("refuse to overwrite, unless it is said so", async () => {
    const { library, directory } = fixture;
    const skill = await library.add(bundle);
    const write = (replace: boolean) =>
      exportSkill(skill, () => library.filesOf(skill), join(directory, "out"), { replace });
    const folder = await write(false);
    await expect(write(false)).rejects.toThrow("is there already");
    await write(true);
    const refused = await importSkills(library, [folder], options);
    expect(refused.failed).toMatchObject([{ reason: expect.stringContaining("already") }]);
    await writeFile(join(folder, "tools.json"), "[]");
    const replaced = await importSkills(library, [folder], { ...options, replace: true });
    expect(replaced.skills[0]?.tools).toEqual([]);
    expect(await fixture.store.skills.list()).toHaveLength(1);
  });

  it("keep every word of a front matter that is not ours, and its comments", async () => {
    const { library, directory } = fixture;
    const own =
      "name: pdf\ndescription: 'ends with dashes ---'\n# why not 2\nversion: 1.10\nlimit: 1e3 # many\ndate: 2026-01-02";
    await fixture.write("in/pdf/SKILL.md", `---\n${own}\n---\n# PDF\n\n---\n`);
    const { skills } = await importSkills(library, [join(directory, "in/pdf")], options);
    expect(skills[0]).toMatchObject({ description: "ends with dashes ---", instructions: "# PDF\n\n---\n" });
    const exporting = async (to: string) => {
      const skill = library.require("pdf");
      const folder = await exportSkill(skill, () => library.filesOf(skill), join(directory, to));
      return readFile(join(folder, "SKILL.md"), "utf8");
    };
    const first = await exporting("one");
    expect(first).toBe(`---\n${own}\nmetadata:\n  toolrack-id: pdf\n---\n# PDF\n\n---\n`);
    await library.update("pdf", { description: "New: 1.10", frontMatter: { version: 2, limit: 1000 } });
    expect(await exporting("two")).toBe(
      '---\nname: pdf\ndescription: "New: 1.10"\n# why not 2\nversion: 2\nlimit: 1e3 # many\nmetadata:\n  toolrack-id: pdf\n---\n# PDF\n\n---\n',
    );
  });

  it("replace nothing but an earlier export of the same skill, and go on with the others", async () => {
    const { library, directory } = fixture;
    await library.add({ skill: { id: "one", name: "Same Slug" }, tools: [], files: [] });
    await library.add({ skill: { id: "two", name: "same-slug" }, tools: [], files: [] });
    await library.add({ skill: { id: "three", name: "Work" }, tools: [], files: [] });
    await fixture.write("out/work/thesis.txt", "three years");
    const out = join(directory, "out");
    const { folders, failed } = await exportSkills(library, library.list(), out, { replace: true });
    expect(failed).toMatchObject([
      { name: "Work", reason: expect.stringContaining("no export of the skill") },
    ]);
    expect(await readFile(join(out, "work/thesis.txt"), "utf8")).toBe("three years");
    expect(new Set(folders).size).toBe(2);
    for (const folder of folders) expect(basename(folder)).toMatch(/^same-slug-\w+$/);
    const again = await exportSkills(library, library.list(), out, { replace: true });
    expect(again.folders).toEqual(folders);
    expect((await readdir(out)).sort()).toEqual(
      [...folders.map((folder) => basename(folder)), "work"].sort(),
    );
    // Without a name of its own it is refused, and not written over the other.
    const [, second] = library.list();
    await exportSkill(library.require("one"), async () => [], out);
    await expect(exportSkill(second!, async () => [], out, { replace: true })).rejects.toThrow("no export");
  });

  it("a folder and the database never own one skill together", async () => {
    const { library, directory } = fixture;
    const skill = await library.add(bundle);
    await exportSkill(skill, () => library.filesOf(skill), join(directory, "skills"));
    await library.reload();
    expect(library.failedFolders()).toMatchObject([
      { folder: join("skills", "searxng-search"), reason: expect.stringContaining("one owner") },
    ]);
    await library.remove(skill.id);
    await library.reload();
    expect(library.require(skill.id).owner).toBe("folder");
    await expect(library.add(bundle)).rejects.toThrow("one owner");
  });

  it("take what is imported for somebody else's", async () => {
    await fixture.write("elsewhere/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n");
    const { skills } = await importSkills(fixture.library, [join(fixture.directory, "elsewhere")], {
      ...options,
      trusted: false,
    });
    expect(skills).toMatchObject([{ id: "pdf", trusted: false, owner: "database" }]);
  });

  it.each([
    ["no end of the front matter", "---\nname: x\n", /no end/],
    ["broken YAML", "---\nname: 'x\n---\n", /line \d/],
    ["a front matter that is a list", "---\n- a\n---\n", /must be a map/],
    [
      "a bomb of aliases",
      `---\na: &a [1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n---\n`,
      /alias/i,
    ],
    [
      "tags that would run code",
      "---\nname: !!js/function 'function(){ process.exit(1) }'\n---\n",
      undefined,
    ],
  ])("a SKILL.md with %s harms nobody else", async (_what, text, reason) => {
    await fixture.write("skills/bad/SKILL.md", text);
    await fixture.write("skills/good/SKILL.md", "---\nname: good\ndescription: d\n---\n");
    await fixture.library.reload();
    expect(fixture.library.find("good")).toBeDefined();
    const failed = fixture.library.failedFolders();
    if (reason === undefined) expect(failed).toEqual([]);
    else
      expect(failed).toMatchObject([
        { folder: join("skills", "bad"), reason: expect.stringMatching(reason) },
      ]);
  });

  it("a folder's change and end are seen by the next reload", async () => {
    await fixture.write("skills/a/SKILL.md", "---\nname: a\ndescription: one\n---\n");
    await fixture.write("skills/a/tools.json", '[{"name":"t","type":"http","endpoint":"https://x.example"}]');
    await fixture.library.reload();
    const before = fixture.registry.get("a__t");
    await fixture.library.reload();
    expect(fixture.registry.get("a__t")).toBe(before);
    await fixture.write(
      "skills/a/tools.json",
      '[{"name":"t","type":"http","endpoint":"https://x.example","description":"new"}]',
    );
    await fixture.library.reload();
    expect(fixture.registry.get("a__t")).toMatchObject({ name: before?.name, description: "new" });
    await fixture.write("skills/a/tools.json", "[{}]");
    await fixture.library.reload();
    expect(fixture.library.failedFolders()).toMatchObject([
      { reason: expect.stringContaining("tools[0].name"), code: "tools_file_invalid" },
    ]);
    await rm(join(fixture.directory, "skills/a"), { recursive: true });
    await fixture.library.reload();
    expect(fixture.library.list()).toEqual([]);
  });
});

describe("import of tables", () => {
  const mysql = `-- MySQL dump 10.13
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS \`skill_tools\`;
CREATE TABLE \`skill_tools\` (
  \`id\` varchar(32) NOT NULL COMMENT 'the (id), with comma',
  \`skill_id\` varchar(64) NOT NULL,
  \`name\` varchar(64) NOT NULL,
  \`description\` text,
  \`type\` enum('http','script','builtin') DEFAULT NULL,
  \`usage\` text,
  \`command\` varchar(512),
  \`endpoint\` varchar(512),
  \`method\` varchar(16),
  PRIMARY KEY (\`id\`),
  UNIQUE KEY \`idx_skill_name\` (\`skill_id\`,\`name\`)
) ENGINE=InnoDB;
INSERT INTO \`skill_tools\` VALUES ('abc123tool456','mm0o9un9nbdcy31jfsxr','web_search','搜索网络; it\\'s \\"fast\\"\\nline','http','{\\"properties\\":{\\"q\\":{\\"type\\":\\"string\\"}}}',NULL,'https://s.example/','GET'),('def789tool012','mm0o9un9nbdcy31jfsxr','image_search','it''s','script',NULL,'node index.js',NULL,NULL),
('lost','nobody','x',NULL,'http',NULL,NULL,NULL,NULL);
INSERT INTO \`users\` (\`id\`) VALUES (1);
INSERT INTO \`skills\` (\`id\`, \`name\`, \`description\`, \`is_active\`, \`created_at\`) VALUES ('mm0o9un9nbdcy31jfsxr','SearXNG Search','d',1,NOW());
INSERT INTO \`experts\` (\`id\`,\`expert_name\`,\`introduction\`) VALUES ('e1','搜索专家','finds');
INSERT INTO \`expert_skills\` (\`id\`,\`expert_id\`,\`skill_id\`,\`is_enabled\`) VALUES (1,'e1','mm0o9un9nbdcy31jfsxr',1),(2,'e1','gone',1);
`;
  const postgres = `SET client_encoding = 'UTF8';
CREATE TABLE public.skills (id character varying(64) NOT NULL, name character varying(64), skill_md text, is_active boolean);
COPY public.skills (id, name, skill_md, is_active) FROM stdin;
s1\tTab\\tbed\t# Hi\\nthere \\\\ x\tf
\\.
INSERT INTO public.skill_tools (id, skill_id, name, parameters, script_path) VALUES ('t1', 's1', 'run', '{"type":"object","properties":{"a\\b":{}}}', 'main.py');
`;
  const sqlite = `PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE skills (id VARCHAR(64) PRIMARY KEY, "name" TEXT, description TEXT);
INSERT INTO skills VALUES('q1','Quote '' and \\ back','x');
COMMIT;
`;

  async function importing(files: Record<string, string>) {
    const fixture = await TestLibrary.open();
    await mkdir(join(fixture.directory, "in"));
    for (const [name, text] of Object.entries(files)) await fixture.write(`in/${name}`, text);
    const paths = Object.keys(files).map((name) => join(fixture.directory, "in", name));
    const sandbox = () => Promise.reject(new Error("no sandbox"));
    return {
      fixture,
      imported: await importSkills(fixture.library, paths, { sandbox, trusted: true, replace: false }),
    };
  }

  it("reads a dump of MySQL with ids, escapes and experts", async () => {
    const { fixture, imported } = await importing({ "dump.sql": mysql });
    await using _ = fixture;
    expect(imported.failed).toEqual([]);
    expect(imported.warnings).toEqual([expect.stringContaining('1 tools of the skill "nobody"')]);
    const [first, second] = await fixture.store.skills.listTools("mm0o9un9nbdcy31jfsxr");
    expect(first).toMatchObject({
      id: "abc123tool456",
      description: '搜索网络; it\'s "fast"\nline',
      usage: '{"properties":{"q":{"type":"string"}}}',
      endpoint: "https://s.example/",
    });
    expect(second).toMatchObject({ name: "image_search", description: "it's", command: "node index.js" });
    expect(fixture.registry.get("searxng_search__web_search")?.name).toBe("abc123tool456");
    expect(fixture.library.experts.require("搜索专家")).toMatchObject({
      id: "e1",
      skills: ["mm0o9un9nbdcy31jfsxr"],
    });
  });

  it("reads dumps of PostgreSQL and SQLite", async () => {
    const { fixture, imported } = await importing({ "pg.sql": postgres, "lite.sql": sqlite });
    await using _ = fixture;
    expect(imported.skills).toMatchObject([
      { id: "s1", name: "Tab\tbed", instructions: "# Hi\nthere \\ x", enabled: false },
      { id: "q1", name: "Quote ' and \\ back" },
    ]);
    expect(imported.skills[0]?.tools).toMatchObject([
      {
        id: "t1",
        type: "script",
        command: "python3 main.py",
        usage: '{"type":"object","properties":{"a\\b":{}}}',
      },
    ]);
  });

  it("reads CSV files named like their tables", async () => {
    const { fixture, imported } = await importing({
      "skills.csv": '\uFEFFid,name,description\r\ns1,"Weather, local","says ""sunny""\r\nor not"\r\n',
      "skill_tools.csv": "id,skill_id,name,type,endpoint\nt1,s1,now,http,https://w.example/{city}\n",
    });
    await using _ = fixture;
    expect(imported.skills).toMatchObject([
      { name: "Weather, local", description: 'says "sunny"\r\nor not', tools: [{ id: "t1", type: "http" }] },
    ]);
  });

  it("reads CSV as spreadsheets of other countries write it", async () => {
    const { fixture, imported } = await importing({
      "skills.csv": "ID;Name;Is_Active\ns1;Weather, local;0\n",
    });
    await using _ = fixture;
    expect(imported.skills).toMatchObject([{ id: "s1", name: "Weather, local", enabled: false }]);
  });

  it("holds every row to what the API takes, and imports the others", async () => {
    const long = "x".repeat(300);
    const { fixture, imported } = await importing({
      "d.sql": `INSERT INTO \`skills\` (id,name,is_active) VALUES ('a','A',1),('b','B',1),('中文id','C',1),('d','D','\\0');
INSERT INTO skill_tools (id,skill_id,name,type,endpoint) VALUES ('t','a','${long}','http','https://x.example');
INSERT INTO experts (id,name) VALUES ('e','a/b'),('f','..'),('g','Good');`,
    });
    await using _ = fixture;
    expect(imported.skills).toMatchObject([{ id: "b" }, { id: "d", enabled: false }]);
    expect(imported.experts).toMatchObject([{ id: "g" }]);
    expect(imported.failed.map(({ name }) => name).sort()).toEqual([
      "A",
      "expert ..",
      "expert a/b",
      "skill C",
    ]);
    expect(imported.failed.find(({ name }) => name === "A")?.reason).toContain("tools[0].name");
  });

  it.each([
    ["skills.csv", "id,name\n", /no skill and no expert/],
    ["cut.sql", "INSERT INTO skills (id,name) VALUES ('a','b", /line 1: a quote is not closed/],
    ["odd.sql", "INSERT INTO skills (id,name) VALUES ('a');", /1 values for 2 columns/],
    ["none.sql", "SELECT 1;", /no rows of skills/],
    ["people.csv", "a,b\n", /neither a .sql dump/],
  ])("says what is wrong with %s", async (name, text, reason) => {
    await expect(importing({ [name]: text })).rejects.toThrow(reason);
  });

  it("keeps a tool whose usage is broken, as failed", async () => {
    const { fixture, imported } = await importing({
      "d.sql": `INSERT INTO skills (id,name) VALUES ('s','S'); INSERT INTO skill_tools (id,skill_id,name,type,endpoint,\`usage\`) VALUES ('t','s','t','http','https://x.example','{oops'),('u','s','u','http','https://x.example','');`,
    });
    await using _ = fixture;
    expect(imported.skills[0]?.tools).toHaveLength(2);
    expect(fixture.library.failureOf("t")).toContain("not JSON");
    expect(fixture.registry.get("u")).toBeDefined();
  });
});
