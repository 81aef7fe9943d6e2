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

async function waitsFor({ serving: { store } }: ServedRack): Promise<void> {
  for (;;) {
    const { items } = await store.approvals.list({ state: "pending", limit: 1 });
    if (items.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
