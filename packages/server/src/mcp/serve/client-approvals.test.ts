import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tasksExtension } from "../wire/messages.ts";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "deletes", metadata: { dangerous: true }, parameters: { type: "object" }, execute: async () => "deleted"',
      'name: "cleans", execute: async ({ call }) => (await call("deletes", {})).content',
      'name: "digs", metadata: { dangerous: true, task: "optional" }, execute: async () => "dug"',
      'name: "hesitates", execute: async ({ ask }) => { await ask("Really?"); return "went on"; }',
      'name: "asks", execute: async ({ elicit }) => JSON.stringify(await elicit({ message: "How many?", schema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } }))',
    ),
  });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

/** Calls the tool as a client whose person gives these answers, one after the other. */
async function call(era: Era, name: string, answers: object[], args: object = {}) {
  const heard: string[] = [];
  const client = await rack.connect(
    era,
    { capabilities: { elicitation: {} } },
    {
      prepare(made) {
        made.setRequestHandler("elicitation/create", async ({ params }) => {
          heard.push(params.message);
          return (answers.length > 1 ? answers.shift() : answers[0]) as { action: "accept" };
        });
      },
    },
  );
  const result = await client.callTool({ name, arguments: { ...args } });
  return { text: (result as { content: { text: string }[] }).content[0]!.text, heard };
}

const yes = { action: "accept", content: { approve: true } };

test.each(eras)("a person at a %s client whose answer does not fit is asked again", async (era) => {
  const wrong = { action: "accept", content: { approve: "yes" } };
  const { text, heard } = await call(era, "deletes", [wrong, yes]);
  expect(text).toBe("deleted");
  expect(heard).toHaveLength(2);
});

test("a client whose answers never fit is told so, and nothing runs", async () => {
  const wrong = { action: "accept", content: { approve: "yes" } };
  const denied = await call("legacy", "deletes", [wrong]);
  expect(denied.text).toContain("answers did not fit");
  expect(denied.heard).toHaveLength(3);
  const failed = await call("legacy", "asks", [{ action: "accept", content: { n: "four" } }]);
  expect(failed.text).toContain("answers did not fit");
  expect((await rack.serving.store.approvals.list({ state: "pending", limit: 10 })).items).toEqual([]);
});

test.each(eras)("a person at a %s client is shown every argument, however long others are", async (era) => {
  const { heard } = await call(era, "deletes", [yes], { a: "x".repeat(5_000), cmd: "rm -rf /" });
  expect(heard[0]).toContain('"cmd": "rm -rf /"');
  expect(heard[0]).toMatch(/"a": "x+…" \(\d+ more characters\)/);
});

test("a client that answers the question with an error is told that it waits in the inbox", async () => {
  const said = Promise.withResolvers<string>();
  const client = await rack.connect(
    "legacy",
    { capabilities: { elicitation: {} } },
    {
      prepare(made) {
        made.setRequestHandler("elicitation/create", () => {
          throw new Error("nobody is here");
        });
        made.setNotificationHandler("notifications/message", ({ params }) =>
          said.resolve(String(params.data)),
        );
      },
    },
  );
  const result = client.callTool({ name: "deletes", arguments: {} });
  const text = await said.promise;
  const { items } = await rack.serving.store.approvals.list({ state: "pending", limit: 10 });
  expect(text).toContain("nobody is here");
  expect(text).toContain(`toolrack approvals approve ${items[0]!.id}`);
  await fetch(`${rack.serving.url}/api/approvals/${items[0]!.id}`, {
    method: "POST",
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    body: JSON.stringify({ decision: "allow" }),
  });
  expect((await result).content).toEqual([{ type: "text", text: "deleted" }]);
});

/** A client of a token that may use everything, and approve what these patterns say. It says yes to whatever it is asked. */
async function yesSayer(era: Era, scopes: { approve?: string[]; admin?: boolean } = {}, served = rack) {
  const token = await served.issue({ tools: ["*"], ...scopes });
  const heard: string[] = [];
  const told = Promise.withResolvers<string>();
  const hear = (text: string) => text.includes("may not give") && told.resolve(text);
  const client = await served.connect(
    era,
    { capabilities: { elicitation: {} } },
    {
      token,
      prepare(made) {
        made.setRequestHandler("elicitation/create", async ({ params }) => {
          heard.push(params.message);
          return { action: "accept", content: { approve: true, n: 4 } };
        });
        made.setNotificationHandler("notifications/message", ({ params }) => void hear(String(params.data)));
      },
    },
  );
  const onprogress = ({ message = "" }: { message?: string }) => hear(message);
  const start = (name: string, args = {}) =>
    client
      .callTool({ name, arguments: { ...args } }, { onprogress })
      .then((result) => (result as { content: { text: string }[] }).content[0]!.text);
  return { start, heard, told: told.promise, token };
}

async function waiting(served = rack) {
  return (await served.serving.store.approvals.list({ state: "pending", limit: 10 })).items;
}

function answer(id: string, token: string, body: object, served = rack) {
  return fetch(new URL(`/api/approvals/${id}`, served.serving.url), {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

describe.each(eras)("a %s client whose token has no grant to approve", (era) => {
  test.each([
    ["a dangerous tool", "deletes", {}],
    ["a dangerous tool through toolrack_call", "toolrack_call", { name: "deletes", arguments: {} }],
    ["a tool that calls a dangerous one", "cleans", {}],
    ["a tool that asks in its midst whether it may go on", "hesitates", {}],
  ])("cannot approve %s: it is told where the question waits, and others answer", async (_, name, args) => {
    const { start, heard, told, token } = await yesSayer(era);
    const result = start(name, args);
    const text = await told;
    const [question] = await waiting();
    expect(text).toContain("this client may not give");
    expect(text).toContain(`toolrack approvals approve ${question!.id}`);
    // A second session of the same token, and its own way over HTTP, get no further.
    expect((await answer(question!.id, token, { decision: "allow" })).status).toBe(403);
    expect(heard).toEqual([]);
    expect((await waiting())[0]!.id).toBe(question!.id);
    expect((await answer(question!.id, rack.token, { decision: "deny", reason: "not now" })).status).toBe(
      200,
    );
    expect(await result).toContain("not now");
  });

  test("still answers what a tool wants to know from it", async () => {
    const { start, heard } = await yesSayer(era);
    expect(await start("asks")).toContain('"n":4');
    expect(heard).toEqual(["How many?"]);
  });

  test("approves what its grant to approve names, and nothing else", async () => {
    const { start, heard, told } = await yesSayer(era, { approve: ["del*"] });
    expect(await start("deletes")).toBe("deleted");
    expect(heard).toHaveLength(1);
    const other = start("hesitates");
    await told;
    const [question] = await waiting();
    await answer(question!.id, rack.token, { decision: "deny" });
    expect(await other).toContain("refused");
  });
});

test("a grant to approve answers yes or no over HTTP, and makes no rules, edits no arguments and sees no other questions", async () => {
  const { start, told } = await yesSayer("legacy");
  const approver = await rack.issue({ approve: ["deletes"] });
  const other = await rack.issue({ approve: ["something_else"] });
  const result = start("deletes");
  await told;
  const [question] = await waiting();
  const id = question!.id;
  const seenBy = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` };
    const listed = await fetch(new URL("/api/approvals", rack.serving.url), { headers });
    const { items } = (await listed.json()) as { items: { id: string }[] };
    const one = await fetch(new URL(`/api/approvals/${id}`, rack.serving.url), { headers });
    return { items: items.map((item) => item.id), status: one.status };
  };
  expect(await seenBy(approver)).toEqual({ items: [id], status: 200 });
  expect(await seenBy(other)).toEqual({ items: [], status: 404 });
  for (const forbidden of [
    { decision: "allow", scope: "always" },
    { decision: "allow", scope: "always", pattern: { tool: "*" } },
    { decision: "allow", arguments: { path: "elsewhere" } },
  ]) {
    expect((await answer(id, approver, forbidden)).status).toBe(403);
  }
  expect((await answer(id, other, { decision: "allow" })).status).toBe(403);
  const rule = await fetch(new URL("/api/approval-rules", rack.serving.url), {
    method: "POST",
    headers: { authorization: `Bearer ${approver}`, "content-type": "application/json" },
    body: JSON.stringify({ tool: "deletes", decision: "allow" }),
  });
  expect(rule.status).toBe(403);
  expect((await answer(id, approver, { decision: "allow" })).status).toBe(200);
  expect(await result).toBe("deleted");
});

test.each(["stdio", "inbox"])(
  "with mcp.approvals %s not even an admin's client over HTTP is asked",
  async (mode) => {
    await using served = await ServedRack.open({
      "toolrack.config.ts": `export default { builtins: false, mcp: { approvals: "${mode}" } };`,
      "tools/all.ts": toolFile(
        'name: "deletes", metadata: { dangerous: true }, parameters: { type: "object" }, execute: async () => "deleted"',
      ),
    });
    const { start, heard, told } = await yesSayer("legacy", { admin: true }, served);
    const result = start("deletes");
    await told;
    const [question] = await waiting(served);
    expect((await answer(question!.id, served.token, { decision: "allow" }, served)).status).toBe(200);
    expect(await result).toBe("deleted");
    expect(heard).toEqual([]);
  },
);

test("a call that nobody approved in time says where its question waited", async () => {
  await using served = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, approvals: { timeout: 1000 } };",
    "tools/all.ts": toolFile(
      'name: "deletes", metadata: { dangerous: true }, parameters: { type: "object" }, execute: async () => "deleted"',
    ),
  });
  const { start } = await yesSayer("modern", {}, served);
  expect(await start("deletes")).toContain("`toolrack approvals`");
});

test.each(eras)(
  "what a %s rack behind this one asks to approve is asked of whoever may approve here",
  async (era) => {
    await using front = await ServedRack.open({
      "mcp.json": JSON.stringify({
        mcpServers: {
          back: {
            url: `${rack.serving.url}/mcp`,
            headers: { Authorization: `Bearer ${rack.token}` },
          },
        },
      }),
    });
    await expect
      .poll(() => front.serving.app.registry.get("mcp_back_deletes"), { timeout: 20_000 })
      .toBeDefined();
    const limited = await yesSayer(era, {}, front);
    const result = limited.start("mcp_back_deletes");
    await limited.told;
    const [question] = await waiting(front);
    expect(question).toMatchObject({ toolName: "mcp_back_deletes", stage: "during" });
    expect(limited.heard).toEqual([]);
    expect((await answer(question!.id, front.token, { decision: "allow" }, front)).status).toBe(200);
    expect(await result).toBe("deleted");
    const approver = await yesSayer(era, { approve: ["mcp:back"] }, front);
    expect(await approver.start("mcp_back_deletes")).toBe("deleted");
    expect(approver.heard).toHaveLength(1);
    // What a tool there wants to know is still asked of the caller.
    expect(await limited.start("mcp_back_asks")).toContain('"n":4');
  },
);

test("a task of a token that may not approve says in its status where its question waits", async () => {
  const token = await rack.issue({ tools: ["*"] });
  const meta = {
    "io.modelcontextprotocol/clientCapabilities": { elicitation: {}, extensions: { [tasksExtension]: {} } },
  };
  const send = (method: string, params: object) =>
    rack.post("modern", { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }, { token });
  const started = await send("tools/call", { name: "digs", arguments: {} });
  const { taskId } = started.message.result;
  const view = async () => (await send("tasks/get", { taskId })).message.result;
  await expect.poll(async () => (await view()).statusMessage).toContain("toolrack approvals approve");
  const shown = await view();
  expect(shown).toMatchObject({ status: "working" });
  expect(shown.inputRequests).toBeUndefined();
  // Answers that nobody asked for change nothing.
  const answers = { "elicitation-1": { action: "accept", content: { approve: true } } };
  await send("tasks/update", { taskId, inputResponses: answers });
  const [question] = await waiting();
  expect(question).toMatchObject({ toolName: "digs" });
  await answer(question!.id, rack.token, { decision: "allow" });
  await expect.poll(async () => (await view()).status).toBe("completed");
});
