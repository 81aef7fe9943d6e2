import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestLibrary, TestService } from "./testing/library.fixture.ts";
import { SkillLoader, ToolManager } from "./tool-manager.ts";

/** The rows of the specification's own example. */
const skill = {
  id: "mm0o9un9nbdcy31jfsxr",
  name: "SearXNG Search",
  description: "搜索互联网获取信息",
  sourcePath: "data/skills/searxng",
};
const indexJs = `module.exports = {
  getTools: () => [],
  execute: async (toolName, params, context) => ({ success: true, data: { toolName, params, expertId: context.expertId } }),
};`;

describe("ToolManager and SkillLoader", () => {
  let fixture: TestLibrary;
  let service: TestService;
  let manager: ToolManager;

  beforeAll(async () => {
    service = await TestService.start((_incoming, outgoing) => {
      outgoing.setHeader("content-type", "application/json");
      outgoing.end('{"temperature":21}');
    });
    fixture = await TestLibrary.open({
      allowPrivate: ["127.0.0.1"],
      files: { "data/skills/searxng/index.js": indexJs },
    });
    fixture.registry.register({
      ...Tool.define({ name: "internal_file_read", parameters: { type: "object" }, execute: () => "text" }),
      aliases: ["builtin_file_read"],
    });
    const parameters = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
    const script = { type: "script" as const, command: "node index.js", usage: JSON.stringify(parameters) };
    await fixture.library.add({
      skill,
      tools: [
        {
          id: "abc123tool456",
          name: "web_search",
          displayName: "网页搜索",
          description: "搜索网络",
          ...script,
        },
        {
          id: "def789tool012",
          name: "image_search",
          displayName: "图片搜索",
          description: "搜索图片",
          ...script,
        },
      ],
      files: [],
    });
    await fixture.library.add({
      skill: { id: "weather456", name: "Weather" },
      tools: [{ id: "xyz789tool345", name: "get_weather", type: "http", endpoint: `${service.url}/w` }],
      files: [],
    });
    const { id } = await fixture.library.experts.create({
      name: "Searcher",
      skills: ["mm0o9un9nbdcy31jfsxr"],
      tools: ["builtin_file_*"],
    });
    manager = new ToolManager({ registry: fixture.registry, library: fixture.library, expertId: id });
  });
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  it("give the model the tool's id, and nothing of what we know beside it", async () => {
    const skills = await manager.initialize();
    expect(skills.map(({ name }) => name)).toEqual(["SearXNG Search"]);
    const definitions = manager.getToolDefinitions();
    expect(definitions.map((tool) => tool.function.name)).toEqual([
      "abc123tool456",
      "builtin_file_read",
      "def789tool012",
    ]);
    expect(JSON.stringify(definitions)).not.toMatch(/_meta|skillId|searxng/i);
  });

  it("convert a row with _meta as the specification writes it", async () => {
    const loader = new SkillLoader({ registry: fixture.registry, library: fixture.library });
    const [loaded] = await loader.loadSkillsForExpert("Searcher");
    const [tool] = await loader.loadSkillTools(loaded!);
    expect(tool).toEqual({
      type: "function",
      function: {
        name: "abc123tool456",
        description: "搜索网络",
        parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
      },
      _meta: {
        toolId: "abc123tool456",
        skillId: "mm0o9un9nbdcy31jfsxr",
        skillName: "SearXNG Search",
        toolName: "web_search",
        toolDisplayName: "网页搜索",
        sourcePath: "data/skills/searxng",
        command: "node index.js",
        type: "script",
      },
    });
    expect(manager.toolRegistry.get("def789tool012")).toMatchObject({
      toolName: "image_search",
      type: "script",
    });
    const direct = await loader.executeSkillTool("mm0o9un9nbdcy31jfsxr", "web_search", { query: "x" });
    expect(direct.structured).toMatchObject({ data: { toolName: "web_search" } });
  });

  it("run a model's calls, and carry the very name back", async () => {
    const outcomes = await manager.executeToolCalls([
      {
        id: "call_xyz789",
        type: "function",
        function: { name: "abc123tool456", arguments: '{"query":"上海天气"}' },
      },
      { id: "call_2", type: "function", function: { name: "builtin_file_read", arguments: "{}" } },
      { id: "call_3", type: "function", function: { name: "abc123tool456", arguments: "{query:" } },
    ]);
    const { id: expertId } = fixture.library.experts.require("Searcher");
    expect(manager.formatToolResultsForLLM(outcomes)).toEqual([
      {
        role: "tool",
        tool_call_id: "call_xyz789",
        name: "abc123tool456",
        content: JSON.stringify({
          success: true,
          data: { toolName: "web_search", params: { query: "上海天气" }, expertId },
        }),
      },
      {
        role: "tool",
        tool_call_id: "call_2",
        name: "builtin_file_read",
        content: '{"success":true,"data":"text"}',
      },
      {
        role: "tool",
        tool_call_id: "call_3",
        name: "abc123tool456",
        content: expect.stringContaining('"success":false'),
      },
    ]);
    expect(outcomes[0]).toMatchObject({ displayName: "SearXNG Search/web_search", success: true });
    expect(fixture.messages).toContain("[ToolManager] 执行工具: SearXNG Search/web_search");
  });

  it("show people the readable name, and a tool that is gone by its id", () => {
    expect(manager.formatToolDisplay("abc123tool456")).toBe("SearXNG Search/web_search");
    expect(manager.formatToolDisplay("gone")).toBe("gone");
  });

  it("tell each tool's skill, and each skill's tools", () => {
    expect(manager.toolToSkill).toEqual(
      new Map([
        ["abc123tool456", "mm0o9un9nbdcy31jfsxr"],
        ["def789tool012", "mm0o9un9nbdcy31jfsxr"],
      ]),
    );
    expect([...manager.skills.values()]).toMatchObject([
      {
        id: "mm0o9un9nbdcy31jfsxr",
        name: "SearXNG Search",
        description: "搜索互联网获取信息",
        tools: [
          { function: { name: "abc123tool456" }, _meta: { toolName: "web_search" } },
          { function: { name: "def789tool012" }, _meta: { toolName: "image_search" } },
        ],
      },
    ]);
  });

  it("take a skill beside those of the expert", async () => {
    const expertId = fixture.library.experts.require("Searcher").id;
    const wider = new ToolManager({ registry: fixture.registry, library: fixture.library, expertId });
    wider.registerSkill("Weather");
    expect(wider.toolRegistry.get("xyz789tool345")).toMatchObject({ skillName: "Weather" });
    expect(wider.toolToSkill.get("xyz789tool345")).toBe("weather456");
    expect([...wider.skills.keys()]).toEqual(["mm0o9un9nbdcy31jfsxr", "weather456"]);
    expect((await wider.executeTool("xyz789tool345", {})).structured).toEqual({ temperature: 21 });
    expect(() => wider.registerSkill("Nothing")).toThrow('There is no skill "Nothing"');
    expect(manager.toolRegistry.has("xyz789tool345")).toBe(false);
  });

  it("name a tool as people know it when they refuse its arguments", async () => {
    const { error } = await manager.executeTool("abc123tool456", {});
    expect(error?.message).toContain('"SearXNG Search/网页搜索 (abc123tool456)"');
  });

  it("refuse what the expert does not have", async () => {
    const { error } = await manager.executeTool("xyz789tool345", {});
    expect(error?.name).toBe("PermissionDeniedError");
    const everything = new ToolManager({ registry: fixture.registry, library: fixture.library });
    expect((await everything.executeTool("xyz789tool345", {})).structured).toEqual({ temperature: 21 });
  });

  it("refuse every call, and throw nothing, once the expert is gone", async () => {
    const { id } = await fixture.library.experts.create({ name: "Short-lived", tools: ["*"] });
    const orphan = new ToolManager({ registry: fixture.registry, library: fixture.library, expertId: id });
    await fixture.library.experts.remove(id);
    expect((await orphan.executeTool("xyz789tool345", {})).error?.name).toBe("PermissionDeniedError");
    const call = { id: "c", type: "function", function: { name: "xyz789tool345", arguments: "{}" } };
    expect(await orphan.executeToolCalls([call])).toMatchObject([{ success: false }]);
  });

  it("show a change of a row in the very next list", async () => {
    await fixture.library.updateTool("weather456", "xyz789tool345", { description: "查询天气" });
    await fixture.library.experts.update("Searcher", { skills: ["Weather"] });
    expect(manager.getToolDefinitions()).toContainEqual(
      expect.objectContaining({
        function: expect.objectContaining({ name: "xyz789tool345", description: "查询天气" }),
      }),
    );
    expect([...manager.toolRegistry.keys()]).toEqual(["xyz789tool345"]);
    await fixture.library.remove("weather456");
    expect(manager.toolRegistry.size).toBe(0);
  });
});

describe("names", () => {
  it("are readable for models where so configured; ids and older forms stay valid", async () => {
    await using fixture = await TestLibrary.open({ names: "readable" });
    const { library, registry } = fixture;
    const added = await library.add({
      skill,
      tools: [{ id: "abc123tool456", name: "web_search", type: "http", endpoint: "https://x.example" }],
      files: [],
    });
    expect(registry.get("abc123tool456")?.name).toBe("searxng_search__web_search");
    expect(registry.get("mm0o9un9nbdcy31jfsxr_web_search")?.name).toBe("searxng_search__web_search");
    await library.update(added.id, { mark: "sx" });
    expect(registry.get("abc123tool456")?.name).toBe("sx__web_search");
    expect(registry.get("searxng_search__web_search")).toBeUndefined();
  });

  it("that two skills share get a sign of the skill's id, and Chinese ones a sign of their own", async () => {
    await using fixture = await TestLibrary.open({ names: "readable" });
    const tool = { name: "搜索", type: "http" as const, endpoint: "https://x.example" };
    const [first, second, third] = [
      await fixture.library.add({ skill: { name: "My Skill" }, tools: [{ ...tool, id: "one" }], files: [] }),
      await fixture.library.add({ skill: { name: "my skill!" }, tools: [{ ...tool, id: "two" }], files: [] }),
      await fixture.library.add({ skill: { name: "天气" }, tools: [{ ...tool, id: "three" }], files: [] }),
    ];
    expect([first, second, third].map(({ tools }) => fixture.library.failureOf(tools[0]!.id))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(fixture.registry.get("one")?.name).toMatch(/^my_skill_[a-z0-9]+__tool_\w+$/);
    expect(fixture.registry.get("two")?.name).toMatch(/^my_skill_[a-z0-9]+__tool_\w+$/);
    expect(fixture.registry.get("three")?.name).toMatch(/^skill_\w+__tool_\w+$/);
  });

  it("that two skills share are the same on every machine, whatever came first or went", async () => {
    const tool = { name: "t", type: "http" as const, endpoint: "https://x.example" };
    const bundles = [
      { skill: { id: "s1", name: "My Skill" }, tools: [{ ...tool, id: "one" }], files: [] },
      { skill: { id: "s2", name: "my skill!" }, tools: [{ ...tool, id: "two" }], files: [] },
    ];
    await using here = await TestLibrary.open({ names: "readable" });
    await using there = await TestLibrary.open({ names: "readable" });
    for (const bundle of bundles) await here.library.add(bundle);
    for (const bundle of bundles.toReversed()) await there.library.add(bundle);
    const namesOf = ({ registry }: TestLibrary) => ["one", "two"].map((id) => registry.get(id)?.name);
    expect(namesOf(here)).toEqual(namesOf(there));
    expect(new Set(namesOf(here)).size).toBe(2);
    expect(here.registry.get("my_skill__t")).toBeUndefined();
    await here.library.remove("s2");
    expect(namesOf(here)).toEqual(["my_skill__t", undefined]);
  });

  it("of a tool that another one has are refused for that tool alone", async () => {
    await using fixture = await TestLibrary.open();
    fixture.registry.register(
      Tool.define({ name: "taken", parameters: { type: "object" }, execute: () => 1 }),
    );
    const tools = ["taken", "free"].map((id) => ({
      id,
      name: id,
      type: "http" as const,
      endpoint: "https://x.example",
    }));
    await fixture.library.add({ skill: { name: "S" }, tools, files: [] });
    expect(fixture.library.failureOf("taken")).toContain('The name "taken" is taken');
    expect(fixture.registry.get("free")).toBeDefined();
  });
});
