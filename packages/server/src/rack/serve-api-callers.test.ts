import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ChatRack } from "../chat/testing/chat-rack.fixture.ts";
import { type Era, ServedRack } from "../mcp/serve/testing/served-rack.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** Who called, and from which team, in order. */
const seen: string[] = [];
/** An API that tells what it was sent. */
const echo = createServer(({ url, headers }, response) => {
  const { authorization = "", "x-team": team = "" } = headers;
  seen.push(`${authorization} ${team}`);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ url, who: authorization.replace(/-secret.*/, "") }));
});
let base = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  // A listening server at an address has a port.
  base = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`;
});
afterAll(() => void echo.close());

const spec = {
  openapi: "3.1.0",
  info: { title: "Pets" },
  paths: {
    "/pets/{id}": {
      get: {
        operationId: "getPet",
        summary: "One pet",
        parameters: [{ name: "id", in: "path", required: true, schema: { type: "integer" } }],
      },
    },
  },
};

function files(entry: object): Record<string, string> {
  const shop = { spec: "pets.json", baseUrl: base, ...entry };
  return { "pets.json": JSON.stringify(spec), "apis.json": JSON.stringify({ apis: { shop } }) };
}

const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
const isReady = async (rack: ServedRack) =>
  vi.waitFor(async () => {
    expect(await rack.api("GET", "/api/mcp-servers/shop")).toMatchObject({ state: "ready" });
  }, 20_000);
const call = (rack: ServedRack, options: object) =>
  rack.api("POST", "/api/tools/api_shop_getPet/calls", { arguments: { id: 7 } }, options);

describe("callers who act at an API with their own credentials", () => {
  it("are told apart, also when their calls are mixed", async () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how an entry names the caller.
    const headers = { Authorization: "Bearer {{caller:SHOP_KEY}}", "X-Team": "team-of-${callerId}" };
    await using rack = await ServedRack.open(files({ headers }));
    await isReady(rack);
    const people = await Promise.all(
      ["ann", "ben"].map(async (name) => ({
        name,
        token: await rack.issue({ tools: ["api_shop_*"] }, name),
        headers: { "X-Toolrack-Caller-Shop-Key": `${name}-secret-of-the-caller` },
      })),
    );
    // The tools are read with the credentials of the first caller who has any.
    const { message } = await rack.post("modern", list, people[0]);
    expect(JSON.stringify(message)).toContain("api_shop_getPet");
    const calls = [0, 1, 0, 1, 1, 0].map(async (index) => {
      const { name, ...options } = people[index]!;
      const { result } = await call(rack, options);
      expect(result.structured).toMatchObject({ url: "/pets/7", who: `Bearer ${name}` });
    });
    await Promise.all(calls);
    // Each has an id of its own, and only that.
    expect(new Set(seen).size).toBe(2);
    expect(new Set(seen.map((one) => one.split(" ").at(-1))).size).toBe(2);
    const without = await call(rack, { token: people[0]!.token });
    expect(JSON.stringify(without)).toContain("this caller gave no SHOP_KEY");
    const shown = JSON.stringify([
      await rack.api("GET", "/api/mcp-servers/shop"),
      await rack.api("GET", "/api/mcp-servers/shop/log"),
      await rack.api("GET", "/api/calls?limit=20"),
    ]);
    expect(shown).not.toContain("secret-of-the-caller");
  });

  it("may have their credentials stored for their tokens", async () => {
    await using rack = await ServedRack.open(
      files({ headers: { Authorization: "Bearer {{caller:SHOP_KEY}}" } }),
    );
    await isReady(rack);
    const token = await rack.issue({ tools: ["api_shop_*"] }, "ann");
    const [{ id } = { id: "" }] = (await rack.serving.store.tokens.list()).filter(
      ({ name }) => name === "ann",
    );
    await rack.api("PUT", `/api/secrets/${encodeURIComponent(`token.${id}.SHOP_KEY`)}`, {
      value: "stored-secret-of-ann",
    });
    await rack.post("modern", list, { token });
    expect((await call(rack, { token })).result.structured.who).toBe("Bearer stored");
  });

  it("have connections of their own where the entry says so", async () => {
    await using rack = await ServedRack.open(files({ toolrack: { isolation: "token" } }));
    await isReady(rack);
    const tokens = [await rack.issue({ tools: ["*"] }, "ann"), await rack.issue({ tools: ["*"] }, "ben")];
    for (const token of tokens) expect(await call(rack, { token })).toMatchObject({ status: "completed" });
    expect(await rack.api("GET", "/api/mcp-servers/shop")).toMatchObject({ connections: 2 });
  });
});

it.each<Era>(["modern", "legacy"])("an official MCP client finds and calls an operation: %s", async (era) => {
  await using rack = await ServedRack.open(files({}));
  await isReady(rack);
  const client = await rack.connect(era);
  const { tools } = await client.listTools();
  expect(tools.find(({ name }) => name === "api_shop_getPet")).toMatchObject({
    description: "One pet",
    annotations: { readOnlyHint: true },
    inputSchema: { required: ["id"] },
  });
  const answer = await client.callTool({ name: "api_shop_getPet", arguments: { id: 7 } });
  expect(answer.structuredContent).toMatchObject({ url: "/pets/7" });
  const refused = await client.callTool({ name: "api_shop_getPet", arguments: { id: "seven" } });
  expect(refused.isError).toBe(true);
});

it("a model is offered an operation in OpenAI's format and in a chat, and its calls are made", async () => {
  await using rack = await ChatRack.start({ files: files({}) });
  const authorization = `Bearer ${rack.serving.token}`;
  const ask = async (path: string, body?: object): Promise<unknown> => {
    const given = { authorization, "content-type": "application/json" };
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    return (await fetch(rack.serving.url + path, { headers: given, ...init })).json();
  };
  await vi.waitFor(async () =>
    expect(JSON.stringify(await ask("/openai/tools"))).toContain("api_shop_getPet"),
  );
  const tool_calls = [
    { id: "one", type: "function", function: { name: "api_shop_getPet", arguments: '{"id":7}' } },
  ];
  expect(await ask("/openai/tool-calls", { role: "assistant", tool_calls })).toMatchObject([
    { role: "tool", tool_call_id: "one", content: expect.stringContaining('"/pets/7"') },
  ]);
  rack.script((_request, asked) =>
    asked === 0
      ? { toolCalls: [{ name: "api_shop_getPet", arguments: '{"id":8}' }] }
      : { content: "It is there." },
  );
  const answer = await rack
    .client()
    .chat.completions.create({ model: "model-a", messages: [{ role: "user", content: "Find pet 8." }] });
  expect(answer.choices[0]?.message.content).toBe("It is there.");
  expect(JSON.stringify(rack.requests.at(-1).messages)).toContain("/pets/8");
});
