import { afterAll, beforeAll, expect, test } from "vitest";
import { type Era, ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;
const eras: Era[] = ["modern", "legacy"];
const SECRET = "a-secret-that-nobody-may-read";
const numbers = Array.from({ length: 100_000 }, (_, n) => n);

beforeAll(async () => {
  rack = await ServedRack.open({
    "toolrack.config.ts": "export default { builtins: false, mcp: { metaTools: 'off' } };",
    "tools/all.ts": toolFile(
      'name: "zeta", title: "Zeta", metadata: { readOnly: true, idempotent: true }, execute: async () => "z"',
      'name: "alpha", metadata: { dangerous: true }, outputSchema: { type: "object", properties: { a: { type: "number" } } }, execute: async () => ({ a: 1 })',
      'name: "long", execute: async () => "0123456789".repeat(30_000)',
      'name: "promised", outputSchema: { type: "object", properties: { a: { type: "array" } }, required: ["a"] }, execute: async () => ({ a: Array.from({ length: 100_000 }, (_, n) => n) })',
      'name: "unpromised", execute: async () => ({ a: Array.from({ length: 100_000 }, (_, n) => n) })',
      'name: "list", outputSchema: { type: "array" }, execute: async () => Array.from({ length: 100_000 }, (_, n) => n)',
      'name: "huge", outputSchema: { type: "object" }, execute: async () => ({ a: "0123456789".repeat(200_000) })',
      'name: "later", metadata: { task: "required" }, outputSchema: { type: "object" }, execute: async () => ({ a: Array.from({ length: 100_000 }, (_, n) => n) })',
      `name: "tells", outputSchema: { type: "object" }, execute: async () => ({ secret: ${JSON.stringify(SECRET)}, a: "0123456789".repeat(30_000) })`,
      'name: "waits", execute: ({ signal, callId }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))))',
      'name: "counts", execute: async ({ progress }) => { for (const n of [1, 2]) progress(n, 2, "step " + n); return "done"; }',
      'name: "logs", execute: async ({ logger }) => { logger.debug("detail"); logger.warn("careful", { n: 1 }); return "done"; }',
    ),
  });
  const stored = await fetch(`${rack.serving.url}/api/secrets/TESTERS_KEY`, {
    method: "PUT",
    headers: { authorization: `Bearer ${rack.token}`, "content-type": "application/json" },
    body: JSON.stringify({ value: SECRET }),
  });
  expect(stored.ok).toBe(true);
});

afterAll(() => rack?.[Symbol.asyncDispose]());

test.each(eras)(
  "%s clients are shown tools in the order of their names, with all that is known of them",
  async (era) => {
    const client = await rack.connect(era);
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(names.toSorted());
    expect(tools.find(({ name }) => name === "zeta")).toMatchObject({
      title: "Zeta",
      description: "d",
      annotations: { title: "Zeta", readOnlyHint: true, idempotentHint: true },
    });
    expect(tools.find(({ name }) => name === "alpha")).toMatchObject({
      outputSchema: { type: "object" },
      annotations: { destructiveHint: true },
    });
  },
);

test("a list says how long it holds, and for whom", async () => {
  const { message } = await rack.post("modern", { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} });
  expect(message.result).toMatchObject({ ttlMs: 30_000, cacheScope: "private" });
});

test.each(eras)("%s clients hear of progress when they ask for it", async (era) => {
  const client = await rack.connect(era);
  const heard: unknown[] = [];
  await client.callTool(
    { name: "counts", arguments: {} },
    { onprogress: (update) => void heard.push(update) },
  );
  expect(heard).toEqual([
    { progress: 1, total: 2, message: "step 1" },
    { progress: 2, total: 2, message: "step 2" },
  ]);
});

test("a client that asks for a level hears what a tool logs, and one that does not hears nothing", async () => {
  const heard = async (meta: Record<string, unknown>) => {
    const messages: unknown[] = [];
    const client = await rack.connect("modern");
    client.setNotificationHandler("notifications/message", ({ params }) => void messages.push(params));
    await client.callTool({ name: "logs", arguments: {}, _meta: meta });
    return messages;
  };
  expect(await heard({ "io.modelcontextprotocol/logLevel": "info" })).toMatchObject([
    { level: "warning", logger: "logs", data: 'careful {"n":1}' },
  ]);
  expect(await heard({})).toEqual([]);
});

test.each(eras)("a long result comes to %s clients as its ends and a link to the whole", async (era) => {
  const client = await rack.connect(era);
  const result = await client.callTool({ name: "long", arguments: {} });
  const content = result.content as { type: string; uri?: string }[];
  const link = content.find(({ type }) => type === "resource_link");
  let uri = link?.uri;
  let whole = "";
  while (uri !== undefined) {
    const { contents } = await client.readResource({ uri });
    const [part] = contents as { text: string; _meta: Record<string, string> }[];
    whole += part!.text;
    uri = part!._meta["toolrack/next"];
  }
  expect(whole).toBe("0123456789".repeat(30_000));
});

test.each(eras)(
  "a long result that a schema promises is whole for %s clients; only its text is cut",
  async (era) => {
    const client = await rack.connect(era);
    await client.listTools();
    const result = await client.callTool({ name: "promised", arguments: {} });
    expect(result.isError).toBeUndefined();
    expect(result.structuredContent).toEqual({ a: numbers });
    const [text, link] = result.content as { text?: string; uri?: string }[];
    expect(text?.text).toContain("characters left out here");
    expect(link?.uri).toMatch(/^toolrack:/);
    const list = await client.callTool({ name: "list", arguments: {} });
    expect(list.structuredContent).toEqual(era === "modern" ? numbers : { result: numbers });
  },
);

test.each(eras)("what no schema promises is cut for %s clients as before", async (era) => {
  const { result } = (await rack.call(era, "unpromised")).message;
  expect(result.structuredContent).toBeUndefined();
  expect(result.isError).toBeUndefined();
  expect(result.content[0].text).toContain("characters left out here");
});

test.each(eras)(
  "a promised result that is too large for any answer fails for %s clients, with a link",
  async (era) => {
    const client = await rack.connect(era);
    await client.listTools();
    const result = await client.callTool({ name: "huge", arguments: {} });
    const content = result.content as { type: string; text?: string }[];
    expect(result.isError).toBe(true);
    expect(content[0]?.text).toMatch(/too large/);
    expect(content.at(-1)?.type).toBe("resource_link");
  },
);

test("a task gives a long result that a schema promises whole", async () => {
  const _meta = {
    "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
  };
  const ask = async (method: string, params: object) =>
    (await rack.post("modern", { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } })).message
      .result;
  const made = await ask("tools/call", { name: "later", arguments: {} });
  let task = made;
  while (task.status === "working") task = await ask("tasks/get", { taskId: made.taskId });
  expect(task.result.structuredContent).toEqual({ a: numbers });
  expect(task.createdAt).toBe(made.createdAt);
});

test.each(eras)("known secrets stay hidden in what is whole for %s clients", async (era) => {
  const { result } = (await rack.call(era, "tells")).message;
  expect(result.structuredContent.a).toHaveLength(300_000);
  expect(JSON.stringify(result)).not.toContain(SECRET);
});

test("nobody else can read a result", async () => {
  const mine = await rack.issue({ tools: ["long"] });
  const { message } = await rack.call("modern", "long", {}, { token: mine });
  const { uri } = message.result.content.find(({ type }: { type: string }) => type === "resource_link");
  const read = { jsonrpc: "2.0", id: 1, method: "resources/read", params: { uri } };
  expect((await rack.post("modern", read, { token: mine })).message.result.contents).toHaveLength(1);
  const other = await rack.issue({ tools: ["long"] });
  expect((await rack.post("modern", read, { token: other })).message.error.code).toBe(-32602);
});

test.each(eras)("what a token may not use is not there for %s clients", async (era) => {
  const token = await rack.issue({ tools: ["z*"] });
  const client = await rack.connect(era, {}, { token });
  expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["zeta"]);
  await expect(client.callTool({ name: "counts", arguments: {} })).rejects.toThrow(/no tool named "counts"/);
});

test("an unknown tool is an error that names the nearest of those that the token may use", async () => {
  const texts = new Map<string, string>();
  const tokens = { admin: rack.token, all: await rack.issue({ tools: ["*"] }) };
  for (const [who, token] of Object.entries(tokens)) {
    const { message } = await rack.call("modern", "zetta", {}, { token });
    expect(message.error.code).toBe(-32602);
    texts.set(who, message.error.message);
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${rack.serving.url}/api/tools/zetta`, { headers });
    expect(await response.json()).toMatchObject({ error: { message: message.error.message } });
  }
  expect(texts.get("admin")).toContain('"zeta"');
  expect(texts.get("all")).toBe(texts.get("admin"));
  const token = await rack.issue({ tools: ["c*"] });
  for (const name of ["zetta", "zeta"]) {
    const { message } = await rack.call("modern", name, {}, { token });
    expect(message.error.message).not.toContain(name === "zeta" ? "zetta" : '"zeta"');
    expect(message.error.message).toContain(`There is no tool named "${name}".`);
  }
  const { message } = await rack.call("modern", "nothing_like_it", {}, { token: rack.token });
  const { tools } = await (await rack.connect("modern")).listTools();
  expect(message.error.message).toContain(`one of the ${tools.length} names in the list`);
});

test("a client that closes its stream cancels the call", async () => {
  const gone = new AbortController();
  const ended = callEnd("waits");
  const call = fetch(`${rack.serving.url}/mcp`, {
    method: "POST",
    signal: gone.signal,
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "waits" } }),
  });
  await callStart("waits");
  gone.abort();
  await expect(call).rejects.toThrow();
  expect(await ended).toBe("cancelled");
});

test.each(eras)("a %s client cancels a call by saying so", async (era) => {
  const client = await rack.connect(era);
  const stop = new AbortController();
  const ended = callEnd("waits");
  const call = client.callTool({ name: "waits", arguments: {} }, { signal: stop.signal });
  await callStart("waits");
  stop.abort("enough");
  await expect(call).rejects.toThrow();
  expect(await ended).toBe("cancelled");
});

function callStart(toolName: string): Promise<void> {
  return new Promise((resolve) => {
    const { registry } = rack.serving.app;
    if (registry.activeCalls().some((call) => call.toolName === toolName)) return resolve();
    const stop = registry.subscribe((event) => {
      if (event.type !== "state" || event.toolName !== toolName || event.state.status !== "running") return;
      stop();
      resolve();
    });
  });
}

function callEnd(toolName: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const stop = rack.serving.app.registry.subscribe((event) => {
      if (event.type !== "record" || event.record.toolName !== toolName) return;
      stop();
      resolve(event.record.error?.code);
    });
  });
}
