import { expect, test } from "vitest";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

const LIMIT = 60_000;
/** Longer than the test may take: whoever waits for it makes the test fail. */
const config = "export default { builtins: false, server: { drainTimeout: 600_000 } };";
const deletes = toolFile(
  'name: "deletes", metadata: { dangerous: true }, execute: async () => "deleted"',
  'name: "asks", execute: async ({ elicit }) => (await elicit("Go on?")).action',
  'name: "task", metadata: { task: "required" }, execute: async ({ elicit }) => (await elicit("Go on?")).action',
  'name: "chain", execute: async ({ call }) => (await call("deletes", {})).content',
);

test.each([
  ["a client that went to ask a person", "deletes", { elicitation: {} }],
  ["a client that went to ask what a tool wants to know", "asks", { elicitation: {} }],
  ["a client that went to ask for a tool that another calls", "chain", { elicitation: {} }],
  ["an answer in the inbox", "deletes", {}],
])(
  "a server that stops does not wait for %s",
  async (_, name, abilities) => {
    const rack = await ServedRack.open({ "toolrack.config.ts": config, "tools/all.ts": deletes });
    const _meta = { "io.modelcontextprotocol/clientCapabilities": abilities };
    const params = { name, arguments: {}, _meta };
    const asked = rack.post("modern", { jsonrpc: "2.0", id: 1, method: "tools/call", params });
    if ("elicitation" in abilities) expect((await asked).message.result.resultType).toBe("input_required");
    else await waitsFor(rack);
    await rack[Symbol.asyncDispose]();
    await asked;
  },
  LIMIT,
);

test.each(["deletes", "asks", "chain"])(
  "a server that stops does not wait for a session whose person was asked by %s",
  async (name) => {
    const rack = await ServedRack.open({ "toolrack.config.ts": config, "tools/all.ts": deletes });
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const client = await rack.connect(
      "legacy",
      { capabilities: { elicitation: {} } },
      {
        prepare(made) {
          made.setRequestHandler("elicitation/create", () => {
            resolve();
            return new Promise<never>(() => {});
          });
        },
      },
    );
    const call = client.callTool({ name, arguments: {} }).catch(() => {});
    await asked;
    await rack.serving.close();
    await client.close();
    await call;
    await rack.workspace[Symbol.asyncDispose]();
  },
  LIMIT,
);

test(
  "a server that stops does not wait for answers to a task",
  async () => {
    const rack = await ServedRack.open({ "toolrack.config.ts": config, "tools/all.ts": deletes });
    const extensions = { "io.modelcontextprotocol/tasks": {} };
    const _meta = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {}, extensions } };
    const ask = async (method: string, params: object) =>
      (await rack.post("modern", { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } })).message;
    const { taskId } = (await ask("tools/call", { name: "task", arguments: {} })).result;
    for (;;) if ((await ask("tasks/get", { taskId })).result.status === "input_required") break;
    await rack[Symbol.asyncDispose]();
  },
  LIMIT,
);

test(
  "a server that stops answers the calls that it cancels, whatever way they came",
  async () => {
    const rack = await ServedRack.open({
      "toolrack.config.ts": "export default { builtins: false, server: { drainTimeout: 200 } };",
      "tools/all.ts": toolFile('name: "waits", execute: () => new Promise(() => {})'),
    });
    const { registry } = rack.serving.app;
    const version = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "t", version: "1" },
    };
    const opened = await rack.post("legacy", {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: version,
    });
    const session = { headers: { "mcp-session-id": opened.headers.get("mcp-session-id")! } };
    await rack.post("legacy", { jsonrpc: "2.0", method: "notifications/initialized" }, session);
    // Streams that have no end of their own are not waited for.
    const listen = { jsonrpc: "2.0", id: 2, method: "subscriptions/listen" };
    const listening = rack.post("modern", {
      ...listen,
      params: { notifications: { toolsListChanged: true } },
    });
    const plain = { name: "waits", arguments: {} };
    const told = { ...plain, _meta: { progressToken: 1 } };
    const call = (id: number, params: object) => ({ jsonrpc: "2.0", id, method: "tools/call", params });
    const ways = [
      rack.post("modern", call(3, plain)),
      rack.post("modern", call(4, told)),
      rack.post("legacy", call(5, plain)),
      rack.post("legacy", call(6, told)),
      rack.post("legacy", call(7, plain), session),
      rack.post("legacy", call(8, told), session),
    ];
    while (registry.activeCalls().length < ways.length) await new Promise((go) => setTimeout(go, 10));
    const closing = rack[Symbol.asyncDispose]();
    for (const [index, answer] of (await Promise.all(ways)).entries()) {
      expect(answer.status).toBe(200);
      expect(answer.message).toMatchObject({
        id: index + 3,
        result: { isError: true, content: [{ text: expect.stringContaining("the server is stopping") }] },
      });
    }
    await closing;
    await listening;
  },
  LIMIT,
);

async function waitsFor({ serving: { store } }: ServedRack): Promise<void> {
  for (;;) {
    const { items } = await store.approvals.list({ state: "pending", limit: 1 });
    if (items.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
