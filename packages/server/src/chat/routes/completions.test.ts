import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "../testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

type Messages = OpenAI.ChatCompletionMessageParam[];
const hello: Messages = [{ role: "user", content: "hello" }];
const clientTool = {
  type: "function",
  function: {
    name: "ask_user",
    description: "Asks the person at the client.",
    parameters: { type: "object", properties: { question: { type: "string" } } },
  },
} as const;

describe("OpenAI's own client", () => {
  it("reads JSON that it asked for, also when the model spoke before a call", async () => {
    const script = () =>
      rack.script((_request, asked) =>
        asked === 0
          ? { content: "Let me look.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
          : { content: '{"answer":5}' },
      );
    const body = {
      model: "model-a",
      messages: hello,
      response_format: { type: "json_object" },
    } as const;
    script();
    const parsed = await rack.client().chat.completions.parse(body);
    expect(parsed.choices[0]?.message.content).toBe('{"answer":5}');
    script();
    const stream = rack.client().chat.completions.stream(body);
    expect(await stream.finalContent()).toBe('{"answer":5}');
  });

  it("is told what cannot be done, and not to try again", async () => {
    const { baseURL, apiKey } = rack.client();
    const ask = async (body: object) => {
      const response = await fetch(`${baseURL}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "model-a", messages: hello, ...body }),
      });
      const { error } = (await response.json()) as { error: { message: string } };
      return [response.status, error.message];
    };
    const fn = { name: "f", parameters: {} };
    expect(await ask({ functions: [fn], tools: [clientTool] })).toEqual([
      400,
      expect.stringContaining("`tools`"),
    ]);
    expect(await ask({ functions: ["f"] })).toEqual([400, expect.stringContaining("functions")]);
    expect(await ask({ functions: [fn], function_call: {} })).toEqual([
      400,
      expect.stringContaining("function_call"),
    ]);
    const unasked = { role: "function", name: "f", content: "1" };
    expect(await ask({ messages: [...hello, unasked] })).toEqual([
      400,
      expect.stringContaining("messages[1]"),
    ]);
    for (const message of [
      { role: "user", content: { a: 1 } },
      { role: "user", content: 5 },
      { role: "user", content: [null] },
      { role: "assistant", content: "", tool_calls: [null] },
      { role: "assistant", content: "", tool_calls: [{ id: "x" }] },
      { role: "assistant", content: "", tool_calls: [{ id: "x", custom: { name: "grep" } }] },
      { role: "assistant", content: "", function_call: { name: 5 } },
      { role: "tool", tool_call_id: "x", content: 5 },
    ]) {
      expect(await ask({ messages: [message] })).toEqual([400, expect.stringContaining("messages")]);
    }
    rack.script(() => ({ content: "ok" }));
    expect(await rack.ask("/v1/chat/completions", { body: { model: null, messages: hello } })).toMatchObject({
      status: 200,
      model: "model-a",
    });
  });

  it("gets one model by its name", async () => {
    expect(await rack.client().models.retrieve("model-a")).toMatchObject({ id: "model-a", object: "model" });
    // By every name that a request may call it.
    for (const path of ["scripted%2Fmodel-a", "scripted/model-a"]) {
      expect(await rack.ask(`/v1/models/${path}`)).toMatchObject({ status: 200, id: "scripted/model-a" });
    }
    expect((await rack.fetch("/v1/models/scripted%2Fno-such")).status).toBe(404);
    await expect(rack.client().models.retrieve("no/such")).rejects.toMatchObject({ status: 404 });
    for (const path of ["no/such", "no/such/model"])
      expect((await rack.ask(`/v1/models/${path}`)).error.code).toBe("model_not_found");
  });

  it("lists the models", async () => {
    const { data } = await rack.client().models.list();
    expect(data).toEqual([{ id: "model-a", object: "model", created: 0, owned_by: "scripted" }]);
  });

  it("gets an answer for which tools were run, without a word about them", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Let me add.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
        : { content: "It is 5." },
    );
    const answer = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello, temperature: 0.3 });
    expect(answer).toMatchObject({ object: "chat.completion", model: "model-a" });
    expect(answer.choices).toEqual([
      {
        index: 0,
        message: { role: "assistant", content: "Let me add.\n\nIt is 5.", refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ]);
    expect(answer.usage?.total_tokens).toBeGreaterThan(0);
    expect(answer).not.toHaveProperty("toolrack");
    expect(rack.requests.at(-1)).toMatchObject({ model: "model-a", temperature: 0.3, stream: true });
    expect(rack.requests.at(-1).tools.map(({ function: { name } }: never) => name)).toContain("add");
  });

  it("gets the same as a stream, with usage when it asks for it", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Let me add.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
        : { content: "It is 5." },
    );
    const stream = await rack.client().chat.completions.create({
      model: "model-a",
      messages: hello,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe(
      "Let me add.\n\nIt is 5.",
    );
    expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
    expect(chunks.at(-1)?.usage?.total_tokens).toBeGreaterThan(0);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.some((chunk) => "toolrack" in chunk)).toBe(false);
  });

  it("collects the stream with its own helper, calls of its own tools included", async () => {
    rack.script((request) =>
      answersIn(request).length === 0
        ? called(["ask_user", { question: "Which?" }])
        : { content: "Blue it is." },
    );
    const runner = rack.client().chat.completions.runTools({
      model: "model-a",
      stream: true,
      messages: hello,
      tools: [
        {
          type: "function",
          function: {
            ...clientTool.function,
            parameters: { type: "object", properties: { question: { type: "string" } } },
            parse: JSON.parse,
            function: ({ question }: { question: string }) => `${question} Blue.`,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("Blue it is.");
    expect(answersIn(rack.requests.at(-1))[0]).toMatchObject({ role: "tool", content: "Which? Blue." });
  });
});

describe("tools of the rack and of the client in one answer", () => {
  it("are each run by their own, and the model sees all of it in its order", async () => {
    rack.ran.length = 0;
    rack.script((request, asked) => {
      if (asked === 0) return called(["weather", { city: "Bern" }, "first"]);
      if (asked === 1) {
        return {
          content: "I need to know.",
          toolCalls: [
            { id: "x1", name: "add", arguments: '{"a":1,"b":1}' },
            { id: "x2", name: "ask_user", arguments: '{"question":"Which?"}' },
            { id: "x3", name: "photo", arguments: "{}" },
          ],
        };
      }
      return { content: `answers: ${answersIn(request).map(({ tool_call_id }) => tool_call_id)}` };
    });
    const client = rack.client();
    const first = await client.chat.completions.create({
      model: "model-a",
      messages: hello,
      tools: [clientTool],
    });
    const [choice] = first.choices;
    expect(choice?.finish_reason).toBe("tool_calls");
    const calls = choice?.message.tool_calls ?? [];
    expect(calls).toEqual([
      {
        id: expect.stringMatching(/^rack_\w{34}$/),
        type: "function",
        function: { name: "ask_user", arguments: '{"question":"Which?"}' },
      },
    ]);
    expect(rack.ran.map(({ name }) => name)).toEqual(["weather", "add"]);
    const second = await client.chat.completions.create({
      model: "model-a",
      tools: [clientTool],
      messages: [...hello, choice!.message, { role: "tool", tool_call_id: calls[0]!.id, content: "Blue." }],
    });
    expect(second.choices[0]?.message.content).toBe("answers: first,x1,x2,x3");
    const { messages } = rack.requests.at(-1);
    expect(messages.map(({ role }: never) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "tool",
      "tool",
      "tool",
      "user",
    ]);
    expect(messages[3].tool_calls.map(({ id }: never) => id)).toEqual(["x1", "x2", "x3"]);
    expect(messages[5]).toEqual({ role: "tool", tool_call_id: "x2", name: "ask_user", content: "Blue." });
    expect(messages[7].content[1].type).toBe("image_url");
    expect(rack.ran).toHaveLength(2);
  });

  it("keep ids apart that the provider uses again", async () => {
    rack.script((_request, asked) =>
      asked === 2
        ? { content: "done" }
        : called(["add", { a: asked, b: 1 }, "call_0"], ["ask_user", { question: `${asked}?` }, "call_1"]),
    );
    const { completions } = rack.client().chat;
    const messages: Messages = [...hello];
    for (let round = 0; round < 3; round++) {
      const { choices } = await completions.create({ model: "model-a", messages, tools: [clientTool] });
      const { message } = choices[0]!;
      messages.push(message);
      for (const { id } of message.tool_calls ?? [])
        messages.push({ role: "tool", tool_call_id: id, content: "x" });
    }
    const sent = rack.requests.at(-1).messages;
    const asked = sent.flatMap(({ tool_calls = [] }: { tool_calls?: { id: string }[] }) =>
      tool_calls.map(({ id }) => id),
    );
    expect(new Set(asked).size).toBe(4);
    expect(answersIn({ messages: sent }).map(({ tool_call_id }) => tool_call_id)).toEqual(asked);
  });

  it("a call of the client's that was cut is not handed over", async () => {
    rack.script(() => ({
      toolCalls: [{ name: "ask_user", arguments: '{"question": "Wh' }],
      finishReason: "length",
    }));
    const answer = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello, tools: [clientTool] });
    expect(answer.choices[0]?.finish_reason).toBe("length");
    expect(answer.choices[0]?.message.tool_calls).toBeUndefined();
  });

  it("are brought back to their own token only", async () => {
    rack.script((_request, asked) => (asked === 0 ? called(["ask_user", {}, "own"]) : { content: "ok" }));
    const first = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello, tools: [clientTool] });
    const { message } = first.choices[0]!;
    const { id } = message.tool_calls![0]!;
    const stranger = rack.client(await rack.issue({ tools: ["add"] }));
    const messages: Messages = [...hello, message, { role: "tool", tool_call_id: id, content: "x" }];
    await stranger.chat.completions.create({ model: "model-a", tools: [clientTool], messages });
    // What nobody knows is sent as the client has it.
    expect(rack.requests.at(-1).messages[1].tool_calls[0].id).toBe(id);
  });

  it("the client's own tool is meant where both have one of the name", async () => {
    rack.ran.length = 0;
    rack.script(() => called(["add", { a: 1 }]));
    const tool = { type: "function", function: { name: "add", parameters: { type: "object" } } } as const;
    const answer = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello, tools: [tool] });
    expect(answer.choices[0]?.message.tool_calls?.[0]).toMatchObject({ function: { name: "add" } });
    expect(rack.ran).toEqual([]);
    expect(rack.requests.at(-1).tools.filter(({ function: { name } }: never) => name === "add")).toHaveLength(
      1,
    );
  });
});

describe("what a client is told", () => {
  it("is the tools' activity, when it asks for it", async () => {
    const script = () =>
      rack.script((_request, asked) => (asked === 0 ? called(["add", { a: 2, b: 3 }]) : { content: "5" }));
    script();
    const plain = await rack.ask("/v1/chat/completions", {
      body: { model: "model-a", messages: hello, toolrack: { events: true } },
    });
    expect(plain.toolrack.calls).toMatchObject([
      { name: "add", arguments: '{"a":2,"b":3}', status: "completed" },
    ]);
    script();
    const response = await rack.fetch("/v1/chat/completions", {
      body: { model: "model-a", messages: hello, stream: true },
      headers: { "x-toolrack-events": "1" },
    });
    const text = await response.text();
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));
    const events = chunks.filter((chunk) => "toolrack" in chunk).map(({ toolrack }) => toolrack.type);
    expect(events).toEqual(expect.arrayContaining(["call", "state", "usage", "end"]));
    expect(rack.requests.at(-1)).not.toHaveProperty("toolrack");
  });

  it("is the provider's failure with a status, and that asking again would not help", async () => {
    rack.script(() => ({
      error: { message: "the context is too long", code: "context_length_exceeded" },
      status: 400,
    }));
    const failure = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ status: 400, code: "provider_refused" });
    expect(String(failure)).toContain("the context is too long");
    rack.ran.length = 0;
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: "x" }]) : { error: { message: "down" }, status: 402 },
    );
    const messages: Messages = [{ role: "user", content: "fail after a call" }];
    const answer = await rack.client().chat.completions.create({ model: "model-a", messages });
    expect(answer.choices[0]).toMatchObject({
      finish_reason: "length",
      message: { content: expect.stringContaining("down") },
    });
    expect(answer).toMatchObject({ toolrack: { error: { code: "provider_refused" } } });
    expect(rack.ran).toHaveLength(1);
  });

  it("is an error in the stream, when that has begun", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Wait.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
        : { error: { message: "gone" }, status: 404 },
    );
    const stream = await rack
      .client()
      .chat.completions.create({ model: "model-a", messages: hello, stream: true });
    const read = async () => {
      for await (const _chunk of stream);
    };
    await expect(read()).rejects.toThrow("gone");
  });

  it("is that there is no such model, or that the request makes no sense", async () => {
    const wrong = rack.client().chat.completions.create({ model: "no-such", messages: hello });
    await expect(wrong).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    const two = rack.client().chat.completions.create({ model: "model-a", messages: hello, n: 2 });
    const one = expect.stringContaining("run for one answer only");
    await expect(two).rejects.toMatchObject({ status: 400, param: "n", message: one });
  });
});

it("cancels everything when the client goes away", async () => {
  rack.script(() => called(["write", { text: "hold-away" }]));
  const away = new AbortController();
  const answer = rack
    .client()
    .chat.completions.create(
      { model: "model-a", messages: [{ role: "user", content: "go away" }] },
      { signal: away.signal },
    );
  await rack.hold.started("hold-away");
  away.abort();
  await expect(answer).rejects.toThrow();
  // It could have come back.
  await expect.poll(() => rack.hold.aborted, { timeout: 30_000 }).toContain("hold-away");
});

it("stops a model that goes in circles, and says so in the answer", async () => {
  rack.script(() => called(["weather", { city: "Rome" }]));
  const answer = await rack.client().chat.completions.create({ model: "model-a", messages: hello });
  expect(answer.choices[0]).toMatchObject({
    finish_reason: "stop",
    message: { content: expect.stringContaining("goes in circles") },
  });
});

it("forces a tool once, or the model would never come to an end", async () => {
  rack.script((request) =>
    request.tool_choice === "required" ? called(["add", { a: 1, b: 1 }]) : { content: "2" },
  );
  const answer = await rack
    .client()
    .chat.completions.create({ model: "model-a", messages: hello, tool_choice: "required" });
  expect(answer.choices[0]?.message.content).toBe("2");
});

describe("a token", () => {
  it("gets the tools that it may use, and no others", async () => {
    rack.script((_request, asked) =>
      asked === 0 ? called(["weather", { city: "Rome" }]) : { content: "no" },
    );
    const client = rack.client(await rack.issue({ tools: ["add"] }));
    await client.chat.completions.create({ model: "model-a", messages: hello });
    const last = rack.requests.at(-1);
    expect(last.tools.map(({ function: { name } }: never) => name)).toEqual(["add", "toolrack_read_result"]);
    expect(answersIn(last)[0].content).toContain('no tool named "weather"');
  });

  it("spends the provider's account only when it may", async () => {
    rack.script(() => ({ content: "hi" }));
    const ask = async (scopes: Parameters<typeof rack.issue>[0]) => {
      const token = await rack.issue(scopes);
      const completion = await rack.ask("/v1/chat/completions", { token, body: { messages: hello } });
      const { id } = await rack.ask("/api/chat/sessions", { token, body: {} });
      const path = `/api/chat/sessions/${id}/messages`;
      const message = await rack.fetch(path, { token, body: { content: "hi" } });
      return [completion.status, message.status, completion.error?.code];
    };
    expect(await ask({ tools: [] })).toEqual([403, 403, "chat_forbidden"]);
    expect(await ask({ tools: ["add"], chat: false })).toEqual([403, 403, "chat_forbidden"]);
    expect(await ask({ tools: ["add"] })).toEqual([200, 200, undefined]);
    expect(await ask({ chat: true })).toEqual([200, 200, undefined]);
  });

  it("of an expert gets the tools and the instructions of the expert", async () => {
    const { experts } = rack.serving.app.skills;
    await experts.create({ name: "meteorologist", instructions: "You know the sky.", tools: ["weather"] });
    rack.script(() => ({ content: "sunny" }));
    const token = await rack.issue({ experts: ["meteorologist"] });
    await rack.client(token).chat.completions.create({ model: "model-a", messages: hello });
    const last = rack.requests.at(-1);
    expect(last.messages[0]).toEqual({ role: "system", content: "You know the sky." });
    expect(last.tools.map(({ function: { name } }: never) => name)).toEqual([
      "toolrack_read_result",
      "weather",
    ]);
    const answer = await rack.fetch("/v1/chat/completions", {
      token,
      body: { messages: hello },
      headers: { "x-toolrack-expert": "nobody" },
    });
    expect(answer.status).toBe(404);
  });
});
