import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { grantOf } from "../access/grants.ts";
import { issueToken } from "../access/tokens.ts";
import { ServedRack, toolFile } from "../mcp/serve/testing/served-rack.ts";

let rack: ServedRack;
const waits = new Set<string>();

beforeAll(async () => {
  rack = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, server: { maxCallsPerTool: 2 } };",
    "tools/all.ts": toolFile(
      'name: "asks", metadata: { task: "optional" }, execute: async ({ elicit }) => (await elicit("Which?")).action',
      'name: "outer", execute: async ({ call }) => (await call("inner")).content',
      'name: "inner", execute: async ({ call }) => (await call("asks")).content',
      'name: "deletes", metadata: { dangerous: true }, execute: async () => "deleted"',
      'name: "wipes", metadata: { dangerous: true }, execute: async () => "wiped"',
    ),
    "tools/gone.ts": toolFile('name: "gone", metadata: { dangerous: true }, execute: async () => "went"'),
  });
  rack.serving.app.registry.subscribe((event) => {
    if (event.type === "waiting") waits[event.isWaiting ? "add" : "delete"](event.callId);
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;
afterEach(() => vi.waitUntil(() => running() === 0, { timeout: 10_000 }));

const bearer = () =>
  issueToken(rack.serving.store.tokens, { name: "tester", scopes: { tools: ["*"], experts: ["*"] } });

/** A call by a client that can be asked, and that knows tasks or does not. */
function ask(token: string, name: string, { tasks = false, path = "/mcp" } = {}) {
  const clientCapabilities = {
    elicitation: {},
    ...(tasks ? { extensions: { "io.modelcontextprotocol/tasks": {} } } : {}),
  };
  const _meta = { "io.modelcontextprotocol/clientCapabilities": clientCapabilities };
  const message = {
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name, arguments: {}, _meta },
  };
  return rack.post("modern", message, { token, path });
}

test.each([
  ["calls", "asks", false],
  ["calls whose questions come from deep below", "outer", false],
  ["tasks", "asks", true],
])(
  "one caller's unanswered %s do not keep others from the tool, but are only so many",
  async (_, name, tasks) => {
    const [greedy, other] = [await bearer(), await bearer()];
    for (let count = 1; count <= 2; count++) {
      await ask(greedy.token, name, { tasks });
      await vi.waitUntil(() => waiting(name) === count);
    }
    const refused = await ask(greedy.token, name);
    expect(JSON.stringify(refused.message)).toContain("by this caller wait for an answer");
    expect((await ask(other.token, name)).message.result.resultType).toBe("input_required");
    for (const { stored } of [greedy, other]) await api(`/api/tokens/${stored.id}`, "DELETE");
  },
);

/** How many calls of the tool wait. */
function waiting(name: string): number {
  const active = rack.serving.app.registry.activeCalls();
  return active.filter(({ toolName, callId }) => toolName === name && waits.has(callId)).length;
}

test.each([
  ["an elicitation", "asks", false],
  ["an elicitation of a task", "asks", true],
  ["an approval", "deletes", false],
])("%s ends at once when the token of its caller is taken back", async (_, name, tasks) => {
  const { token, stored } = await bearer();
  const call = ask(token, name, { tasks });
  await vi.waitUntil(() => waiting(name) === 1);
  const callId = rack.serving.app.registry.activeCalls()[0]!.callId;
  await api(`/api/tokens/${stored.id}`, "DELETE");
  expect(running()).toBe(0);
  await call;
  await vi.waitUntil(async () => (await rack.serving.store.calls.get(callId))?.outcome !== "running");
  const { error } = (await rack.serving.store.calls.get(callId))!;
  expect(error).toMatchObject({ code: "cancelled", message: expect.stringContaining("was taken back") });
  expect(await pending()).toEqual([]);
});

test("a call does not run when its caller's token was taken back on another node a moment before somebody agreed", async () => {
  const { token, stored } = await bearer();
  const call = rack.call("modern", "deletes", {}, { token });
  const id = await question();
  await rack.serving.store.tokens.remove(stored.id);
  await agree(id);
  const { result } = (await call).message;
  expect(result.isError).toBe(true);
  expect(result.content[0].text).toContain("was taken back");
  const { items } = await rack.serving.store.calls.list({ caller: grantOf(stored).caller, limit: 10 });
  expect(items).toMatchObject([{ error: { code: expect.stringMatching(/permission_denied|cancelled/) } }]);
});

test("a call does not run when its caller's token has expired before somebody agreed", async () => {
  const expiresAt = Date.now() + 400;
  const wish = { name: "brief", scopes: { tools: ["*"] }, expiresAt };
  const { token } = await issueToken(rack.serving.store.tokens, wish);
  const call = rack.call("modern", "deletes", {}, { token });
  const id = await question();
  await vi.waitUntil(() => Date.now() > expiresAt);
  await agree(id);
  expect((await call).message.result.content[0].text).toContain("has expired");
});

test("a question ends when its tool is switched off, and the call with it", async () => {
  const call = rack.call("modern", "wipes");
  const id = await question();
  await api("/api/tools/wipes", "PATCH", { enabled: false });
  const { result } = (await call).message;
  expect(result.content[0].text).toContain("switched off");
  await vi.waitUntil(async () => (await pending()).length === 0);
  expect((await agree(id)).status).toBe(409);
});

test("a question ends when the file of its tool is deleted, and the call with it", async () => {
  const call = rack.call("modern", "gone");
  await question();
  await rm(join(rack.workspace.directory, "tools/gone.ts"));
  await api("/api/reload", "POST", {});
  expect((await call).message.result.content[0].text).toContain("taken down while its call waited");
  await vi.waitUntil(async () => (await pending()).length === 0);
});

test.each(["PATCH", "DELETE"])("a call does not run when its expert has it no more (%s)", async (method) => {
  const created = await api("/api/experts", "POST", { name: `narrow ${method}`, tools: ["deletes"] });
  const { id: expert } = (await created.json()) as { id: string };
  const { token } = await bearer();
  const path = `/mcp/${encodeURIComponent(`narrow ${method}`)}`;
  const call = rack.call("modern", "deletes", {}, { token, path });
  const id = await question();
  await api(`/api/experts/${expert}`, method, method === "PATCH" ? { tools: ["asks"] } : undefined);
  await agree(id);
  expect((await call).message.result.content[0].text).toContain("not among those that this caller may use");
});

async function pending() {
  return (await rack.serving.store.approvals.list({ state: "pending", limit: 10 })).items;
}

async function question(): Promise<string> {
  await vi.waitUntil(async () => (await pending()).length === 1);
  return (await pending())[0]!.id;
}

function agree(id: string): Promise<Response> {
  return api(`/api/approvals/${id}`, "POST", { decision: "allow" });
}

function api(path: string, method: string, body?: object): Promise<Response> {
  return fetch(`${rack.serving.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}
