import { expect, test, vi } from "vitest";
import { serve } from "../../rack/serve.ts";
import { type RpcAnswer, ServedRack, toolFile } from "./testing/served-rack.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const _meta = {
  "io.modelcontextprotocol/clientCapabilities": {
    extensions: { "io.modelcontextprotocol/tasks": {} },
    elicitation: {},
  },
};
const files = {
  "tools/all.ts": toolFile(
    'name: "slow", metadata: { task: "optional" }, execute: async ({ progress }) => { progress(1, 2, "half way"); await new Promise((resolve) => setTimeout(resolve, 200)); return "done"; }',
    'name: "deletes", metadata: { task: "optional", dangerous: true }, execute: async () => "deleted"',
    'name: "needed", metadata: { task: "required" }, execute: async () => "done"',
    'name: "plain", execute: async () => "plain"',
    'name: "asks", metadata: { task: "optional" }, execute: async ({ elicit }) => JSON.stringify(await elicit({ message: "Who?", schema: { type: "object", properties: { n: { type: "string" } }, required: ["n"] } }))',
    'name: "endless", metadata: { task: "optional" }, execute: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))))',
  ),
};

const message = (method: string, params: object) => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  params: { ...params, _meta },
});

async function settled(ask: () => Promise<RpcAnswer>): Promise<RpcAnswer["message"]["result"]> {
  for (;;) {
    const { result } = (await ask()).message;
    if (result.status !== "working") return result;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a task is its call: its record answers for it, also after the server was started anew", async () => {
  const rack = await ServedRack.open(files);
  const created = (await rack.post("modern", message("tools/call", { name: "slow", arguments: {} }))).message
    .result;
  expect(created).toMatchObject({ resultType: "task", status: "working" });
  const { taskId } = created;
  const get = () => rack.post("modern", message("tasks/get", { taskId }));
  expect((await settled(get)).result.content).toEqual([{ type: "text", text: "done" }]);
  expect(await rack.serving.store.calls.get(taskId)).toMatchObject({
    toolName: "slow",
    outcome: "completed",
  });

  await rack.serving.close();
  const again = await serve(rack.workspace.directory, { logger: silent, port: 0 });
  try {
    const headers = {
      authorization: `Bearer ${again.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tasks/get",
      "mcp-name": taskId,
    };
    const request = message("tasks/get", { taskId });
    Object.assign(request.params._meta, { "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    const body = JSON.stringify(request);
    const response = await fetch(`${again.url}/mcp`, { method: "POST", headers, body });
    expect(await response.json()).toMatchObject({ result: { status: "completed", taskId } });
  } finally {
    await again.close();
    await rack.workspace[Symbol.asyncDispose]();
  }
});

test("nobody else can see, answer or cancel a task", async () => {
  await using rack = await ServedRack.open(files);
  const token = await rack.issue({ tools: ["*"] });
  const started = await rack.post("modern", message("tools/call", { name: "endless", arguments: {} }), {
    token,
  });
  const { taskId } = started.message.result;
  const other = await rack.issue({ tools: ["*"] });
  for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
    const refused = await rack.post("modern", message(method, { taskId, inputResponses: {} }), {
      token: other,
    });
    expect(refused.message.error.code).toBe(-32602);
  }
  await rack.post("modern", message("tasks/cancel", { taskId }), { token });
  const end = await settled(() => rack.post("modern", message("tasks/get", { taskId }), { token }));
  expect(end.status).toBe("cancelled");
});

test("a dangerous task asks in the task, and goes on when the person agrees", async () => {
  await using rack = await ServedRack.open(files);
  const started = await rack.post("modern", message("tools/call", { name: "deletes", arguments: {} }));
  const { taskId } = started.message.result;
  const get = () => rack.post("modern", message("tasks/get", { taskId }));
  const asked = await settled(get);
  expect(asked.status).toBe("input_required");
  const [key] = Object.keys(asked.inputRequests);
  const inputResponses = { [key!]: { action: "accept", content: { approve: true } } };
  await rack.post("modern", message("tasks/update", { taskId, inputResponses }));
  expect((await settled(get)).result.content).toEqual([{ type: "text", text: "deleted" }]);
});

test("a call whose client leaves before it has a task is ended", async () => {
  await using rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "asksFirst", metadata: { task: { support: "optional", asksFirst: true } }, execute: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))))',
    ),
  });
  const running = () => rack.serving.app.registry.activeCalls().length;
  const gone = new AbortController();
  const { params } = message("tools/call", { name: "asksFirst", arguments: {} });
  const version = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
  const left = fetch(`${rack.serving.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "asksFirst",
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { ...params, _meta: { ...params._meta, ...version } },
    }),
    signal: gone.signal,
  }).catch(() => "left");
  await vi.waitUntil(() => running() === 1);
  gone.abort();
  expect(await left).toBe("left");
  await vi.waitUntil(() => running() === 0);
});

test("a call that was to ask at first and does not becomes a task all the same, while it runs", async () => {
  await using rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "works", metadata: { task: { support: "optional", asksFirst: true } }, execute: ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))))',
      'name: "asksLate", metadata: { task: { support: "optional", asksFirst: true } }, execute: async ({ elicit }) => { await new Promise((resolve) => setTimeout(resolve, 1_500)); return (await elicit("Now?")).action; }',
    ),
  });
  const start = async (name: string) =>
    (await rack.post("modern", message("tools/call", { name, arguments: {} }))).message.result;
  const { taskId, resultType } = await start("works");
  expect(resultType).toBe("task");
  const get = (id: string) => rack.post("modern", message("tasks/get", { taskId: id }));
  expect((await get(taskId)).message.result.status).toBe("working");
  await rack.post("modern", message("tasks/cancel", { taskId }));
  expect((await settled(() => get(taskId))).status).toBe("cancelled");

  const late = await start("asksLate");
  expect(late.resultType).toBe("task");
  const asked = await settled(() => get(late.taskId));
  const [key] = Object.keys(asked.inputRequests);
  const inputResponses = { [key!]: { action: "decline" } };
  await rack.post("modern", message("tasks/update", { taskId: late.taskId, inputResponses }));
  expect((await settled(() => get(late.taskId))).result.content).toEqual([{ type: "text", text: "decline" }]);
});

test("an answer that does not fit is asked for again as something new, one to nothing is left aside", async () => {
  await using rack = await ServedRack.open(files);
  const started = await rack.post("modern", message("tools/call", { name: "asks", arguments: {} }));
  const { taskId } = started.message.result;
  const get = () => rack.post("modern", message("tasks/get", { taskId }));
  const update = (inputResponses: object) =>
    rack.post("modern", message("tasks/update", { taskId, inputResponses }));
  const first = await settled(get);
  expect(Object.keys(first.inputRequests)).toEqual(["elicitation-1"]);
  expect((await update({ zz: { action: "decline" } })).message.result.resultType).toBe("complete");
  expect((await get()).message.result).toEqual(first);

  await new Promise((resolve) => setTimeout(resolve, 5));
  const wrong = { action: "accept", content: { n: 7 } };
  expect((await update({ "elicitation-1": wrong })).message.result.resultType).toBe("complete");
  const second = (await get()).message.result;
  expect(second).toMatchObject({
    status: "input_required",
    inputRequests: { "elicitation-2": first.inputRequests["elicitation-1"] },
    statusMessage: expect.stringContaining("elicitation-1"),
  });
  expect(Object.keys(second.inputRequests)).toEqual(["elicitation-2"]);
  expect(Date.parse(second.lastUpdatedAt)).toBeGreaterThan(Date.parse(first.lastUpdatedAt));

  const right = { action: "accept", content: { n: "Ada" } };
  await update({ "elicitation-1": right });
  expect((await get()).message.result.status).toBe("input_required");
  await update({ "elicitation-2": right });
  expect((await settled(get)).result.content[0].text).toContain("Ada");
});

test("a tool that is for tasks only refuses every client that knows none, by whatever way it is called", async () => {
  await using rack = await ServedRack.open(files);
  const through = { name: "needed", arguments: {} };
  const nested = { name: "toolrack_call", arguments: through };
  for (const era of ["modern", "legacy"] as const) {
    for (const { message: answer } of [
      await rack.call(era, "needed"),
      await rack.call(era, "toolrack_call", through),
      await rack.call(era, "toolrack_call", nested),
    ]) {
      expect(answer.error).toMatchObject({
        code: -32021,
        message: expect.stringContaining('"needed"'),
        data: { requiredCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } },
      });
    }
  }
  const { message: answer } = await rack.call("legacy", "slow");
  expect(answer.result.content[0].text).toBe("done");
});

test("what would be a task is one too when it is called through the meta-tool", async () => {
  await using rack = await ServedRack.open(files);
  for (const name of ["needed", "slow"]) {
    const call = { name: "toolrack_call", arguments: { name, arguments: {} } };
    const { result } = (await rack.post("modern", message("tools/call", call))).message;
    expect(result.resultType).toBe("task");
    const get = () => rack.post("modern", message("tasks/get", { taskId: result.taskId }));
    expect((await settled(get)).result.content).toEqual([{ type: "text", text: "done" }]);
  }
  // Who may not use a tool learns nothing of it.
  const token = await rack.issue({ tools: ["slow"] });
  const hidden = { name: "toolrack_call", arguments: { name: "needed", arguments: {} } };
  const refused = (await rack.post("modern", message("tools/call", hidden), { token })).message;
  expect(refused.result).toMatchObject({ isError: true, resultType: "complete" });
});

test("a task is there for who made it, while it runs and afterwards, and no other call is a task", async () => {
  await using rack = await ServedRack.open(files);
  const token = await rack.issue({ tools: ["*"] });
  const start = async (name: string) =>
    (await rack.post("modern", message("tools/call", { name, arguments: {} }), { token })).message.result
      .taskId;
  const get = async (taskId: string, given: string) =>
    (await rack.post("modern", message("tasks/get", { taskId }), { token: given })).message;
  const [running, ended] = [await start("endless"), await start("needed")];
  await settled(() => rack.post("modern", message("tasks/get", { taskId: ended }), { token }));
  for (const taskId of [running, ended]) {
    expect((await get(taskId, token)).result.taskId).toBe(taskId);
    expect((await get(taskId, rack.token)).error.code).toBe(-32602);
  }
  await rack.call("modern", "plain", {}, { token });
  const calls = await rack.serving.store.calls.list({ tool: "plain" });
  expect((await get(calls.items[0]!.callId, token)).error.code).toBe(-32602);
  await rack.post("modern", message("tasks/cancel", { taskId: running }), { token });
});
