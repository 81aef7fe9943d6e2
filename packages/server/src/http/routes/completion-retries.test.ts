import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";
import { serve } from "../../rack/serve.ts";

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
        headers: { "idempotency-key": "one" },
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
      .chat.completions.create({ model: "model-a", messages: [...messages] }, { signal: away.signal });
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

  it("after its calls were cancelled is refused, and not repeated", async () => {
    rack.script(() => called(["write", { text: "hold-gone" }]));
    const away = new AbortController();
    const body = { model: "model-a", messages };
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
    const again = await send(1);
    expect(again.status).toBe(409);
    expect(again.headers.get("x-should-retry")).toBe("false");
    rack.script(() => ({ content: "anew" }));
    expect((await send(0)).status).toBe(200);
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
    const first = send(0, away.signal);
    await expect.poll(open, { timeout: 30_000 }).toHaveLength(1);
    away.abort();
    await expect(first).rejects.toThrow();
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
        const { error } = JSON.parse(await response.text());
        return { status: response.status, code: error?.code, retry: response.headers.get("x-should-retry") };
      };
      const count = (number: number) => ({ "x-stainless-retry-count": String(number) });
      const refused = { status: 409, code: "chat_cancelled", retry: "false" };
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
      writing("keyed elsewhere");
      const key = { "idempotency-key": "of the client" };
      expect((await ask(here, "keyed elsewhere", key)).status).toBe(200);
      expect(await ask(other.url, "keyed elsewhere", key)).toEqual(refused);
      expect(rack.ran).toHaveLength(2);

      rack.script((request) =>
        answersIn(request).length === 0 ? called(["add", { a: 1, b: 2 }]) : { content: "3" },
      );
      expect((await ask(here, "only read", count(0))).status).toBe(200);
      expect((await ask(other.url, "only read", count(1))).status).toBe(200);

      // What does not come again by itself leaves nothing in the store.
      const { chat } = rack.serving.store;
      const kept = vi.spyOn(chat, "addHandoff");
      const looked = vi.spyOn(chat, "getHandoff");
      writing("plain");
      expect((await ask(here, "plain")).status).toBe(200);
      expect([kept.mock.calls, looked.mock.calls]).toEqual([[], []]);
      expect((await ask(here, "plain", count(0))).status).toBe(200);
      expect([kept.mock.calls.length, looked.mock.calls.length]).toEqual([1, 0]);
      vi.restoreAllMocks();
    } finally {
      await other.close();
    }
  });

  it("after a restart is refused", async () => {
    rack.script(() => called(["write", { text: "hold-restart" }]));
    const send = (number: number) =>
      rack.fetch("/v1/chat/completions", {
        headers: { "x-stainless-retry-count": String(number) },
        body: { model: "model-a", messages: [{ role: "user", content: "over a restart" }] },
      });
    const first = send(0);
    await rack.hold.started("hold-restart");
    const closed = rack.serving.close();
    expect((await first).status).toBe(503);
    rack.hold.release("hold-restart");
    await closed;
    await rack.open();
    const again = await send(1);
    expect(again.status).toBe(409);
    expect(again.headers.get("x-should-retry")).toBe("false");
  });
});
