import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestService } from "../../skills/testing/library.fixture.ts";
import { sampleTools, TestServer } from "../server.fixture.ts";

const config = "export default { builtins: false, skills: { allowPrivateNetwork: true } };";

describe("skills over HTTP", () => {
  let server: TestServer;
  let service: TestService;
  let skillId: string;
  let toolId: string;

  beforeAll(async () => {
    service = await TestService.start((incoming, outgoing) => {
      outgoing.setHeader("content-type", "application/json");
      outgoing.end(JSON.stringify({ asked: incoming.url }));
    });
    server = await TestServer.start({
      tools: sampleTools().tools,
      files: {
        "toolrack.config.js": config,
        "skills/notes/SKILL.md": "---\nname: notes\ndescription: How to take notes.\n---\nWrite short.\n",
        "skills/notes/template.md": "# Notes\n",
        "skills/broken/SKILL.md": "---\nname: [\n---\n",
      },
    });
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  const post = (path: string, body: unknown, token?: string) =>
    server.ask(path, { method: "POST", body, ...(token === undefined ? {} : { token }) });
  const patch = (path: string, body: unknown) => server.ask(path, { method: "PATCH", body });
  const remove = (path: string) => server.ask(path, { method: "DELETE" });

  it("have their tools listed page by page", async () => {
    const { body: skill } = await post("/api/skills", { name: "Many" });
    const path = `/api/skills/${skill.id}/tools`;
    for (let n = 0; n < 5; n++)
      await post(path, { name: `tool_${n}`, type: "http", endpoint: "http://127.0.0.1/" });
    const names: string[][] = [];
    for (let next: string | undefined = "0"; next !== undefined; ) {
      const { body } = await server.ask(`${path}?limit=2&cursor=${next}`);
      names.push(body.items.map(({ name }: { name: string }) => name));
      next = body.next;
    }
    expect(names).toEqual([["tool_0", "tool_1"], ["tool_2", "tool_3"], ["tool_4"]]);
    expect((await server.ask(path)).body.items).toHaveLength(5);
    expect((await server.ask(`/api/skills/${skill.id}`)).body).toMatchObject({ toolCount: 5 });
    await remove(`/api/skills/${skill.id}`);
  });

  it("are made, and have tools that can be called in the same moment", async () => {
    const skill = await post("/api/skills", { name: "SearXNG Search", description: "搜索互联网获取信息" });
    expect(skill).toMatchObject({
      status: 200,
      body: { name: "SearXNG Search", owner: "database", tools: [] },
    });
    skillId = skill.body.id;
    const tool = await post(`/api/skills/${skillId}/tools`, {
      name: "web_search",
      displayName: "网页搜索",
      description: "搜索网络",
      type: "http",
      usage: { properties: { query: { type: "string" } }, required: ["query"] },
      endpoint: `${service.url}/search`,
      method: "GET",
    });
    toolId = tool.body.id;
    expect(tool).toMatchObject({
      status: 200,
      body: { status: "ok", rackName: toolId, toolId, toolName: "web_search", skillName: "SearXNG Search" },
    });

    const { body: tools } = await server.ask("/openai/tools");
    expect(tools).toContainEqual({
      type: "function",
      function: {
        name: toolId,
        description: "搜索网络",
        parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
      },
    });
    const answer = await server.call(toolId, { query: "上海天气" });
    expect(answer.body.result.structured).toEqual({
      asked: "/search?query=%E4%B8%8A%E6%B5%B7%E5%A4%A9%E6%B0%94",
    });
  });

  it("show people names that they can read, and answer to older names", async () => {
    for (const name of [toolId, "searxng_search__web_search", `${skillId}_web_search`]) {
      const { body } = await server.ask(`/api/tools/${name}`);
      expect(body).toMatchObject({
        name: toolId,
        toolId,
        displayName: "SearXNG Search/网页搜索",
        skillName: "SearXNG Search",
        toolName: "web_search",
      });
    }
    expect(server.workspace.messages).toContain("[ToolManager] 执行工具: SearXNG Search/web_search");
    const { body: calls } = await server.ask("/api/calls?limit=1");
    expect(calls.items[0]).toMatchObject({ toolName: toolId, displayName: "SearXNG Search/网页搜索" });
  });

  it.each([
    ["name", "/api/skills", { name: "SearXNG Search" }],
    ["name", "/api/skills", { description: "no name" }],
    ["mark", "/api/skills", { name: "x", mark: "with space" }],
    ["files", "/api/skills", { name: "x", files: { "../escape.js": "" } }],
    ["name", "/api/skills", { name: "notes" }],
  ])("are refused with the field that is wrong: %s", async (field, path, body) => {
    const { status, body: answer } = await post(path, body);
    expect(status).toBe(400);
    expect(answer.error).toMatchObject({ code: "invalid_request", details: { in: "body" } });
    expect(JSON.stringify(answer.error.details.issues)).toContain(field);
  });

  it.each([
    ["name", { name: "web_search", type: "http", endpoint: "https://x.example" }],
    ["type", { name: "a", type: "magic" }],
    ["endpoint", { name: "a", type: "http" }],
    ["usage", { name: "a", type: "http", endpoint: "https://x.example", usage: "{" }],
    ["command", { name: "a", type: "script" }],
  ])("refuse a tool with the field that is wrong: %s", async (field, body) => {
    const { status, body: answer } = await post(`/api/skills/${skillId}/tools`, body);
    expect(status).toBe(400);
    expect(JSON.stringify(answer.error.details.issues)).toContain(field);
    expect(answer.error.message).toContain(field);
  });

  it("change at once on every list", async () => {
    const path = `/api/skills/${skillId}/tools/${toolId}`;
    const changed = await patch(path, {
      description: "Searches.",
      displayName: null,
      usage: '[{"name":"q"}]',
    });
    expect(changed.body).toMatchObject({ description: "Searches.", usage: [{ name: "q" }] });
    expect(changed.body).not.toHaveProperty("displayName");
    const { body } = await server.ask("/openai/tools");
    const listed = body.find((tool: { function: { name: string } }) => tool.function.name === toolId);
    expect(listed.function).toMatchObject({
      description: "Searches.",
      parameters: { properties: { q: {} } },
    });

    await patch(path, { enabled: false });
    expect((await server.ask("/api/tools?status=disabled")).body.items).toMatchObject([{ name: toolId }]);
    expect((await server.call(toolId, {})).body.error.code).toBe("tool_disabled");
    await patch(path, { enabled: true });
    expect((await server.call(toolId, { q: "x" })).status).toBe(200);
    await patch(`/api/skills/${skillId}`, { enabled: false });
    expect((await server.call(toolId, {})).body.error.code).toBe("tool_disabled");
    await patch(`/api/skills/${skillId}`, { enabled: true, name: "Search" });
    expect((await server.ask(`/api/tools/${toolId}`)).body.displayName).toBe("Search/web_search");
  });

  it("are not changed by somebody who saw another version", async () => {
    const path = `/api/skills/${skillId}`;
    const { body: seen } = await server.ask(path);
    const first = await patch(path, { instructions: "Mine.", updatedAt: seen.updatedAt });
    expect(first.status).toBe(200);
    expect(first.body.updatedAt).toBeGreaterThan(seen.updatedAt);
    const second = await patch(path, { instructions: "Yours.", mark: null, updatedAt: seen.updatedAt });
    expect(second).toMatchObject({
      status: 409,
      body: {
        error: {
          code: "skill_changed",
          details: { updatedAt: first.body.updatedAt, now: { instructions: "Mine.", mark: null } },
        },
      },
    });
    expect((await server.ask(path)).body.instructions).toBe("Mine.");
    expect((await patch(path, { instructions: "Yours." })).status).toBe(200);

    const { body: tool } = await server.ask(`${path}/tools/${toolId}`);
    const change = (description: string) =>
      patch(`${path}/tools/${toolId}`, { description, updatedAt: tool.updatedAt });
    expect((await change("Mine.")).status).toBe(200);
    expect((await change("Yours.")).body.error).toMatchObject({
      code: "skill_changed",
      details: { now: { description: "Mine." } },
    });
    await patch(`${path}/tools/${toolId}`, { description: "Searches." });
  });

  it("show a tool whose row is broken as failed, with the reason, and leave the others alone", async () => {
    await server.store.skills.addTool(skillId, {
      name: "bad",
      type: "http",
      endpoint: "https://x",
      usage: "{oops",
    });
    await server.app.skills.reload();
    const { body } = await server.ask(`/api/skills/${skillId}`);
    expect(body).toMatchObject({ failedTools: 1, toolCount: 2 });
    expect(body.tools[1]).toMatchObject({
      name: "bad",
      status: "failed",
      failure: expect.stringContaining("not JSON"),
    });
    expect((await server.ask(`/api/skills/${skillId}/tools`)).body.items).toEqual(body.tools);
    expect((await server.call(toolId, { q: "x" })).status).toBe(200);
  });

  it("let a draft be tried without saving it", async () => {
    const before = (await server.ask("/api/tools?limit=1000")).body.total;
    const tool = { name: "draft", type: "http", endpoint: `${service.url}/draft/{x}` };
    const callId = "a-try-of-a-draft";
    const tried = await post(`/api/skills/${skillId}/try`, { tool, arguments: { x: "1" }, callId });
    expect(tried.body.callId).toBe(callId);
    expect(tried.body.result.structured).toEqual({ asked: "/draft/1" });
    expect((await server.ask("/api/tools?limit=1000")).body.total).toBe(before);
    expect((await server.ask(`/api/calls/${tried.body.callId}`)).body.displayName).toBe("Search/draft");
    const wrong = await post(`/api/skills/${skillId}/try`, { tool: { name: "x", type: "http" } });
    expect(wrong.status).toBe(400);
  });

  it("keep text files for scripts, and run them", async () => {
    const { body } = await post("/api/skills", {
      name: "Scripts",
      files: {
        "double.js":
          "let t='';process.stdin.on('data',c=>t+=c).on('end',()=>console.log(JSON.stringify({d:JSON.parse(t).params.n*2})))",
      },
    });
    const tool = await post(`/api/skills/${body.id}/tools`, {
      name: "double",
      type: "script",
      command: "node double.js",
    });
    expect((await server.call(tool.body.id, { n: 21 })).body.result.structured).toEqual({ d: 42 });
    const changed = await patch(`/api/skills/${body.id}`, {
      files: { "double.js": "console.log('7')", "note.md": "x" },
    });
    expect(changed.body.files.map(({ path }: { path: string }) => path)).toEqual(["double.js", "note.md"]);
    expect((await server.call(tool.body.id, { n: 21 })).body.result.structured).toBe(7);
  });

  it("stand for a tool that is on the rack, with arguments of their own", async () => {
    const tool = await post(`/api/skills/${skillId}/tools`, {
      name: "add_ten",
      type: "builtin",
      command: "add",
      usage: { arguments: { b: 10 } },
    });
    expect(tool.body.status).toBe("ok");
    const { body } = await server.ask(`/api/tools/${tool.body.id}`);
    expect(Object.keys(body.inputSchema.properties)).toEqual(["a", "note"]);
    const call = await server.call(tool.body.id, { a: 1, b: 99 });
    expect(call.body.result.structured).toEqual({ sum: 11 });
    const { body: children } = await server.ask(`/api/calls?parent=${call.body.callId}`);
    expect(children.items).toMatchObject([{ toolName: "add" }]);
  });

  it("in a folder are read, and changed only there", async () => {
    const { body } = await server.ask("/api/skills");
    expect(body.items[0]).toMatchObject({ id: "notes", owner: "folder", sourcePath: "skills/notes" });
    expect(JSON.stringify(body.items)).not.toContain(server.workspace.directory);
    expect(body.failed).toMatchObject([{ folder: "skills/broken", reason: expect.stringContaining("YAML") }]);
    expect((await patch("/api/skills/notes", { description: "x" })).body.error.code).toBe("skill_read_only");
    expect((await remove("/api/skills/notes")).status).toBe(409);
    expect((await server.ask("/api/skills/notes")).body.instructions).toBe("Write short.\n");
  });

  it("are an admin's affair", async () => {
    const token = await server.issue({ tools: ["*"] });
    for (const path of ["/api/skills", `/api/skills/${skillId}`, `/api/skills/${skillId}/tools/${toolId}`]) {
      expect((await server.ask(path, { token })).status).toBe(403);
    }
    expect((await post("/api/skills", { name: "y" }, token)).status).toBe(403);
    expect((await post("/api/experts", { name: "y" }, token)).status).toBe(403);
  });

  it("say so when they are not there", async () => {
    expect((await server.ask("/api/skills/nobody")).body.error.code).toBe("skill_not_found");
    expect((await server.ask(`/api/skills/${skillId}/tools/nobody`)).body.error.code).toBe(
      "skill_tool_not_found",
    );
    expect((await remove(`/api/skills/${skillId}/tools/nobody`)).status).toBe(404);
    expect((await patch("/api/experts/nobody", {})).body.error.code).toBe("expert_not_found");
  });

  it("go, with their tools", async () => {
    expect((await remove(`/api/skills/${skillId}/tools/${toolId}`)).body).toEqual({ id: toolId });
    expect((await server.ask(`/api/tools/${toolId}`)).status).toBe(404);
    expect((await remove(`/api/skills/${skillId}`)).body).toEqual({ id: skillId });
    expect((await server.ask(`/api/skills/${skillId}`)).status).toBe(404);
    expect(
      (await server.ask("/openai/tools")).body.some(
        (tool: { function: { name: string } }) => tool.function.name === toolId,
      ),
    ).toBe(false);
  });
});
