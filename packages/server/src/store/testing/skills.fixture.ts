import { beforeAll, describe, expect, test } from "vitest";
import { ExpertConflictError, SkillConflictError } from "../errors.ts";
import { newId } from "../keys.ts";
import type { NewSkillTool } from "../skills.ts";

import type { Store } from "../store.ts";
import type { TestPlace } from "./engines.fixture.ts";

/** What every engine must do with skills, their tools and files, and experts. */
export function testSkills(place: TestPlace): void {
  let store: Store;
  /** Another node of the same database. */
  let other: Store;
  beforeAll(async () => {
    const options = await place.make();
    store = await place.open(options);
    other = await place.open(options);
  });

  const webSearch: NewSkillTool = {
    name: "web_search",
    displayName: "网页搜索 🔎",
    description: "搜索网络",
    type: "http",
    usage: '{"properties":{"query":{"type":"string"}}}',
    endpoint: "https://search.example/{query}",
    method: "GET",
  };

  test("ids are tool names with every provider, unique, and grow with time", async () => {
    const ids = Array.from({ length: 1000 }, newId);
    expect(new Set(ids).size).toBe(1000);
    expect(ids.every((id) => /^[a-z][a-z0-9]{24}$/.test(id))).toBe(true);
    expect([...ids].sort()).toEqual(ids);
  });

  describe("skills", () => {
    test("are kept whole, with their tools in order and their files byte by byte", async () => {
      const content = Buffer.from([0, 255, 10, 13, 128]);
      const skill = await store.skills.add({
        skill: {
          id: "mm0o9un9nbdcy31jfsxr",
          name: "SearXNG Search",
          mark: "searxng",
          description: "搜索互联网获取信息",
          instructions: "# Use\n'quotes' \\ and 😀",
          frontMatter: { license: "MIT", metadata: { "title-zh": "搜索" } },
          sourcePath: "data/skills/searxng",
          trusted: false,
        },
        tools: [
          { id: "abc123tool456", ...webSearch },
          { name: "image_search", type: "builtin", command: "x" },
        ],
        files: [{ path: "scripts/run.py", content, executable: true }],
      });
      expect(skill).toMatchObject({ enabled: true, trusted: false, mark: "searxng" });
      expect(await other.skills.get(skill.id)).toEqual(skill);
      const tools = await other.skills.listTools(skill.id);
      expect(tools.map(({ name }) => name)).toEqual(["web_search", "image_search"]);
      expect(tools[0]).toMatchObject({ id: "abc123tool456", skillId: skill.id, enabled: true, ...webSearch });
      expect(await other.skills.listFiles(skill.id)).toEqual([
        { path: "scripts/run.py", content, executable: true },
      ]);
    });

    test("do not share a name, a mark or an id", async () => {
      const add = (skill: { name: string; id?: string; mark?: string }) =>
        store.skills.add({ skill, tools: [], files: [] });
      await expect(add({ name: "SearXNG Search" })).rejects.toMatchObject({ field: "name" });
      await expect(add({ name: "Other", mark: "searxng" })).rejects.toMatchObject({ field: "mark" });
      await expect(add({ name: "Other", id: "mm0o9un9nbdcy31jfsxr" })).rejects.toMatchObject({ field: "id" });
      await add({ name: "No mark" });
      await add({ name: "No mark either" });
      expect((await store.skills.list()).map(({ name }) => name)).toEqual([
        "SearXNG Search",
        "No mark",
        "No mark either",
      ]);
    });

    test("change in what is said, and lose what is taken away", async () => {
      const id = "mm0o9un9nbdcy31jfsxr";
      const changed = await store.skills.update(id, { description: "new", mark: null, enabled: false });
      expect(changed).toMatchObject({ name: "SearXNG Search", description: "new", enabled: false });
      expect(changed).not.toHaveProperty("mark");
      expect(await other.skills.get(id)).toEqual(changed);
      await expect(store.skills.update(id, { name: "No mark" })).rejects.toBeInstanceOf(SkillConflictError);
      expect(await store.skills.update("nobody", { description: "x" })).toBeUndefined();
    });

    test("are replaced whole or not at all, and tools with the same id stay as old as they are", async () => {
      const id = "mm0o9un9nbdcy31jfsxr";
      const before = (await store.skills.listTools(id))[0]!;
      await expect(
        store.skills.replace(id, { skill: { name: "No mark" }, tools: [], files: [] }),
      ).rejects.toBeInstanceOf(SkillConflictError);
      expect(await store.skills.listTools(id)).toHaveLength(2);
      await store.skills.replace(id, {
        skill: { name: "SearXNG Search" },
        tools: [{ ...webSearch, id: before.id, description: "again" }],
        files: [],
      });
      const tools = await other.skills.listTools(id);
      expect(tools).toMatchObject([{ id: before.id, description: "again", createdAt: before.createdAt }]);
      expect(await other.skills.listFiles(id)).toEqual([]);
    });
  });

  describe("tools of skills", () => {
    const skillId = "mm0o9un9nbdcy31jfsxr";

    test("have a name of their own within the skill, in small and capital letters", async () => {
      await expect(store.skills.addTool(skillId, webSearch)).rejects.toMatchObject({
        field: "name",
        message: expect.stringContaining("web_search"),
      });
      const capital = await store.skills.addTool(skillId, { ...webSearch, name: "Web_Search" });
      const elsewhere = (await store.skills.list())[1]!;
      expect(await store.skills.addTool(elsewhere.id, webSearch)).toMatchObject({ name: "web_search" });
      await expect(
        store.skills.addTool(elsewhere.id, { ...webSearch, name: "b", id: capital!.id }),
      ).rejects.toMatchObject({ field: "id" });
      expect(await store.skills.addTool("nobody", webSearch)).toBeUndefined();
    });

    test("are refused when two nodes make one name at the same moment", async () => {
      const outcomes = await Promise.allSettled(
        [store, other, store, other].map(({ skills }) =>
          skills.addTool(skillId, { name: "race", type: "builtin", command: "x" }),
        ),
      );
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    });

    test("change and go", async () => {
      const tool = (await store.skills.listTools(skillId)).find(({ name }) => name === "race")!;
      const changed = await store.skills.updateTool(tool.id, {
        type: "http",
        command: null,
        endpoint: "https://x",
      });
      expect(changed).toMatchObject({ type: "http", endpoint: "https://x", name: "race" });
      expect(changed).not.toHaveProperty("command");
      expect(await other.skills.getTool(tool.id)).toEqual(changed);
      await expect(store.skills.updateTool(tool.id, { name: "web_search" })).rejects.toMatchObject({
        field: "name",
      });
      expect(await store.skills.removeTool(tool.id)).toBe(true);
      expect(await store.skills.removeTool(tool.id)).toBe(false);
      expect(await store.skills.updateTool(tool.id, { name: "x" })).toBeUndefined();
    });

    test("of an unknown type are refused by the database itself", async () => {
      // A program without types may ask for it.
      const wrong = { name: "wrong", type: "magic" } as unknown as NewSkillTool;
      await expect(store.skills.addTool(skillId, wrong)).rejects.toThrow();
    });

    test("may be many, and hold nobody up while they are written, replaced or removed", async () => {
      const tools = Array.from({ length: 12_000 }, (_, index) => ({ ...webSearch, name: `tool_${index}` }));
      const bundle = { skill: { name: "Many" }, tools, files: [] };
      /** How often others had a turn meanwhile. */
      const turnsDuring = async (work: () => Promise<unknown>) => {
        let turns = 0;
        let next = setImmediate(function count() {
          turns++;
          next = setImmediate(count);
        });
        await work();
        clearImmediate(next);
        return turns;
      };
      let id = "";
      const add = async () => {
        ({ id } = await store.skills.add(bundle));
      };
      expect(await turnsDuring(add)).toBeGreaterThan(20);
      expect(await other.skills.listTools(id)).toHaveLength(12_000);
      expect(await turnsDuring(() => store.skills.replace(id, bundle))).toBeGreaterThan(20);
      expect(await other.skills.listTools(id)).toHaveLength(12_000);
      expect(await turnsDuring(() => store.skills.remove(id))).toBeGreaterThanOrEqual(2);
      expect(await other.skills.listTools(id)).toEqual([]);
    });
  });

  describe("experts", () => {
    test("keep their skills in order and their patterns", async () => {
      const expert = await store.experts.add({
        name: "Support 客服",
        description: "d",
        instructions: "Be kind.",
        skills: ["b", "mm0o9un9nbdcy31jfsxr", "b", "a"],
        tools: ["internal_file_*"],
      });
      expect(expert).toMatchObject({
        skills: ["b", "mm0o9un9nbdcy31jfsxr", "a"],
        tools: ["internal_file_*"],
      });
      expect(await other.experts.list()).toEqual([expert]);
    });

    test("do not share a name, whatever the case", async () => {
      await expect(store.experts.add({ name: "support 客服" })).rejects.toBeInstanceOf(ExpertConflictError);
      const second = await store.experts.add({ name: "Second" });
      await expect(store.experts.update(second.id, { name: "SUPPORT 客服" })).rejects.toMatchObject({
        field: "name",
      });
    });

    test("change and go, and a skill that goes leaves them", async () => {
      const [expert, second] = await store.experts.list();
      expect(await store.experts.update(second!.id, { skills: ["b"], description: "x" })).toMatchObject({
        name: "Second",
        skills: ["b"],
        description: "x",
      });
      expect(await store.skills.remove("mm0o9un9nbdcy31jfsxr")).toBe(true);
      expect((await other.experts.list())[0]?.skills).toEqual(["b", "a"]);
      expect(await store.experts.remove(expert!.id)).toBe(true);
      expect(await store.experts.remove(expert!.id)).toBe(false);
      expect(await store.experts.update("nobody", {})).toBeUndefined();
    });

    test("and skills count in the registry's version", async () => {
      const before = await store.registryVersion.read();
      await other.experts.add({ name: "Third" });
      await other.skills.add({ skill: { name: "Counted" }, tools: [], files: [] });
      expect(await store.registryVersion.read()).toBe(before + 2);
    });
  });
}
