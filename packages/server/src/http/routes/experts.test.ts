import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

describe("experts over HTTP", () => {
  let server: TestServer;
  let skillId: string;
  let toolId: string;
  let expertId: string;

  beforeAll(async () => {
    server = await TestServer.start({ tools: sampleTools().tools });
    const skill = await post("/api/skills", { name: "Sums" });
    skillId = skill.body.id;
    const body = { name: "plus_one", type: "builtin", command: "add", usage: { arguments: { b: 1 } } };
    toolId = (await post(`/api/skills/${skillId}/tools`, body)).body.id;
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const post = (path: string, body: unknown, token?: string) =>
    server.ask(path, { method: "POST", body, ...(token === undefined ? {} : { token }) });
  const namesOf = async (path: string, token?: string): Promise<string[]> => {
    const { body } = await server.ask(path, token === undefined ? {} : { token });
    return body.map((tool: { function: { name: string } }) => tool.function.name);
  };
  const callOf = (name: string, args: object) => [
    { id: "call_xyz789", type: "function", function: { name, arguments: JSON.stringify(args) } },
  ];

  it("are a set of skills and of tools by pattern", async () => {
    const made = await post("/api/experts", { name: "Support", skills: ["Sums"], tools: ["log*"] });
    expect(made).toMatchObject({
      status: 200,
      body: { name: "Support", skills: [skillId], tools: ["log*"] },
    });
    expertId = made.body.id;
    expect(await namesOf("/openai/tools?expert=Support")).toEqual(["log_tool", "login", toolId].sort());
    expect(await namesOf(`/openai/tools?expert=${expertId}`)).toHaveLength(3);
    const { body } = await server.ask("/api/tools?expert=support");
    expect(body.total).toBe(3);
  });

  it("run their own tools, and those behind them, and refuse all others", async () => {
    const own = await post("/openai/tool-calls?expert=Support", callOf(toolId, { a: 4 }));
    expect(own.body).toEqual([
      {
        role: "tool",
        tool_call_id: "call_xyz789",
        name: toolId,
        content: '{"success":true,"data":{"sum":5}}',
      },
    ]);
    const plain = await post("/openai/tool-calls?expert=Support&envelope=false", callOf(toolId, { a: 4 }));
    expect(plain.body[0].content).toBe('{"sum":5}');
    const wrong = await post("/openai/tool-calls?expert=Support", callOf(toolId, { a: "four" }));
    expect(JSON.parse(wrong.body[0].content)).toEqual({
      success: false,
      error: expect.stringContaining("do not fit its schema"),
    });
    const other = await post("/openai/tool-calls?expert=Support", callOf("add", { a: 4 }));
    expect(other.body[0].content).toContain("not among those that this caller may use");
    const direct = await server.ask("/api/tools/add/calls?expert=Support", {
      method: "POST",
      body: { arguments: { a: 1 } },
    });
    expect(direct).toMatchObject({ status: 403, body: { error: { code: "permission_denied" } } });
  });

  it("are not changed by somebody who saw another version", async () => {
    const path = `/api/experts/${expertId}`;
    const { body: seen } = await server.ask(path);
    const change = (description: string) =>
      server.ask(path, { method: "PATCH", body: { description, updatedAt: seen.updatedAt } });
    expect((await change("Mine.")).status).toBe(200);
    expect((await change("Yours.")).body.error).toMatchObject({
      code: "skill_changed",
      details: { now: { description: "Mine." } },
    });
  });

  it("may be all that a token has", async () => {
    const token = await server.issue({ experts: ["Support"] });
    expect(await namesOf("/openai/tools", token)).toEqual([]);
    expect(await namesOf("/openai/tools?expert=Support", token)).toHaveLength(3);
    const own = await post("/openai/tool-calls?expert=Support", callOf(toolId, { a: 4 }), token);
    expect(own.body[0].content).toBe('{"success":true,"data":{"sum":5}}');
    const outside = await server.ask("/api/tools/add/calls?expert=Support", {
      method: "POST",
      body: { arguments: { a: 1 } },
      token,
    });
    expect(outside.body.error.code).toBe("permission_denied");
    expect((await server.ask("/api/tools/add/calls", { method: "POST", body: {}, token })).status).toBe(404);
    expect((await server.ask("/api/experts", { token })).body.items).toMatchObject([{ name: "Support" }]);
  });

  it("are not there for a token that may not use them", async () => {
    const token = await server.issue({ tools: ["*"], experts: ["Sales"] });
    const refused = await server.ask("/openai/tools?expert=Support", { token });
    const unknown = await server.ask("/openai/tools?expert=Nobody", { token });
    expect(refused.body.error.code).toBe("expert_not_found");
    expect(refused.body.error.message.replace("Support", "Nobody")).toBe(unknown.body.error.message);
    expect((await server.ask("/api/experts", { token })).body.items).toEqual([]);
  });

  it("change at once", async () => {
    const changed = await server.ask(`/api/experts/${expertId}`, {
      method: "PATCH",
      body: { tools: ["add"] },
    });
    expect(changed.body).toMatchObject({ tools: ["add"], skills: [skillId], toolCount: 2 });
    expect(await namesOf("/openai/tools?expert=Support")).toEqual(["add", toolId].sort());
    const body = { name: "minus_one", type: "builtin", command: "add", usage: { arguments: { b: -1 } } };
    const { body: added } = await post(`/api/skills/${skillId}/tools`, body);
    expect(await namesOf("/openai/tools?expert=Support")).toContain(added.id);
    await server.ask(`/api/skills/${skillId}`, { method: "DELETE" });
    expect(await namesOf("/openai/tools?expert=Support")).toEqual(["add"]);
    expect((await server.ask(`/api/experts/${expertId}`)).body.skills).toEqual([]);
  });

  it.each([
    ["name", { name: "a/b" }],
    ["name", { name: ".." }],
    ["name", { name: "SUPPORT" }],
    ["skills[0]", { name: "x", skills: ["nobody"] }],
    ["tools", { name: "x", tools: "add" }],
  ])("are refused with the field that is wrong: %s", async (field, body) => {
    const { status, body: answer } = await post("/api/experts", body);
    expect(status).toBe(400);
    expect(JSON.stringify(answer.error.details.issues)).toContain(field);
  });

  it("go", async () => {
    expect((await server.ask("/api/experts/Support", { method: "DELETE" })).body).toEqual({ id: expertId });
    expect((await server.ask("/openai/tools?expert=Support")).status).toBe(404);
  });
});
