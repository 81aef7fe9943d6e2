import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { estimateTokens } from "@toolrack/core/internal";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";

const many = Array.from(
  { length: 120 },
  (_, at) =>
    `name: "thing_${at}", parameters: { type: "object", properties: { id: { type: "string" } }, required: ["id"] }, execute: async ({ input }) => ({ id: input.id, at: ${at} })`,
);
const files = {
  "toolrack.config.mjs": "export default { builtins: false };",
  "tools/all.ts": toolFile(
    ...many,
    'name: "pay", metadata: { dangerous: true }, execute: async () => "paid"',
    'name: "only_code", metadata: { callers: ["code"] }, execute: async () => "from code"',
  ),
};
const tasks = {
  "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
};

let rack: ServedRack;
let client: Client;
beforeAll(async () => {
  rack = await ServedRack.open(files);
  client = new Client({ name: "tester", version: "1" });
  const requestInit = { headers: { authorization: `Bearer ${rack.serving.token}` } };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${rack.serving.url}/mcp`), { requestInit }),
  );
}, 60_000);
afterAll(async () => {
  await client.close();
  await rack[Symbol.asyncDispose]();
});

const textOf = (answer: unknown) =>
  Object(answer)
    .content.map(({ text }: { text: string }) => text)
    .join("\n");
const ask = async (path: string, body?: unknown, headers: Record<string, string> = {}) =>
  fetch(rack.serving.url + path, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      authorization: `Bearer ${rack.serving.token}`,
      "content-type": "application/json",
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });

// biome-ignore lint/suspicious/noExplicitAny: what comes back is what the tests are about.
const read = async (...request: Parameters<typeof ask>): Promise<any> => (await ask(...request)).json();

describe("where there are many tools", { timeout: 60_000 }, () => {
  it("is offered to MCP clients, with a catalogue of bounded size", async () => {
    const find = async () => (await client.listTools()).tools.find(({ name }) => name === "toolrack_run");
    await expect.poll(find, { timeout: 30_000 }).toBeDefined();
    const { description } = Object(Object(await find()).inputSchema.properties.code);
    expect(description).toMatch(/(COMPLETE: these are all|PARTIAL: \d+ of) 1\d\d tools/);
    expect(estimateTokens(description)).toBeLessThanOrEqual(2_020);
    const openai = await read("/openai/tools");
    const run = openai.find((tool: { function: { name: string } }) => tool.function.name === "toolrack_run");
    expect(run.function.parameters.properties.code.description).toContain("// tools.rack");
    expect(JSON.stringify(openai)).not.toContain('"name":"thing_1"');
  });

  it("runs for an MCP client with progress, and finds what the catalogue leaves out", async () => {
    const messages: string[] = [];
    const code =
      'const [{ path }] = await search("thing_77");\nawait step("reading", async () => {});\nreturn [path, (await tools.rack.thing_77({ id: "x" })).at, await tools.rack.only_code()];';
    const answer = await client.callTool(
      { name: "toolrack_run", arguments: { code } },
      { onprogress: ({ message }) => void messages.push(message ?? "") },
    );
    expect(JSON.parse(textOf(answer))).toEqual(["tools.rack.thing_77", 77, "from code"]);
    expect(messages).toEqual(expect.arrayContaining(["reading", "line 3: rack.thing_77"]));
  });

  it("answers a model that calls a tool by its path, and tells it the way", async () => {
    const answer = await client.callTool({ name: "tools.rack.thing_5", arguments: { id: "x" } });
    expect(textOf(answer)).toContain('"at":5');
    expect(textOf(answer)).toContain("return await tools.rack.thing_5(args)");
    const calls = [
      { id: "1", type: "function", function: { name: "rack.thing_6", arguments: '{"id":"y"}' } },
    ];
    const [message] = await read("/openai/tool-calls", calls);
    expect(message.content).toContain("toolrack_run");
    expect(message.content).toContain('"at":6');
  });

  it("keeps from models what only code may call", async () => {
    await expect(client.callTool({ name: "only_code", arguments: {} })).rejects.toThrow(
      "only be called by code",
    );
    const through = await client.callTool({ name: "toolrack_call", arguments: { name: "only_code" } });
    expect(textOf(through)).toContain("only be called by code");
    expect((await read("/api/tools/only_code/calls", {})).result.content).toBe("from code");
  });

  it("is a task for clients that know tasks, which waits for a person and ends", async () => {
    const message = (method: string, params: object) => ({
      ...{ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: tasks } },
    });
    const code = "return await tools.rack.pay();";
    const call = message("tools/call", { name: "toolrack_run", arguments: { code } });
    const created = (await rack.post("modern", call)).message.result;
    expect(created).toMatchObject({ resultType: "task", status: "working" });
    const waiting = async () => (await read("/api/approvals")).items;
    await expect.poll(async () => (await waiting()).length, { timeout: 20_000 }).toBe(1);
    const [{ id, run }] = await waiting();
    expect(run).toMatchObject({ code, line: 1, before: [] });
    await ask(`/api/approvals/${id}`, { decision: "allow" });
    const get = async () =>
      (await rack.post("modern", message("tasks/get", { taskId: created.taskId }))).message.result;
    await expect.poll(async () => (await get()).status, { timeout: 20_000 }).toBe("completed");
    expect(textOf((await get()).result)).toBe("paid");
  });

  it("answers programs with JSON or with events", async () => {
    const code = 'console.log("hello");\nreturn (await tools.rack.thing_1({ id: "a" })).at;';
    expect((await read("/api/code", { code })).result.content).toBe("1\n\nconsole:\nhello");
    const events = await (await ask("/api/code", { code }, { accept: "text/event-stream" })).text();
    expect([...events.matchAll(/^event: (\w+)$/gm)].map(([, type]) => type)).toEqual(
      expect.arrayContaining(["state", "log", "progress", "result"]),
    );
  });

  it("keeps code as a tool whose parameters are the values that were used", async () => {
    const code = 'const found = await tools.rack.thing_3({ id: "first" });\nreturn found.id;';
    const { callId } = await read("/api/code", { code });
    const body = { name: "kept", description: "Finds a thing." };
    const saved = await read(`/api/calls/${callId}/tool`, body);
    expect(saved).toMatchObject({ path: "tools/kept.tool.js", parameters: ["id"], tools: ["thing_3"] });
    const tool = await read("/api/tools/kept");
    expect(tool.inputSchema.properties).toEqual({ id: { type: "string", default: "first" } });
    expect((await ask(`/api/calls/${callId}/tool`, body)).status).toBe(409);
    const refused = await read("/api/tools/kept/calls", {});
    expect(refused.result.content).toContain(saved.grant);
  });
});
