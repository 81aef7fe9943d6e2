import { Tool } from "@toolrack/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { metaTools } from "../../calls/meta-tools.ts";
import { sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
const arrived: unknown[] = [];

beforeAll(async () => {
  const echo = Tool.define({
    name: "echo",
    description: "Notes what arrived.",
    parameters: z.object({ text: z.string(), times: z.number().optional(), delay: z.number().optional() }),
    execute: async ({ input }) => {
      if (input.delay !== undefined) await new Promise((resolve) => setTimeout(resolve, input.delay));
      arrived.push(input);
      return input.text;
    },
  });
  server = await TestServer.start({ tools: [...sampleTools().tools, echo] });
});
afterAll(() => server[Symbol.asyncDispose]());

const call = (id: string, name: string, args: unknown) => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(args) },
});

describe("with more tools than a model can be given", () => {
  const nameOf = (tool: { function: { name: string } }) => tool.function.name;
  const many = Array.from({ length: 120 }, (_, at) =>
    Tool.define({
      name: `many_${at}`,
      description: `Gives number ${at}.`,
      parameters: { type: "object" },
      execute: async () => String(at),
    }),
  );
  let large: TestServer;
  beforeAll(async () => {
    large = await TestServer.start({ tools: [...sampleTools().tools, ...many, ...metaTools()] });
  });
  afterAll(() => large[Symbol.asyncDispose]());

  it("lists the tools that find and call all others, and says how many are left out", async () => {
    const { body, headers } = await large.ask("/openai/tools");
    expect(body.map(nameOf)).toEqual(["toolrack_call", "toolrack_describe", "toolrack_search"]);
    const { total } = (await large.ask("/api/tools?limit=1")).body;
    const disabled = (await large.ask("/api/tools?limit=1&status=disabled")).body.total;
    expect(Number(headers.get("toolrack-tools-left-out"))).toBe(total - disabled - 3);
  });

  it("lets a limited token find and call its own tools through them, and no others", async () => {
    const token = await large.issue({ tools: ["many_1*"] });
    const few = await large.ask("/openai/tools", { token });
    expect(few.body.map(nameOf)).toContain("many_11");
    expect(few.headers.get("toolrack-tools-left-out")).toBeNull();
    const calls = [
      call("1", "toolrack_search", { query: "number", limit: 50 }),
      call("2", "toolrack_call", { name: "many_11" }),
      call("3", "toolrack_call", { name: "many_2" }),
    ];
    const { body } = await large.ask("/openai/tool-calls", { method: "POST", body: calls, token });
    expect(body[0].content).toContain("many_11");
    expect(body[0].content).not.toMatch(/many_2\b/);
    expect(body[1].content).toBe("11");
    expect(body[2].content).toContain("no tool named");
  });
});

describe("GET /openai/tools", () => {
  it("is the `tools` array itself, sorted, of enabled tools", async () => {
    const { body } = await server.ask("/openai/tools");
    const names = body.map((tool: { function: { name: string } }) => tool.function.name);
    expect(names).toEqual([...names].sort());
    expect(names).toContain("echo");
    expect(body[0]).toMatchObject({
      type: "function",
      function: { name: "add", parameters: { type: "object" } },
    });
    expect(body[0].function.strict).toBeUndefined();
  });

  it("asks for strict mode on request, and follows the rack", async () => {
    const strictEcho = async () =>
      (await server.ask("/openai/tools?strict=true")).body.find(
        (tool: { function: { name: string } }) => tool.function.name === "echo",
      );
    expect((await strictEcho()).function).toMatchObject({
      strict: true,
      parameters: { additionalProperties: false },
    });
    server.app.registry.disable("echo");
    expect(await strictEcho()).toBeUndefined();
    server.app.registry.enable("echo");
  });

  it("shows a token only its own tools", async () => {
    const token = await server.issue({ tools: ["e*"] });
    const { body } = await server.ask("/openai/tools", { token });
    expect(body.map((tool: { function: { name: string } }) => tool.function.name)).toEqual(["echo"]);
  });
});

describe("POST /openai/tool-calls", () => {
  it("says in an envelope, on request, whether a call succeeded", async () => {
    const body = { tool_calls: [call("c1", "echo", { text: "hi" }), call("c2", "echo", {})] };
    const { body: messages } = await server.ask("/openai/tool-calls?envelope=true", { method: "POST", body });
    const contents = messages.map(({ content }: { content: string }) => JSON.parse(content));
    expect(contents).toEqual([
      { success: true, data: "hi" },
      { success: false, error: expect.stringContaining("text") },
    ]);
  });

  it("runs the calls of a message side by side and answers in their order", async () => {
    arrived.length = 0;
    const message = {
      role: "assistant",
      content: null,
      tool_calls: [
        call("c1", "echo", { text: "slower", delay: 60 }),
        call("c2", "echo", { text: "slow", delay: 20 }),
        call("c3", "echo", { text: "fast" }),
      ],
    };
    const { body } = await server.ask("/openai/tool-calls", { method: "POST", body: message });
    expect(body).toEqual([
      { role: "tool", tool_call_id: "c1", name: "echo", content: "slower" },
      { role: "tool", tool_call_id: "c2", name: "echo", content: "slow" },
      { role: "tool", tool_call_id: "c3", name: "echo", content: "fast" },
    ]);
    expect(arrived).toMatchObject([{ text: "fast" }, { text: "slow" }, { text: "slower" }]);
  });

  it("takes calls without ids, whose arguments are an object", async () => {
    const body = { tool_calls: [{ function: { name: "echo", arguments: { text: "hi" } } }] };
    const answer = await server.ask("/openai/tool-calls", { method: "POST", body });
    expect(answer.body).toMatchObject([{ role: "tool", name: "echo", content: "hi" }]);
  });

  it("lets one failing call spoil no other", async () => {
    const token = await server.issue({ tools: ["echo", "fail"] });
    const calls = [
      call("a", "fail", {}),
      call("b", "echo", { text: "fine" }),
      call("c", "no_such_tool", {}),
      { id: "d", type: "function", function: { name: "echo", arguments: "not json" } },
      call("e", "add", { a: 1 }),
    ];
    const { status, body } = await server.ask("/openai/tool-calls", { method: "POST", body: calls, token });
    expect(status).toBe(200);
    expect(body.map((message: { tool_call_id: string }) => message.tool_call_id)).toEqual([
      "a",
      "b",
      "c",
      "d",
      "e",
    ]);
    expect(body[0].content).toContain("the disk is on fire");
    expect(body[1].content).toBe("fine");
    expect(body[2].content).toContain("no_such_tool");
    expect(body[3].content).toContain("JSON");
    expect(body[4].content).toContain('no tool named "add"');
  });

  it("takes what strict mode sends for arguments that are left out", async () => {
    arrived.length = 0;
    const calls = [call("s", "echo", { text: "hi", times: null, delay: null })];
    await server.ask("/openai/tool-calls?strict=true", { method: "POST", body: calls });
    expect(arrived).toEqual([{ text: "hi" }]);
  });

  it("records each call under its session", async () => {
    await server.ask("/openai/tool-calls?sessionID=chat-1", {
      method: "POST",
      body: [call("x", "add", { a: 1 })],
    });
    const { body } = await server.ask("/api/calls?session=chat-1");
    expect(body.items).toMatchObject([{ toolName: "add", status: "completed" }]);
  });

  it("refuses what holds no calls", async () => {
    for (const body of [{}, { role: "user", content: "hi" }, "5", [1], { tool_calls: "x" }]) {
      const { status } = await server.ask("/openai/tool-calls", { method: "POST", body });
      expect(status).toBe(400);
    }
    expect((await server.ask("/openai/tool-calls", { method: "POST", body: [] })).body).toEqual([]);
    expect((await server.ask("/openai/tool-calls", { method: "POST" })).body.error.code).toBe(
      "invalid_request",
    );
  });
});
