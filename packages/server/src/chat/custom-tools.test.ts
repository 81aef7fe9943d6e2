import type OpenAI from "openai";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ChatRack, ChatRackOptions } from "./testing/chat-rack.fixture.ts";
import { ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const upstream = new ScriptedUpstream();
const { requests } = upstream;

afterEach(() => upstream.stop());

/** A rack whose model says these deltas, one list for each time that it is asked; the last says how it ended. */
function start(
  answers: readonly (readonly [...deltas: object[], finish: string])[],
  options?: ChatRackOptions,
): Promise<ChatRack> {
  return upstream.start((outgoing, asked) => {
    const said = answers[asked]!;
    for (const delta of said.slice(0, -1)) outgoing.write(chunk(delta as object, null));
    outgoing.end(`${chunk({}, said.at(-1) as string)}data: [DONE]\n\n`);
  }, options);
}

const chunk = (delta: object, finish_reason: string | null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

const grep: OpenAI.ChatCompletionCustomTool = {
  type: "custom",
  custom: { name: "grep", description: "Searches.", format: { type: "text" } },
};
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hello" }];
const pieces = [
  { tool_calls: [{ index: 0, id: "c0", function: { name: "add", arguments: '{"a":1,"b":1}' } }] },
  { tool_calls: [{ index: 1, id: "c1", type: "custom", custom: { name: "grep", input: "" } }] },
  { tool_calls: [{ index: 1, custom: { input: "a.*" } }] },
  { tool_calls: [{ index: 1, custom: { input: " b" } }] },
];
const handed = {
  id: expect.stringMatching(/^rack_\w{34}$/),
  type: "custom",
  custom: { name: "grep", input: "a.* b" },
};

describe("custom tools of the client", () => {
  it("go to the provider as they are, and their calls come back as such", async () => {
    const rack = await start([
      [...pieces, "tool_calls"],
      [{ content: "found" }, "stop"],
    ]);
    const { completions } = rack.client().chat;
    const tool_choice = { type: "custom", custom: { name: "grep" } } as const;
    const body = { model: "model-a", tools: [grep] };
    const { choices } = await completions.create({ ...body, messages, tool_choice });
    const [choice] = choices;
    expect(choice).toMatchObject({ finish_reason: "tool_calls" });
    expect(choice!.message.tool_calls).toEqual([handed]);
    expect(requests[0].tools[0]).toEqual(grep);
    expect(requests[0].tool_choice).toEqual(tool_choice);
    const { id } = choice!.message.tool_calls![0]!;
    const next = await completions.create({
      ...body,
      messages: [...messages, choice!.message, { role: "tool", tool_call_id: id, content: "line 3" }],
    });
    expect(next.choices[0]?.message.content).toBe("found");
    expect(requests[1].messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "c0", type: "function", function: { name: "add", arguments: '{"a":1,"b":1}' } },
          { id: "c1", type: "custom", custom: { name: "grep", input: "a.* b" } },
        ],
      },
      { role: "tool", tool_call_id: "c0", name: "add", content: '{"sum":2}' },
      { role: "tool", tool_call_id: "c1", name: "grep", content: "line 3" },
    ]);
    expect(rack.ran).toHaveLength(1);
  });

  it("come in a stream too", async () => {
    const { completions } = (await start([[...pieces, "tool_calls"]])).client().chat;
    const stream = await completions.create({ model: "model-a", messages, tools: [grep], stream: true });
    const calls: unknown[] = [];
    for await (const { choices } of stream) calls.push(...(choices[0]?.delta.tool_calls ?? []));
    expect(calls).toEqual([{ index: 0, ...handed }]);
  });

  it("are not handed over when the answer broke off", async () => {
    const { completions } = (await start([[...pieces, "length"]])).client().chat;
    const { choices } = await completions.create({ model: "model-a", messages, tools: [grep] });
    expect(choices[0]?.finish_reason).toBe("length");
    expect(choices[0]?.message.tool_calls).toBeUndefined();
  });

  it("are had by models that are told of tools by text", async () => {
    const call = '<tool_action name="grep"><param name="input" value="a &quot;b&quot; 5"/></tool_action>';
    const started = await start(
      [
        [{ content: call }, "stop"],
        [{ content: "found" }, "stop"],
      ],
      { provider: { toolCalls: "tags" } },
    );
    const { completions } = started.client().chat;
    const body = { model: "model-a", tools: [grep] };
    const { choices } = await completions.create({ ...body, messages });
    const { message } = choices[0]!;
    expect(message.tool_calls).toEqual([{ ...handed, custom: { name: "grep", input: 'a "b" 5' } }]);
    const answer = { role: "tool", tool_call_id: message.tool_calls![0]!.id, content: "line 3" } as const;
    await completions.create({ ...body, messages: [...messages, message, answer] });
    expect(requests[1].messages.at(-2).content).toBe(call);
    expect(requests[1].messages.at(-1).content).toContain("line 3");
    const strange = await started.ask("/v1/chat/completions", {
      body: { messages, tools: [{ type: "web_search" }] },
    });
    expect(strange).toMatchObject({
      status: 400,
      error: { message: expect.stringMatching(/`function` and `custom`.*`web_search`/) },
    });
  });
});

it("tools of a type that only the provider knows go to it as they are", async () => {
  const builtin = { type: "builtin_function", function: { name: "$web_search" } };
  const search = { type: "web_search", web_search: { enable: true } };
  const started = await start([
    [
      {
        tool_calls: [
          {
            index: 0,
            id: "c0",
            type: "builtin_function",
            function: { name: "$web_search", arguments: '{"q":1}' },
          },
          { index: 1, id: "c1", type: "strange" },
        ],
      },
      "tool_calls",
    ],
    [{ content: "ok" }, "stop"],
  ]);
  const tools = [builtin, search];
  const { choices } = await started.ask("/v1/chat/completions", { body: { messages, tools } });
  expect(requests[0].tools.slice(0, 2)).toEqual(tools);
  const { message } = choices[0];
  expect(message.tool_calls).toEqual([
    { ...handed, custom: undefined, ...builtin, function: { name: "$web_search", arguments: '{"q":1}' } },
  ]);
  const answer = { role: "tool", tool_call_id: message.tool_calls[0].id, content: '{"q":1}' };
  await started.ask("/v1/chat/completions", { body: { messages: [...messages, message, answer], tools } });
  expect(requests[1].messages[1].tool_calls[0]).toMatchObject({ id: "c0", type: "builtin_function" });
  // A call that nobody can read is the model's to make again.
  expect(requests[1].messages[3]).toMatchObject({
    tool_call_id: "c1",
    content: expect.stringContaining("without a name"),
  });
});
