import { request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ServedRack, toolFile } from "./testing/served-rack.ts";

let rack: ServedRack;

beforeAll(async () => {
  rack = await ServedRack.open({
    "tools/all.ts": toolFile(
      'name: "weather", execute: async () => "sunny"',
      'name: "endless", execute: ({ signal }) => new Promise((_, end) => signal.addEventListener("abort", end))',
      'name: "secrets", execute: async () => "hidden"',
      'name: "reach", execute: async ({ call }) => (await call("secrets")).content',
    ),
  });
  await rack.serving.app.skills.experts.create({ name: "Forecaster", tools: ["weather", "reach"] });
});

afterAll(() => rack?.[Symbol.asyncDispose]());

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};
const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };

async function openSession(token?: string): Promise<string> {
  const { headers } = await rack.post("legacy", initialize, token === undefined ? {} : { token });
  return headers.get("mcp-session-id") ?? "";
}

const inSession = (id: string) => ({ headers: { "mcp-session-id": id } });

test.each(["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])(
  "a client that asks for %s is served in it",
  async (protocolVersion) => {
    const params = { ...initialize.params, protocolVersion };
    const { message } = await rack.post("legacy", { ...initialize, params });
    expect(message.result.protocolVersion).toBe(protocolVersion);
  },
);

test("a session that is not there, was ended, or is somebody else's is answered with 404", async () => {
  expect((await rack.post("legacy", list, inSession("nonsense"))).status).toBe(404);
  const id = await openSession();
  expect((await rack.post("legacy", list, inSession(id))).status).toBe(200);
  const token = await rack.issue({ tools: ["*"] });
  expect((await rack.post("legacy", list, { ...inSession(id), token })).status).toBe(404);
  const ended = await fetch(`${rack.serving.url}/mcp`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${rack.token}`, "mcp-session-id": id },
  });
  expect(ended.status).toBe(200);
  expect((await rack.post("legacy", list, inSession(id))).status).toBe(404);
});

test("the rack is served at its whole address too, and with a slash at the end", async () => {
  const { host } = new URL(rack.serving.url);
  const head = [`Host: ${host}`, `Authorization: Bearer ${rack.token}`, "Connection: close"];
  const types = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
  const body = JSON.stringify(list);
  for (const target of [`http://${host}/mcp`, `http://${host}/mcp/Forecaster`, "/mcp/", "/mcp/?a=1"]) {
    const socket = connect(Number(new URL(rack.serving.url).port), "127.0.0.1");
    const lines = [`POST ${target} HTTP/1.1`, ...head, ...types, `Content-Length: ${body.length}`, "", body];
    socket.write(lines.join("\r\n"));
    const answer = await text(socket);
    expect([target, answer.slice(0, 12), answer.includes('"weather"')]).toEqual([
      target,
      "HTTP/1.1 200",
      true,
    ]);
  }
});

test("a body that is encoded is refused in words that say so", async () => {
  const response = await fetch(`${rack.serving.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${rack.token}`,
      "content-type": "application/json",
      "content-encoding": "gzip",
      accept: "application/json, text/event-stream",
    },
    body: gzipSync(JSON.stringify(list)),
  });
  expect([response.status, response.headers.get("accept-encoding")]).toEqual([415, "identity"]);
  const { error } = (await response.json()) as { error: object };
  expect(error).toEqual({ code: -32600, message: expect.stringMatching(/Content-Encoding.+gzip/) });
  const plain = { headers: { "content-encoding": "identity" } };
  expect((await rack.post("legacy", list, plain)).status).toBe(200);
});

test.each(["*/*", "application/*, text/*", "application/json;q=0.9, text/event-stream;q=0.1"])(
  "a client that accepts %s accepts both kinds of answers, in a session too",
  async (accept) => {
    const opened = await rack.post("legacy", initialize, { headers: { accept } });
    expect(opened.status).toBe(200);
    const session = { "mcp-session-id": opened.headers.get("mcp-session-id") ?? "", accept };
    for (const headers of [{ accept }, session]) {
      for (const method of ["tools/list", "prompts/list"]) {
        expect((await rack.post("legacy", { ...list, method }, { headers })).status).toBe(200);
      }
    }
    const stream = await fetch(`${rack.serving.url}/mcp`, {
      headers: { authorization: `Bearer ${rack.token}`, ...session },
    });
    await stream.body?.cancel();
    expect(stream.status).toBe(200);
  },
);

test.each(["application/json", "text/event-stream", "application/json;q=0, text/event-stream", "text/html"])(
  "an older client that accepts %s, and not both kinds of answers, is refused",
  async (accept) => {
    for (const method of ["tools/list", "prompts/list"]) {
      expect((await rack.post("legacy", { ...list, method }, { headers: { accept } })).status).toBe(406);
    }
  },
);

test("a body is read as UTF-8, and refused where it says that it is something else", async () => {
  const send = (type: string) => rack.post("legacy", list, { headers: { "content-type": type } });
  for (const charset of ["utf-16", "latin1", '"iso-8859-1"']) {
    const { status, message } = await send(`application/json; charset=${charset}`);
    expect(status).toBe(415);
    expect(message.error).toEqual({ code: -32600, message: expect.stringContaining("UTF-8") });
  }
  for (const charset of ["utf-8", "UTF-8", '"Utf-8"', "utf8"]) {
    expect((await send(`application/json; charset=${charset}`)).status).toBe(200);
  }
});

test("a cancellation that names no request is taken, and cancels nothing", async () => {
  const id = await openSession();
  const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "endless", arguments: {} } };
  const under = rack.post("legacy", call, inSession(id));
  const cancel = (params: object) =>
    rack.post("legacy", { jsonrpc: "2.0", method: "notifications/cancelled", params }, inSession(id));
  const { registry } = rack.serving.app;
  await vi.waitUntil(() => registry.activeCalls().some(({ toolName }) => toolName === "endless"));
  for (const requestId of [undefined, null, ["x"], { length: 2 }, true]) {
    expect((await cancel({ requestId, reason: "x" })).status).toBe(202);
  }
  expect(registry.activeCalls().map(({ toolName }) => toolName)).toEqual(["endless"]);
  expect((await cancel({ requestId: 7 })).status).toBe(202);
  await under;
  expect(registry.activeCalls()).toEqual([]);
});

test("the stream of a call that was cancelled ends", async () => {
  const id = await openSession();
  const params = { name: "endless", arguments: {}, _meta: { progressToken: "p" } };
  const call = { jsonrpc: "2.0", id: 8, method: "tools/call", params };
  const under = rack.post("legacy", call, inSession(id));
  const { registry } = rack.serving.app;
  await vi.waitUntil(() => registry.activeCalls().some(({ toolName }) => toolName === "endless"));
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 8 } };
  expect((await rack.post("legacy", cancel, inSession(id))).status).toBe(202);
  await under;
  await vi.waitUntil(() => registry.activeCalls().length === 0);
  expect((await rack.post("legacy", list, inSession(id))).status).toBe(200);
});

test("without a session there is no stream to read and nothing to delete", async () => {
  for (const method of ["GET", "DELETE"]) {
    const response = await fetch(`${rack.serving.url}/mcp`, {
      method,
      headers: { authorization: `Bearer ${rack.token}`, accept: "text/event-stream" },
    });
    expect(response.status).toBe(405);
  }
});

test("an older client may do without a session", async () => {
  const { message } = await rack.post("legacy", list);
  expect(message.result.tools.map(({ name }: { name: string }) => name)).toContain("weather");
});

test("a body that is no JSON, or no message, is refused as the protocol says", async () => {
  const send = (body: string) =>
    fetch(`${rack.serving.url}/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${rack.token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body,
    });
  const broken = await send("{");
  expect(broken.status).toBe(400);
  expect(await broken.json()).toMatchObject({ error: { code: -32700 } });
  for (const body of ["null", "5", '"text"', "true"]) {
    const none = await send(body);
    expect(none.status).toBe(400);
    expect(await none.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32600 } });
  }
  expect((await send("[]")).status).toBe(400);
});

test("an expert's address shows and reaches the expert's tools alone", async () => {
  const at = { path: "/mcp/forecaster" };
  const { message } = await rack.post("modern", { ...list, params: {} }, at);
  expect(message.result.tools.map(({ name }: { name: string }) => name)).toEqual(["reach", "weather"]);
  expect((await rack.call("modern", "secrets", {}, at)).message.error.code).toBe(-32602);
  const reached = (await rack.call("modern", "reach", {}, at)).message.result;
  expect(reached.isError).toBe(true);
  expect(JSON.stringify(reached)).not.toContain("hidden");
});

test("a token for the expert alone sees and reaches its tools, and nothing elsewhere", async () => {
  const token = await rack.issue({ experts: ["Forecaster"] });
  const at = { path: "/mcp/forecaster", token };
  const { message } = await rack.post("modern", { ...list, params: {} }, at);
  expect(message.result.tools.map(({ name }: { name: string }) => name)).toEqual(["reach", "weather"]);
  const called = (await rack.call("modern", "weather", {}, at)).message.result;
  expect(called.content).toEqual([{ type: "text", text: "sunny" }]);
  expect((await rack.call("modern", "secrets", {}, at)).message.error.code).toBe(-32602);
  const elsewhere = await rack.post("modern", { ...list, params: {} }, { token });
  expect(elsewhere.message.result.tools).toEqual([]);
});

test("a token that names the expert by its id is let in at its id and its name", async () => {
  const { id } = rack.serving.app.skills.experts.require("Forecaster");
  const token = await rack.issue({ experts: [id] });
  for (const path of [`/mcp/${id}`, "/mcp/forecaster"]) {
    const { message } = await rack.post("modern", { ...list, params: {} }, { path, token });
    expect(message.result.tools.map(({ name }: { name: string }) => name)).toEqual(["reach", "weather"]);
  }
});

test("an expert that is not there, or not for this token, is answered with 404", async () => {
  expect((await rack.post("modern", { ...list, params: {} }, { path: "/mcp/nobody" })).status).toBe(404);
  const token = await rack.issue({ tools: ["*"] });
  const refused = await rack.post("modern", { ...list, params: {} }, { path: "/mcp/forecaster", token });
  expect(refused.status).toBe(404);
});

test("who has no token is told where to read how the address is protected", async () => {
  const response = await fetch(`${rack.serving.url}/mcp`, { method: "POST", body: "{}" });
  expect(response.status).toBe(401);
  const where = /resource_metadata="([^"]+)"/.exec(response.headers.get("www-authenticate") ?? "")?.[1];
  const metadata = await fetch(where!);
  expect(await metadata.json()).toMatchObject({
    resource: `${rack.serving.url}/mcp`,
    bearer_methods_supported: ["header"],
  });
});

test("what is neither a path of the rack nor its own has no metadata", async () => {
  const at = (path: string) => fetch(`${rack.serving.url}/.well-known/oauth-protected-resource${path}`);
  for (const path of ["", "/mcp", "/mcp/", "/mcp/forecaster"]) expect((await at(path)).status).toBe(200);
  for (const path of ["/mcpfoo", "/mcp//", "/mcp/a/b"]) expect((await at(path)).status).toBe(404);
});

test("a method that nothing is done by is refused, in a session and without", async () => {
  const id = await openSession();
  for (const method of ["TRACE", "PUT", "HEAD"]) {
    for (const session of [id, "nonsense", undefined]) {
      expect(await statusOf(method, session)).toBe(405);
    }
  }
});

test("the newer version has no sessions: a header that names one counts for nothing", async () => {
  const id = await openSession();
  for (const session of ["nonsense", id]) {
    const { status, headers, message } = await rack.call("modern", "weather", {}, inSession(session));
    expect([status, message.result?.content]).toEqual([200, [{ type: "text", text: "sunny" }]]);
    expect(headers.get("mcp-session-id")).toBeNull();
  }
  const discovered = { jsonrpc: "2.0", id: 1, method: "server/discover", params: {} };
  expect((await rack.post("modern", discovered, inSession("nonsense"))).status).toBe(200);
});

test("many requests at once on one connection are answered without a warning", async () => {
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on("warning", warned);
  const params = { name: "weather", arguments: {}, _meta: { progressToken: "p" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const request = [
    "POST /mcp HTTP/1.1",
    `Host: ${new URL(rack.serving.url).host}`,
    `Authorization: Bearer ${rack.token}`,
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
  const socket = connect(Number(new URL(rack.serving.url).port), "127.0.0.1");
  let answers = "";
  socket.on("data", (data) => {
    answers += data;
  });
  socket.write(request.repeat(40));
  await vi.waitUntil(() => answers.split('"sunny"').length > 40, 5_000);
  socket.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", warned);
  expect(warnings).toEqual([]);
});

/** By Node's own client: `fetch` sends no TRACE. */
function statusOf(method: string, session: string | undefined): Promise<number | undefined> {
  const headers = {
    authorization: `Bearer ${rack.token}`,
    ...(session === undefined ? {} : { "mcp-session-id": session }),
  };
  return new Promise((resolve, reject) => {
    request(`${rack.serving.url}/mcp`, { method, headers }, (incoming) => {
      incoming.resume();
      resolve(incoming.statusCode);
    })
      .on("error", reject)
      .end();
  });
}
