import type OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
beforeEach(() => {
  rack.ran.length = 0;
});
afterAll(() => rack[Symbol.asyncDispose]());

type Messages = OpenAI.ChatCompletionMessageParam[];
const functions: OpenAI.ChatCompletionCreateParams.Function[] = [
  {
    name: "ask_user",
    description: "Asks the person at the client.",
    parameters: { type: "object", properties: { question: { type: "string" } } },
  },
];
const hello = (content = "hello"): Messages => [{ role: "user", content }];

/** First tools of the rack, then one of each kind, then words with what was answered. */
const script = () =>
  rack.script((request, asked) => {
    if (asked === 0) return called(["weather", { city: "Bern" }, "first"]);
    if (asked === 1) {
      return {
        content: "I need to know.",
        toolCalls: [
          { id: "x1", name: "add", arguments: '{"a":1,"b":1}' },
          { id: "x2", name: "ask_user", arguments: '{"question":"Which?"}' },
        ],
      };
    }
    return {
      content: answersIn(request)
        .map(({ content }) => content)
        .join(" "),
    };
  });

describe("functions, the older form of tools", () => {
  it("are offered as tools, one call at a time, and handed back in their own form", async () => {
    script();
    const { completions } = rack.client().chat;
    const first = await completions.create({
      model: "model-a",
      messages: hello(),
      functions,
      function_call: "auto",
    });
    const { message, finish_reason } = first.choices[0]!;
    expect(finish_reason).toBe("function_call");
    expect(message).toEqual({
      role: "assistant",
      content: "I need to know.",
      refusal: null,
      function_call: { name: "ask_user", arguments: '{"question":"Which?"}' },
    });
    const asked = rack.requests.at(-1);
    expect(asked).toMatchObject({ tool_choice: "auto", parallel_tool_calls: false });
    expect(asked).not.toHaveProperty("functions");
    expect(asked).not.toHaveProperty("function_call");
    expect(asked.tools[0]).toEqual({ type: "function", function: functions[0] });
    expect(rack.ran.map(({ name }) => name)).toEqual(["weather", "add"]);

    const answer = { role: "function", name: "ask_user", content: "Blue." } as const;
    const second = await completions.create({
      model: "model-a",
      messages: [...hello(), message, answer],
      functions,
    });
    expect(second.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { content: 'Bern: 21 °C {"sum":2} Blue.' },
    });
    const { messages } = rack.requests.at(-1);
    expect(messages.map(({ role }: never) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "tool",
      "tool",
    ]);
    expect(messages.at(-1)).toEqual({
      role: "tool",
      tool_call_id: "x2",
      name: "ask_user",
      content: "Blue.",
    });
    expect(rack.ran).toHaveLength(2);
  });

  it("are streamed in their own form, and what a client puts together from it leads back", async () => {
    script();
    const { completions } = rack.client().chat;
    const stream = await completions.create({
      model: "model-a",
      messages: hello("streamed"),
      functions,
      stream: true,
    });
    const message = { role: "assistant" as const, content: "", function_call: { name: "", arguments: "" } };
    let finish: string | null | undefined;
    for await (const { choices } of stream) {
      const { delta, finish_reason } = choices[0]!;
      expect(delta.tool_calls).toBeUndefined();
      message.content += delta.content ?? "";
      message.function_call.name += delta.function_call?.name ?? "";
      message.function_call.arguments += delta.function_call?.arguments ?? "";
      finish = finish_reason;
    }
    expect(finish).toBe("function_call");
    expect(message.function_call).toEqual({ name: "ask_user", arguments: '{"question":"Which?"}' });
    // Clients may write the arguments in their own way.
    message.function_call.arguments = '{ "question": "Which?" }';
    const next = completions.stream({
      model: "model-a",
      messages: [...hello("streamed"), message, { role: "function", name: "ask_user", content: "Red." }],
      functions,
    });
    expect(await next.finalContent()).toBe('Bern: 21 °C {"sum":2} Red.');
    expect(rack.ran).toHaveLength(2);
  });

  it("are taken up where they were left when the server has started anew meanwhile", async () => {
    script();
    const messages = hello("over a restart");
    const body = { model: "model-a", messages, functions };
    const { choices } = await rack.client().chat.completions.create(body);
    messages.push(choices[0]!.message, { role: "function", name: "ask_user", content: "Green." });
    await rack.serving.close();
    await rack.open();
    const { choices: last } = await rack.client().chat.completions.create(body);
    expect(last[0]?.message.content).toBe('Bern: 21 °C {"sum":2} Green.');
  });

  it("of two conversations that went the same way, the latest is gone on with", async () => {
    for (const city of ["Rome", "Oslo"]) {
      rack.script((request, asked) => {
        if (asked === 0) return called(["weather", { city }], ["ask_user", {}]);
        return {
          content: answersIn(request)
            .map(({ content }) => content)
            .join(" "),
        };
      });
      const { completions } = rack.client().chat;
      const messages = hello("the same again");
      const { choices } = await completions.create({ model: "model-a", messages, functions });
      messages.push(choices[0]!.message, { role: "function", name: "ask_user", content: "Yes." });
      const { choices: last } = await completions.create({ model: "model-a", messages, functions });
      expect(last[0]?.message.content).toBe(`${city}: 21 °C Yes.`);
    }
  });

  it("are called one after the other, also by a model that asks for several at once", async () => {
    rack.script((request, asked) => {
      if (asked === 0)
        return called(["ask_user", { question: "a" }, "a"], ["ask_user", { question: "b" }, "b"]);
      return {
        content: answersIn(request)
          .map(({ content }) => content)
          .join(" | "),
      };
    });
    const { completions } = rack.client().chat;
    const messages = hello("two");
    const { choices } = await completions.create({ model: "model-a", messages, functions });
    expect(choices[0]?.message.function_call?.arguments).toBe('{"question":"a"}');
    messages.push(choices[0]!.message, { role: "function", name: "ask_user", content: "A." });
    const { choices: last } = await completions.create({ model: "model-a", messages, functions });
    expect(last[0]?.message.content).toMatch(/^A\. \| "ask_user" was not run: only one call/);
  });

  it("are forced by name, and calls of an earlier time are told as calls with answers", async () => {
    rack.script(() => ({ content: "ok" }));
    await rack.client().chat.completions.create({
      model: "model-a",
      functions,
      function_call: { name: "ask_user" },
      messages: [
        ...hello("old"),
        { role: "assistant", content: null, function_call: { name: "ask_user", arguments: "{}" } },
        { role: "function", name: "ask_user", content: "One." },
        { role: "assistant", content: null, function_call: { name: "ask_user", arguments: "{}" } },
        ...hello("never mind"),
      ],
    });
    const { messages, tool_choice } = rack.requests.at(-1);
    expect(tool_choice).toEqual({ type: "function", function: { name: "ask_user" } });
    expect(messages.map(({ role }: never) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "tool",
      "user",
    ]);
    const [one, two] = [messages[1].tool_calls[0].id, messages[3].tool_calls[0].id];
    expect(one).not.toBe(two);
    expect([messages[2].tool_call_id, messages[4].tool_call_id]).toEqual([one, two]);
    expect(messages[2].content).toBe("One.");
    expect(messages[4].content).toContain("no answer");
    expect(JSON.stringify(messages)).not.toContain("function_call");
  });
});
