import { request } from "node:http";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openLegacySession } from "./testing/legacy-session.ts";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "endless", execute: ({ signal }) => new Promise((_, end) => signal.addEventListener("abort", end))',
      'name: "deletes", metadata: { dangerous: true }, execute: async () => { globalThis.deleted = true; return "deleted"; }',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const running = () => rack.serving.app.registry.activeCalls().length;
const call = (id: number, name: string, _meta: object = {}) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: {}, _meta },
});

/** Sends a message on a connection of its own. Answers how to close that, and what has come. */
function sendAlone(message: object, headers: Record<string, string>) {
  let said = "";
  const sent = request(`${rack.serving.url}/mcp`, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
  });
  sent.on("error", () => {});
  sent.on("response", (response) => {
    response.setEncoding("utf8").on("error", () => {});
    response.on("data", (text: string) => {
      said += text;
    });
  });
  sent.end(JSON.stringify(message));
  return { close: () => sent.destroy(), said: () => said };
}

test.each([
  ["in one message", {}],
  ["on a stream", { progressToken: 1 }],
])(
  "in a session too a call that is answered %s is cancelled when its connection closes, and its id is free again",
  async (_, meta) => {
    const session = await openLegacySession(rack);
    const { close } = sendAlone(call(1, "endless", meta), session.headers);
    const other = session.post(call(2, "endless", meta));
    await vi.waitUntil(() => running() === 2);
    close();
    await vi.waitUntil(() => running() === 1);
    const again = session.post(call(1, "endless", meta));
    await vi.waitUntil(() => running() === 2);
    expect(await session.end()).toBe(200);
    await Promise.all([other, again]);
    await vi.waitUntil(() => running() === 0);
  },
);

test("a dangerous call whose client has gone is not asked for any longer, and never runs", async () => {
  const session = await openLegacySession(rack);
  const { close, said } = sendAlone(call(1, "deletes"), session.headers);
  await vi.waitUntil(() => said().includes("elicitation/create"));
  close();
  await vi.waitUntil(() => running() === 0);
  const pending = async () =>
    (await rack.serving.store.approvals.list({ state: "pending", limit: 10 })).items;
  await vi.waitUntil(async () => (await pending()).length === 0);
  expect(globalThis).not.toHaveProperty("deleted");
});

test("the stream beside its requests is not what a session's calls hang on", async () => {
  const session = await openLegacySession(rack);
  const stream = await session.get();
  const endless = session.post(call(1, "endless"));
  await vi.waitUntil(() => running() === 1);
  await stream.body?.cancel();
  await session.post({ jsonrpc: "2.0", id: 2, method: "ping" });
  expect(running()).toBe(1);
  await session.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
  await endless;
});
