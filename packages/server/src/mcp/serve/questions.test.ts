import type { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];
const asking = { capabilities: { elicitation: {}, sampling: {}, roots: {} } };

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "asks", execute: async ({ elicit }) => { const one = await elicit({ message: "First?", schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } }); const two = await elicit("Second?"); return JSON.stringify([one, two]); }',
      'name: "both", execute: async ({ client, signal }) => JSON.stringify(await Promise.all([client.request("roots/list", {}, signal), client.request("sampling/createMessage", { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 5 }, signal)]))',
      'name: "deletes", metadata: { dangerous: true, confirm: "Delete everything?" }, parameters: { type: "object", properties: { path: { type: "string" } } }, execute: async ({ input }) => "deleted " + input.path',
      'name: "wants", parameters: { type: "object" }, execute: async ({ input, client, signal }) => JSON.stringify(await client.request(input.method, { message: "?", messages: [], maxTokens: 1, ...input.params }, signal))',
      'name: "chain", execute: async ({ call }) => (await call("deletes", { path: "all" })).content',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0]!.text;

function answering(answers: object[], heard: string[] = []) {
  return {
    prepare(client: Client) {
      client.setRequestHandler("elicitation/create", async ({ params }) => {
        heard.push(params.message);
        return answers.shift() as { action: "accept" };
      });
      client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///a" }] }));
      client.setRequestHandler("sampling/createMessage", async () => ({
        role: "assistant",
        model: "m",
        content: { type: "text", text: "ho" },
      }));
    },
  };
}

test.each(eras)("a tool asks the person at a %s client, again and again", async (era) => {
  const answers = [{ action: "accept", content: { n: 4 } }, { action: "decline" }];
  const client = await rack.connect(era, asking, answering(answers));
  const result = await client.callTool({ name: "asks", arguments: {} });
  expect(JSON.parse(textOf(result))).toEqual([
    { action: "accept", content: { n: 4 } },
    expect.objectContaining({ action: "decline" }),
  ]);
});

test.each(eras)("a tool asks a %s client for roots and for its model, both at once", async (era) => {
  const client = await rack.connect(era, asking, answering([]));
  const [roots, sampled] = JSON.parse(textOf(await client.callTool({ name: "both", arguments: {} })));
  expect(roots.roots).toEqual([{ uri: "file:///a" }]);
  expect(sampled.content.text).toBe("ho");
});

test.each(eras)("a dangerous tool runs when the person at a %s client agrees", async (era) => {
  const heard: string[] = [];
  const answers = [{ action: "accept", content: { approve: true } }];
  const client = await rack.connect(era, asking, answering(answers, heard));
  expect(textOf(await client.callTool({ name: "deletes", arguments: { path: "a" } }))).toBe("deleted a");
  expect(heard[0]).toContain("Delete everything?");
  expect(heard[0]).toContain('"path": "a"');
});

test.each(eras)(
  "a dangerous tool does not run when the person at a %s client refuses, also deep in a chain",
  async (era) => {
    const answers = [{ action: "accept", content: { approve: false, reason: "too much" } }];
    const client = await rack.connect(era, asking, answering(answers));
    const result = await client.callTool({ name: "chain", arguments: {} });
    expect(result.isError).toBe(true);
    expect(textOf(result)).toContain("too much");
  },
);

test.each(eras)("what the inbox answers first counts for a %s client too", async (era) => {
  const client = await rack.connect(era, asking, {
    prepare(made) {
      made.setRequestHandler("elicitation/create", async () => {
        const list = await api("/api/approvals?state=pending");
        const { id } = list.items.at(0);
        await api(`/api/approvals/${id}`, { decision: "allow" });
        return { action: "decline" };
      });
    },
  });
  expect(textOf(await client.callTool({ name: "deletes", arguments: { path: "b" } }))).toBe("deleted b");
});

test("where nobody can be asked, the question waits in the inbox", async () => {
  const client = await rack.connect("modern");
  const call = client.callTool({ name: "deletes", arguments: { path: "c" } });
  const id = await pendingId();
  await api(`/api/approvals/${id}`, { decision: "allow" });
  expect(textOf(await call)).toBe("deleted c");
});

const ask = (others: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: {
    name: "asks",
    arguments: {},
    _meta: { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } },
    ...others,
  },
});

test("an answer that does not fit is asked for again, under a new state", async () => {
  const first = (await rack.post("modern", ask())).message.result;
  const [key] = Object.keys(first.inputRequests);
  const wrong = { inputResponses: { [key!]: { action: "accept", content: { n: "four" } } } };
  const again = (await rack.post("modern", ask({ ...wrong, requestState: first.requestState }))).message
    .result;
  expect(again.resultType).toBe("input_required");
  expect(Object.keys(again.inputRequests)).toEqual([key]);
  expect(again.requestState).not.toBe(first.requestState);
});

test("a state is worth nothing twice, changed, for another token, or for another tool", async () => {
  const token = await rack.issue({ tools: ["*"] });
  const { requestState, inputRequests } = (await rack.post("modern", ask(), { token })).message.result;
  const [key] = Object.keys(inputRequests);
  const inputResponses = { [key!]: { action: "accept", content: { n: 1 } } };
  const send = async (others: object, options: object) =>
    (await rack.post("modern", ask({ inputResponses, requestState, ...others }), { token, ...options }))
      .message;
  const refused = { error: { code: -32602 } };
  expect(await send({ requestState: `${requestState.slice(0, -2)}AA` }, {})).toMatchObject(refused);
  expect(await send({ requestState: "x" }, {})).toMatchObject(refused);
  expect(await send({}, { token: rack.token })).toMatchObject(refused);
  const second = await send({}, {});
  expect(second.result.resultType).toBe("input_required");
  expect(await send({}, {})).toMatchObject(refused);
  expect(await send({ name: "chain", requestState: second.result.requestState }, {})).toMatchObject(refused);
});

test("a state is worth nothing with other arguments than those that it was given for", async () => {
  const _meta = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } };
  const call = async (path: string, others: object = {}) => {
    const params = { name: "deletes", arguments: { path }, _meta, ...others };
    return (await rack.post("modern", { jsonrpc: "2.0", id: 1, method: "tools/call", params })).message;
  };
  const { requestState, inputRequests } = (await call("mine")).result;
  const [key] = Object.keys(inputRequests);
  const agreed = {
    requestState,
    inputResponses: { [key!]: { action: "accept", content: { approve: true } } },
  };
  expect(await call("yours", agreed)).toMatchObject({ error: { code: -32602 } });
  expect(textOf((await call("mine", agreed)).result)).toBe("deleted mine");
});

test.each([
  [
    "a page to be opened",
    { elicitation: {} },
    "elicitation/create",
    { mode: "url" },
    { elicitation: { url: {} } },
  ],
  ["a form", { elicitation: { url: {} } }, "elicitation/create", {}, { elicitation: { form: {} } }],
  [
    "tools for its model",
    { sampling: {} },
    "sampling/createMessage",
    { tools: [] },
    { sampling: { tools: {} } },
  ],
])(
  "a client that did not declare %s is not asked for it, and told what it lacks",
  async (_, abilities, method, params, requiredCapabilities) => {
    const _meta = { "io.modelcontextprotocol/clientCapabilities": abilities };
    const request = { name: "wants", arguments: { method, params }, _meta };
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: request };
    const before = rack.serving.app.registry.activeCalls();
    const { message } = await rack.post("modern", call);
    expect(message.error).toMatchObject({ code: -32021, data: { requiredCapabilities } });
    expect(rack.serving.app.registry.activeCalls()).toEqual(before);
  },
);

test("a tool that asks a client which declared nothing ends with what that lacks, as with half of it", async () => {
  for (const abilities of [{}, { elicitation: { url: {} } }]) {
    const _meta = { "io.modelcontextprotocol/clientCapabilities": abilities };
    const { status, message } = await rack.post("modern", ask({ _meta }));
    expect([status, message.error?.code]).toEqual([400, -32021]);
    expect(message.error.data.requiredCapabilities).toHaveProperty("elicitation");
    expect(message.error.message).toContain("cannot be asked");
  }
  // The older versions have no such error.
  const { message } = await rack.call("legacy", "asks");
  expect(message.result.isError).toBe(true);
  expect(textOf(message.result)).toContain("cannot be asked");
});

test("a client that comes back knowing less than before ends the call, which nobody could answer", async () => {
  const before = rack.serving.app.registry.activeCalls();
  const { requestState } = (await rack.post("modern", ask())).message.result;
  const again = await rack.post("modern", ask({ requestState, _meta: {} }));
  expect(again.message.error).toMatchObject({
    code: -32021,
    data: { requiredCapabilities: { elicitation: {} } },
  });
  expect(rack.serving.app.registry.activeCalls()).toEqual(before);
});

async function pendingId(): Promise<string> {
  for (;;) {
    const { items } = await api("/api/approvals?state=pending");
    if (items.length > 0) return items[0].id;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what comes back is what the test is about.
async function api(path: string, body?: object): Promise<any> {
  const response = await fetch(`${rack.serving.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}
