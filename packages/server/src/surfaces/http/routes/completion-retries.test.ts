import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";

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
});
