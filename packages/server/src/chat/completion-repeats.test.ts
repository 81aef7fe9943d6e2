import { Tool } from "@toolrack/core";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { serve } from "../rack/serve.ts";
import { CompletionRuns, identify } from "./completion-runs.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

const messages = [{ role: "user", content: "write" }] as const;
const impatient = () =>
  new OpenAI({
    baseURL: `${rack.serving.url}/v1`,
    apiKey: rack.serving.token,
    timeout: 1_500,
    maxRetries: 2,
  });

it("a stream that the client closes ends at once, since such a client does not come back", async () => {
  const begin = async (text: string, stream: boolean) => {
    rack.script(() => called(["write", { text }]));
    const away = new AbortController();
    const answer = rack.fetch("/v1/chat/completions", {
      headers: { "x-stainless-retry-count": "0" },
      body: { model: "model-a", messages: [{ role: "user", content: text }], stream },
      signal: away.signal,
    });
    await rack.hold.started(text);
    return { answer, away };
  };
  const whole = await begin("hold-whole", false);
  const streamed = await begin("hold-streamed", true);
  expect((await streamed.answer).status).toBe(200);
  whole.away.abort();
  await expect(whole.answer).rejects.toThrow();
  streamed.away.abort();
  const ended = () => rack.hold.aborted.filter((id) => /-(whole|streamed)$/.test(id));
  await expect.poll(ended, { timeout: 30_000 }).toEqual(["hold-streamed", "hold-whole"]);
});

describe("a request that the client sends again", () => {
  it("by itself, because it waits no longer, joins the first, and no tool runs twice", async () => {
    rack.ran.length = 0;
    // Every run of the request would call it.
    rack.script((request) =>
      answersIn(request).length === 0 ? called(["write", { text: "hold-once" }]) : { content: "written" },
    );
    const answer = impatient().chat.completions.create({ model: "model-a", messages: [...messages] });
    await rack.hold.started("hold-once");
    // The first connection is given up after the client's patience; the next one waits.
    await new Promise((resolve) => setTimeout(resolve, 2_600));
    rack.hold.release("hold-once");
    expect((await answer).choices[0]?.message.content).toBe("written");
    expect(rack.ran).toEqual([{ name: "write", input: { text: "hold-once" } }]);
  });

  it("under a key of its own is answered once, streamed or not", async () => {
    rack.ran.length = 0;
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: "keyed" }]) : { content: "written" },
    );
    const ask = async (stream: boolean) => {
      const response = await rack.fetch("/v1/chat/completions", {
        headers: { "idempotency-key": stream ? "streamed" : "whole" },
        body: { model: "model-a", messages, stream },
      });
      return response.text();
    };
    expect(JSON.parse(await ask(false)).id).toBe(JSON.parse(await ask(false)).id);
    expect(rack.ran).toHaveLength(1);
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: "hold-keyed" }]) : { content: "streamed" },
    );
    const first = ask(true);
    await rack.hold.started("hold-keyed");
    const second = ask(true);
    rack.hold.release("hold-keyed");
    expect(await first).toContain('"content":"streamed"');
    expect(await second).toContain('"content":"streamed"');
    expect(rack.ran).toHaveLength(2);
  });

  it("too late finds that nothing more was begun meanwhile", async () => {
    rack.ran.length = 0;
    rack.script(() => called(["write", { text: "hold-first" }], ["write", { text: "second" }]));
    const away = new AbortController();
    const answer = rack
      .client()
      .chat.completions.create(
        { model: "model-a", messages: [{ role: "user", content: "too late" }] },
        { signal: away.signal },
      );
    await rack.hold.started("hold-first");
    away.abort();
    await expect(answer).rejects.toThrow();
    // The server is to notice first.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    rack.hold.release("hold-first");
    const calls = () => rack.ask("/api/calls?status=running");
    await expect.poll(async () => (await calls()).items, { timeout: 30_000 }).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 4_500));
    expect(rack.ran).toEqual([{ name: "write", input: { text: "hold-first" } }]);
  });

  it("after its calls were cancelled is told so, and not repeated", async () => {
    rack.script(() => called(["write", { text: "hold-gone" }]));
    const away = new AbortController();
    const body = { model: "model-a", messages: [{ role: "user", content: "cancelled" }] };
    const send = (count: number, signal?: AbortSignal) =>
      rack.fetch("/v1/chat/completions", {
        headers: { "x-stainless-retry-count": String(count), "x-stainless-timeout": "600" },
        body,
        ...(signal === undefined ? {} : { signal }),
      });
    const first = send(0, away.signal);
    await rack.hold.started("hold-gone");
    away.abort();
    await expect(first).rejects.toThrow();
    await expect.poll(() => rack.hold.aborted, { timeout: 30_000 }).toContain("hold-gone");
    rack.ran.length = 0;
    for (const count of [1, 0]) {
      const again = await send(count);
      expect(again.status).toBe(200);
      expect(await again.json()).toMatchObject({
        choices: [
          {
            message: { content: expect.stringContaining("connection of this request") },
            finish_reason: "length",
          },
        ],
        toolrack: { error: { code: "chat_cancelled", type: "invalid_request_error" } },
      });
    }
    expect(rack.ran).toEqual([]);
  });

  it("after a question that nobody had answered is asked anew, since nothing was done", async () => {
    rack.script((request) =>
      answersIn(request).length === 0 ? called(["wipe", { what: "all" }]) : { content: "wiped" },
    );
    const away = new AbortController();
    const send = (count: number, signal?: AbortSignal) =>
      rack.fetch("/v1/chat/completions", {
        headers: { "x-stainless-retry-count": String(count) },
        body: { model: "model-a", messages: [{ role: "user", content: "wipe" }] },
        ...(signal === undefined ? {} : { signal }),
      });
    const open = async () => (await rack.ask("/api/approvals?state=pending")).items;
    const first = await send(0, away.signal);
    await expect.poll(open, { timeout: 30_000 }).toHaveLength(1);
    away.abort();
    await expect(first.text()).rejects.toThrow();
    await expect.poll(open, { timeout: 30_000 }).toEqual([]);
    const again = send(1);
    await expect.poll(open, { timeout: 30_000 }).toHaveLength(1);
    const [question] = await open();
    await rack.ask(`/api/approvals/${question.id}`, { body: { decision: "allow" } });
    expect(await (await again).json()).toMatchObject({ choices: [{ message: { content: "wiped" } }] });
  });

  it("to another process is refused once something was changed, and answered when it was not", async () => {
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const other = await serve(rack.workspace.directory, { logger, port: 0 });
    try {
      const ask = async (url: string, said: string, headers: Record<string, string> = {}) => {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${rack.serving.token}`,
            "content-type": "application/json",
            ...headers,
          },
          body: JSON.stringify({ model: "model-a", messages: [{ role: "user", content: said }] }),
        });
        const { toolrack } = JSON.parse(await response.text());
        return { status: response.status, code: toolrack?.error.code };
      };
      const count = (number: number) => ({ "x-stainless-retry-count": String(number) });
      const refused = { status: 200, code: "chat_cancelled" };
      const here = rack.serving.url;
      rack.ran.length = 0;
      const writing = (text: string) =>
        rack.script((request) =>
          answersIn(request).length === 0 ? called(["write", { text }]) : { content: "written" },
        );
      writing("hold-elsewhere");
      const first = ask(here, "elsewhere", count(0));
      await rack.hold.started("hold-elsewhere");
      expect(await ask(other.url, "elsewhere", count(1))).toEqual(refused);
      rack.hold.release("hold-elsewhere");
      expect((await first).status).toBe(200);
      // Here it is known what came of it.
      expect((await ask(here, "elsewhere", count(1))).status).toBe(200);
      // Its client does not say so, but the connection broke.
      writing("hold-broken");
      const away = new AbortController();
      const body = { model: "model-a", messages: [{ role: "user", content: "broken" }] };
      const broken = rack.fetch("/v1/chat/completions", { body, signal: away.signal });
      await rack.hold.started("hold-broken");
      const noted = vi.spyOn(rack.serving.store.chat, "addHandoff");
      away.abort();
      await expect(broken).rejects.toThrow();
      const states = () => Promise.all(noted.mock.calls.map(([{ messages }]) => Object(messages[0]).state));
      await expect.poll(states, { timeout: 3_000 }).toEqual(["left"]);
      noted.mockRestore();
      expect(await ask(other.url, "broken")).toEqual(refused);
      rack.hold.release("hold-broken");
      writing("keyed elsewhere");
      const key = { "idempotency-key": "of the client" };
      expect((await ask(here, "keyed elsewhere", key)).status).toBe(200);
      expect(await ask(other.url, "keyed elsewhere", key)).toEqual(refused);
      expect(rack.ran).toHaveLength(3);

      rack.script((request) =>
        answersIn(request).length === 0 ? called(["add", { a: 1, b: 2 }]) : { content: "3" },
      );
      expect((await ask(here, "only read", count(0))).status).toBe(200);
      expect((await ask(other.url, "only read", count(1))).status).toBe(200);

      // What only reads leaves nothing in the store.
      const { chat } = rack.serving.store;
      const kept = vi.spyOn(chat, "addHandoff");
      const looked = vi.spyOn(chat, "getHandoff");
      expect((await ask(here, "only read")).status).toBe(200);
      expect([kept.mock.calls, looked.mock.calls]).toEqual([[], []]);
      vi.restoreAllMocks();
    } finally {
      await other.close();
    }
  });

  it.each([
    ["/v1/chat/completions", { messages: [{ role: "user", content: "over a restart" }] }],
    ["/v1/responses", { input: "over a restart" }],
  ])("after a restart calls no tool again: %s", async (path, said) => {
    // Each has a hold of its own: one that was let go stays so.
    const text = `hold over a restart: ${path}`;
    rack.script(() => called(["write", { text }]));
    const send = async (headers = {}) => {
      const answer = await rack.ask(path, { headers, body: { model: "model-a", ...said } });
      return { ...answer, text: JSON.stringify(answer.choices ?? answer.output) };
    };
    const first = send();
    await rack.hold.started(text);
    const closed = rack.serving.close();
    expect(await first).toMatchObject({ toolrack: { error: { code: "stopping" } } });
    rack.hold.release(text);
    await closed;
    await rack.open();
    rack.ran.length = 0;
    const refused = {
      text: expect.stringContaining("not called again"),
      toolrack: { error: { code: "chat_cancelled" } },
    };
    expect(await send()).toMatchObject(refused);
    expect(await send({ "x-stainless-retry-count": "1" })).toMatchObject(refused);
    expect(rack.ran).toEqual([]);
    // Nothing of that is a failure of the server.
    expect(rack.workspace.messages.filter((line) => line.includes("failed"))).toEqual([]);
  });

  it("is one that a stopping server could not finish, if nothing was done, and another server answers it", async () => {
    rack.script(() => called(["weather", { city: "hold-stopping" }]));
    const body = { model: "model-a", messages: [{ role: "user", content: "while it stops" }] };
    const first = rack.fetch("/v1/chat/completions", { body });
    await rack.hold.started("hold-stopping");
    const closed = rack.serving.close();
    const { status, headers } = await first;
    expect([status, headers.get("x-should-retry")]).toEqual([503, null]);
    await closed;
    await rack.open();
    rack.script(() => ({ content: "here" }));
    expect((await rack.ask("/v1/chat/completions", { body })).choices[0].message.content).toBe("here");
  });
});

describe("a request that is the same as an earlier one, of a client that does not say that it repeats it", () => {
  const ask = (content: string, more: object = {}) =>
    rack.ask("/v1/chat/completions", {
      body: { model: "model-a", messages: [{ role: "user", content }], ...more },
    });
  const fails = (text: string) =>
    rack.script((request) =>
      answersIn(request).length === 0
        ? { content: "Let me write.", toolCalls: [{ name: "write", arguments: JSON.stringify({ text }) }] }
        : { error: { message: "the account is empty", code: "insufficient_quota" }, status: 429 },
    );
  const writes = (text: string) =>
    rack.script((request) =>
      answersIn(request).length === 0 ? called(["write", { text }]) : { content: "written" },
    );

  it("gets the first one's answer when that failed after a tool that does more than read", async () => {
    rack.ran.length = 0;
    fails("failed");
    const first = await ask("failed");
    expect(first).toMatchObject({
      status: 200,
      choices: [{ finish_reason: "length" }],
      toolrack: {
        error: { code: "provider_busy", details: { provider: "scripted" } },
      },
    });
    expect(first.choices[0].message.content).toMatch(
      /^Let me write\.\n\n\[The answer could not be finished: .*empty/,
    );
    // Another temperature makes it no other request.
    expect(await ask("failed", { temperature: 1 })).toMatchObject({ id: first.id });
    const streamed = await rack.fetch("/v1/chat/completions", {
      body: { model: "model-a", messages: [{ role: "user", content: "failed" }], stream: true },
    });
    const text = await streamed.text();
    expect(text).toContain("Let me write.");
    expect(text).toContain('"finish_reason":"length"');
    expect(text).toContain('"toolrack":{"error":{"code":"provider_busy"');
    expect(rack.ran).toHaveLength(1);
  });

  it("gets that answer also when a tool that only reads had called one that does more", async () => {
    const peek = Tool.define({
      name: "peek",
      description: "Looks, and writes down what it saw.",
      parameters: { type: "object" },
      metadata: { readOnly: true },
      execute: ({ call }) => call("write", { text: "seen" }),
    });
    await using plain = await ChatRack.start({ tools: [peek] });
    plain.script((request) =>
      answersIn(request).length === 0 ? called(["peek", {}]) : { error: { message: "down" }, status: 402 },
    );
    const asked = { "/v1/chat/completions": { messages }, "/v1/responses": { input: "write" } };
    for (const [path, said] of Object.entries(asked)) {
      plain.ran.length = 0;
      const body = { model: "model-a", ...said };
      const first = await plain.ask(path, { body });
      expect(first.toolrack.error.code).toBe("provider_refused");
      expect((await plain.ask(path, { body })).id).toBe(first.id);
      expect(plain.ran).toEqual([{ name: "write", input: { text: "seen" } }]);
    }
  });

  it("gets that answer also when the server has answered many others since", {
    timeout: 300_000,
  }, async () => {
    fails("among many");
    const first = await ask("among many");
    writes("others in between");
    for (let at = 0; at < 202; at += 2) await Promise.all([ask(`other ${at}`), ask(`other ${at + 1}`)]);
    rack.ran.length = 0;
    expect(await ask("among many")).toMatchObject({ id: first.id });
    expect(rack.ran).toEqual([]);
  });

  it("joins one whose connection broke, however many come at the same moment", async () => {
    rack.ran.length = 0;
    writes("hold-many");
    const away = new AbortController();
    const body = { model: "model-a", messages: [{ role: "user", content: "many" }] };
    const broken = rack.fetch("/v1/chat/completions", { body, signal: away.signal });
    await rack.hold.started("hold-many");
    const noted = vi.spyOn(rack.serving.store.chat, "addHandoff");
    away.abort();
    await expect(broken).rejects.toThrow();
    await expect.poll(() => noted.mock.calls).toHaveLength(1);
    noted.mockRestore();
    const found = vi.spyOn(CompletionRuns.prototype, "find");
    const again = Array.from({ length: 4 }, () => ask("many"));
    await expect.poll(() => found.mock.calls).toHaveLength(4);
    found.mockRestore();
    rack.hold.release("hold-many");
    const ids = (await Promise.all(again)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(1);
    expect(rack.ran).toHaveLength(1);
    // It ended well, and its client has the answer.
    writes("then anew");
    expect((await ask("many")).id).not.toBe(ids[0]);
  });

  it("gets the first one's answer when the server itself failed", async () => {
    rack.ran.length = 0;
    const own = { type: "function", function: { name: "own", parameters: { type: "object" } } };
    rack.script(() => called(["write", { text: "then the store fails" }], ["own", {}]));
    const kept = vi.spyOn(rack.serving.store.chat, "addHandoff").mockRejectedValue(new Error("broken"));
    const failed = {
      status: 200,
      choices: [{ finish_reason: "length" }],
      toolrack: { error: { code: "internal_error" } },
    };
    for (const _ of [1, 2]) expect(await ask("store", { tools: [own] })).toMatchObject(failed);
    kept.mockRestore();
    expect(rack.ran).toHaveLength(1);
  });

  it("runs anew when messages, tools or token are others", async () => {
    rack.ran.length = 0;
    fails("others");
    await ask("others");
    const tools = [{ type: "function", function: { name: "own", parameters: { type: "object" } } }];
    await ask("others", { tools });
    await ask("others!");
    const token = await rack.issue({ tools: ["write"] });
    const body = { model: "model-a", messages: [{ role: "user", content: "others" }] };
    await rack.ask("/v1/chat/completions", { token, body });
    expect(rack.ran).toHaveLength(4);
  });

  it("runs anew when the first ended well, is still under way, or only read", async () => {
    rack.ran.length = 0;
    writes("well");
    const [one, other] = [await ask("well"), await ask("well")];
    expect(one.choices[0].message.content).toBe("written");
    expect(other.id).not.toBe(one.id);
    writes("hold-side-by-side");
    const both = [ask("side by side"), ask("side by side")];
    await expect.poll(() => rack.ran).toHaveLength(4);
    rack.hold.release("hold-side-by-side");
    rack.hold.release("hold-side-by-side");
    await Promise.all(both);
    rack.script((request) =>
      answersIn(request).length === 0
        ? called(["add", { a: 1, b: 1 }])
        : { error: { message: "down" }, status: 402 },
    );
    // Clients may ask again at this status, and no harm is done.
    expect((await ask("read")).status).toBe(400);
    expect((await ask("read")).status).toBe(400);
    expect(rack.ran).toHaveLength(6);
  });

  it("runs anew when the operator wants it so", async () => {
    await using plain = await ChatRack.start({ chat: { joinRepeats: false } });
    plain.script((request) =>
      answersIn(request).length === 0
        ? called(["write", { text: "x" }])
        : { error: { message: "down" }, status: 402 },
    );
    const body = { model: "model-a", messages };
    // Even so it is no status at which a client would ask again by itself.
    for (const _ of [1, 2]) expect((await plain.ask("/v1/chat/completions", { body })).status).toBe(200);
    expect(plain.ran).toHaveLength(2);
  });
});

it("a request with other credentials of its caller is another request, also with the same token and key", () => {
  const body = { messages: [] };
  const hashOf = (headers: Record<string, string>) =>
    identify({ "idempotency-key": "k", ...headers }, "token", body)?.hash;
  const ann = hashOf({ "x-toolrack-caller-key": "of-ann" });
  expect(ann).not.toBe(hashOf({ "x-toolrack-caller-key": "of-ben" }));
  expect(ann).not.toBe(hashOf({}));
  expect(ann).toBe(hashOf({ "x-toolrack-caller-key": "of-ann", "user-agent": "other" }));
});
