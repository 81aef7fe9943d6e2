import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

const texts = (message: { parts: { type: string; text: string }[] }) =>
  message.parts.filter(({ type }) => type === "text").map(({ text }) => text);

describe("a conversation that the server keeps", () => {
  it("runs the tools that the model asks for, tells it what came of them, and keeps it all", async () => {
    rack.script((request, asked) =>
      asked === 0
        ? {
            content: "I will look. ",
            toolCalls: [{ id: "c1", name: "weather", arguments: '{"city":"上海"}' }],
          }
        : { content: `It is warm (${request.messages.length}).` },
    );
    const session = await rack.session();
    const message = await rack.say(session, "How is the weather in Shanghai?");
    expect(message).toMatchObject({ status: "completed", role: "assistant", end: { reason: "stop" } });
    const tool = message.parts.find(({ type }: { type: string }) => type === "tool");
    expect(tool).toMatchObject({
      id: "c1",
      name: "weather",
      displayName: "Weather/天气",
      state: { status: "completed", input: { city: "上海" }, output: "上海: 21 °C" },
    });
    expect(texts(message)).toEqual(["I will look. ", "It is warm (3)."]);
    expect(message.usage.total_tokens).toBeGreaterThan(0);
    const last = rack.requests.at(-1);
    expect(last.messages[1]).toMatchObject({
      role: "assistant",
      content: "I will look. ",
      tool_calls: [{ id: "c1" }],
    });
    expect(answersIn(last)).toEqual([
      { role: "tool", tool_call_id: "c1", name: "weather", content: "上海: 21 °C" },
    ]);
    const call = await rack.ask(`/api/calls/${tool.callId}`);
    expect(call).toMatchObject({ toolName: "weather", sessionID: session, status: "completed" });

    rack.script((request) => ({ content: `${request.messages.length} messages` }));
    expect(texts(await rack.say(session, "And now?"))).toEqual(["5 messages"]);
    const kept = await rack.ask(`/api/chat/sessions/${session}`);
    expect(kept.title).toBe("How is the weather in Shanghai?");
    expect(kept.messages.map(({ role, position }: never) => [role, position])).toEqual([
      ["user", 1],
      ["assistant", 2],
      ["user", 3],
      ["assistant", 4],
    ]);
  });

  it("makes calls that only read side by side and others in their order, and answers in the order asked", async () => {
    rack.ran.length = 0;
    rack.script((_request, asked) =>
      asked === 0
        ? called(
            ["weather", { city: "hold-1" }, "a"],
            ["add", { a: 1, b: 2 }, "b"],
            ["write", { text: "hold-2" }, "c"],
            ["write", { text: "second" }, "d"],
          )
        : { content: "done" },
    );
    const session = await rack.session();
    const answer = rack.say(session, "go");
    await rack.hold.started("hold-1");
    await expect.poll(() => rack.ran.map(({ name }) => name)).toEqual(["weather", "add"]);
    rack.hold.release("hold-1");
    await rack.hold.started("hold-2");
    expect(rack.ran).toHaveLength(3);
    rack.hold.release("hold-2");
    await answer;
    expect(rack.ran.map(({ input }) => input.text ?? input.city ?? input.a)).toEqual([
      "hold-1",
      1,
      "hold-2",
      "second",
    ]);
    expect(answersIn(rack.requests.at(-1)).map(({ tool_call_id }) => tool_call_id)).toEqual([
      "a",
      "b",
      "c",
      "d",
    ]);
  });

  it("shows the model what was wrong with its arguments, mends what can be mended, and names tools that exist", async () => {
    rack.ran.length = 0;
    rack.script((_request, asked) =>
      asked === 0
        ? called(
            ["add", "{'a': 1, b: 2}", "mended"],
            ["add", '{"a": "one"}', "unfit"],
            ["add", "add one and two", "broken"],
            ["wether", { city: "Rome" }, "unknown"],
          )
        : { content: "sorry" },
    );
    await rack.say(await rack.session(), "go");
    expect(rack.ran).toEqual([{ name: "add", input: { a: 1, b: 2 } }]);
    const [mended, unfit, broken, unknown] = answersIn(rack.requests.at(-1)).map(({ content }) => content);
    expect(mended).toContain("3");
    expect(unfit).toMatch(/a.*number/s);
    expect(broken).toMatch(/JSON/);
    expect(unknown).toContain("weather");
    // Providers refuse a history whose arguments are not JSON.
    for (const { function: asked } of rack.requests.at(-1).messages[1].tool_calls) {
      expect(() => JSON.parse(asked.arguments)).not.toThrow();
    }
  });

  it("stops a model that goes in circles for ever, and goes on when a person says something", async () => {
    rack.script(() => called(["weather", { city: "Rome" }]));
    const session = await rack.session();
    const message = await rack.say(session, "go");
    expect(message).toMatchObject({ status: "completed", end: { reason: "loop" } });
    expect(message.end.message).toContain("goes in circles");
    expect(texts(message).join("")).toContain("goes in circles");
    const calls = message.parts.filter(({ type }: { type: string }) => type === "tool");
    expect(calls.length).toBeLessThan(10);
    rack.script((_request, asked) =>
      asked === 0 ? called(["weather", { city: "Rome" }]) : { content: "fine" },
    );
    expect(texts(await rack.say(session, "once more, then stop"))).toEqual(["fine"]);
  });

  it("waits for 429 and 5xx before the first token, and never makes a call twice for it", async () => {
    rack.ran.length = 0;
    const failure = (status: number): never =>
      ({ error: { message: "later", type: "busy" }, status, retryAfter: 0 }) as never;
    rack.script((_request, asked) => {
      if (asked === 0) return failure(429);
      if (asked === 1) return called(["write", { text: "once" }]);
      if (asked === 2) return failure(503);
      return { content: "written" };
    });
    const events = await (await rack.stream(await rack.session(), "go")).all();
    expect(events.filter(({ event }) => event === "retry")).toHaveLength(2);
    expect(events.at(-1)).toMatchObject({ event: "end", data: { end: { reason: "stop" } } });
    expect(rack.ran).toEqual([{ name: "write", input: { text: "once" } }]);
  });

  it("says what the provider says when it refuses, and keeps the conversation usable", async () => {
    rack.script(() => ({ error: { message: "key key-of-the-provider is no good" }, status: 401 }));
    const session = await rack.session();
    const message = await rack.say(session, "go");
    expect(message).toMatchObject({
      status: "error",
      end: { reason: "error", code: "provider_unauthorized" },
    });
    expect(message.end.message).toContain("[redacted] is no good");
    rack.script((request) => ({ content: `${request.messages.length}` }));
    expect(texts(await rack.say(session, "again"))).toEqual(["2"]);
  });

  it("keeps what came of an answer that was cut, and runs nothing of it", async () => {
    rack.ran.length = 0;
    rack.script(() => ({ content: "one two three four five six seven eight nine ten" }), {
      chunkSize: 4,
      truncateAfterChunks: 4,
      latency: 25,
    });
    const message = await rack.say(await rack.session(), "go");
    expect(message).toMatchObject({ status: "error", end: { reason: "error" } });
    expect(message.end.code).toMatch(/^provider_(cut|unreachable)$/);
    expect(texts(message)[0]).toMatch(/^one/);
    rack.script(() => called(["write", { text: "a rather long text that is cut in the middle" }]), {
      chunkSize: 4,
      truncateAfterChunks: 5,
      latency: 25,
    });
    expect((await rack.say(await rack.session(), "go")).status).toBe("error");
    expect(rack.ran).toEqual([]);
  });

  it("does not run a call whose arguments the length limit cut", async () => {
    rack.ran.length = 0;
    rack.script((_request, asked) =>
      asked === 0
        ? { toolCalls: [{ name: "write", arguments: '{"text": "half' }], finishReason: "length" }
        : { content: "shorter" },
    );
    await rack.say(await rack.session(), "go");
    expect(rack.ran).toEqual([]);
    expect(answersIn(rack.requests.at(-1))[0].content).toContain("length limit");
  });

  it("cuts long results, says how to read the rest, and lets the model read it", async () => {
    rack.script((request, asked) => {
      if (asked === 0) return called(["long", { size: 200_000 }]);
      const callId = /kept as call (\S+);/.exec(answersIn(request)[0].content)?.[1];
      if (asked === 1) return called(["toolrack_read_result", { callId, offset: 100_000, limit: 30 }]);
      return { content: "read" };
    });
    await rack.say(await rack.session(), "go");
    const [cut, rest] = answersIn(rack.requests.at(-1)).map(({ content }) => content);
    expect(cut.length).toBeLessThan(60_000);
    expect(rest).toContain("characters 100000 to 100030 of");
    // Another conversation cannot read it.
    const callId = /kept as call (\S+);/.exec(cut)?.[1];
    rack.script((_request, asked) =>
      asked === 0 ? called(["toolrack_read_result", { callId }]) : { content: "no" },
    );
    await rack.say(await rack.session(), "go");
    expect(answersIn(rack.requests.at(-1))[0].content).toContain("has no call");
  });

  it("tells calls apart whose ids the provider uses again", async () => {
    const again = (text: string) => (_request: unknown, asked: number) =>
      asked === 0 ? called(["write", { text }, "call_0"]) : { content: "ok" };
    const session = await rack.session();
    for (const text of ["one", "two"]) {
      rack.script(again(text));
      await rack.say(session, text);
    }
    const answers = answersIn(rack.requests.at(-1));
    expect(answers.map(({ content }) => content)).toEqual(["wrote one", "wrote two"]);
    expect(new Set(answers.map(({ tool_call_id }) => tool_call_id)).size).toBe(2);
  });

  it("shows images as images", async () => {
    rack.script((_request, asked) => (asked === 0 ? called(["photo", {}, "p"]) : { content: "nice" }));
    await rack.say(await rack.session(), "go");
    const [, , answer, image] = rack.requests.at(-1).messages;
    expect(answer).toMatchObject({ role: "tool", content: expect.stringContaining("[attached: image/png]") });
    expect(image.content[1]).toEqual({
      type: "image_url",
      image_url: { url: "data:image/png;base64,iVBORw0KGgo=" },
    });
  });

  it("takes a refusal of the model for an answer", async () => {
    rack.script(() => ({ content: "I cannot help with that.", finishReason: "content_filter" }));
    expect(await rack.say(await rack.session(), "go")).toMatchObject({ end: { reason: "content_filter" } });
  });
});

describe("a turn", () => {
  it("goes on when its reader is gone, which reads on where it left off", async () => {
    rack.script((_request, asked) =>
      asked === 0 ? called(["weather", { city: "hold-3" }]) : { content: "warm" },
    );
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    const { id } = await reader.until("call");
    await reader.cancel();
    const busy = await rack.ask(`/api/chat/sessions/${session}/messages`, { body: { content: "x" } });
    expect(busy).toMatchObject({ status: 409, error: { code: "chat_busy" } });
    rack.hold.release("hold-3");
    const { StreamReader } = await import("../http/server.fixture.ts");
    const again = new StreamReader(
      await rack.fetch(`/api/chat/sessions/${session}/events`, { headers: { "last-event-id": id! } }),
    );
    const events = await again.all();
    expect(events[0]?.event).toBe("state");
    expect(events.map(({ event }) => event)).toContain("text");
    expect(events.at(-1)?.event).toBe("end");

    const fresh = await new StreamReader(await rack.fetch(`/api/chat/sessions/${session}/events`)).all();
    expect(fresh.map(({ event }) => event)).toEqual(["message", "end"]);
    expect(fresh[0]?.data.parts.at(-1)).toMatchObject({ type: "text", text: "warm" });
  });

  it("ends with its calls when a person stops it", async () => {
    rack.script(() => called(["write", { text: "hold-4" }, "a"], ["write", { text: "never" }, "b"]));
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    await rack.hold.started("hold-4");
    expect(await rack.ask(`/api/chat/sessions/${session}/stop`, { method: "POST" })).toMatchObject({
      stopped: true,
    });
    expect((await reader.until("end")).data.end).toEqual({ reason: "stopped" });
    expect(rack.hold.aborted).toContain("hold-4");
    expect(rack.ran).not.toContainEqual({ name: "write", input: { text: "never" } });
    // The conversation stays sound: every call has an answer.
    rack.script((request) => ({ content: `${answersIn(request).length}` }));
    expect(texts(await rack.say(session, "and now?"))).toEqual(["2"]);
  });

  it("shows questions, and goes on with what a person says to them", async () => {
    rack.ran.length = 0;
    rack.script((_request, asked) => (asked === 0 ? called(["wipe", { what: "all" }]) : { content: "ok" }));
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    const { data } = await reader.until("approval");
    expect(data.approval).toMatchObject({ toolName: "wipe", state: "pending", input: { what: "all" } });
    await rack.ask(`/api/approvals/${data.approval.id}`, {
      body: { decision: "allow", arguments: { what: "a little" } },
    });
    await reader.until("end");
    expect(rack.ran).toEqual([{ name: "wipe", input: { what: "a little" } }]);
    expect(answersIn(rack.requests.at(-1))[0].content).toContain("wiped a little");
  });

  it("belongs to whoever began it", async () => {
    const session = await rack.session();
    const stranger = await rack.issue({ tools: ["*"] });
    const answer = await rack.ask(`/api/chat/sessions/${session}`, { token: stranger });
    expect(answer).toMatchObject({ status: 404, error: { code: "chat_session_not_found" } });
    expect((await rack.ask("/api/chat/sessions", { token: stranger })).items).toEqual([]);
    const own = (await rack.ask("/api/chat/sessions", { token: stranger, body: {} })).id;
    expect((await rack.ask("/api/chat/sessions", { token: stranger })).items).toHaveLength(1);
    expect(await rack.ask(`/api/chat/sessions/${own}`, { token: stranger, method: "DELETE" })).toMatchObject({
      id: own,
    });
    expect((await rack.ask("/api/chat/sessions", { token: stranger })).items).toEqual([]);
  });
});
