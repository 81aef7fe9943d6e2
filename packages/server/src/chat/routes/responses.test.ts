import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { serve } from "../../rack/serve.ts";
import { answersIn, ChatRack, called } from "../testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

const model = "model-a";
const askUser = {
  type: "function",
  name: "ask_user",
  description: "Asks the person at the client.",
  parameters: { type: "object", properties: { question: { type: "string" } } },
  strict: false,
} as const;

const lastRequest = () => rack.requests.at(-1);

describe("a response", () => {
  it("answers text, and runs the rack's tools without a word about them", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Let me add.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
        : { content: "It is 5." },
    );
    const response = await rack.client().responses.create({
      model,
      input: "2 + 3?",
      instructions: "Be short.",
      temperature: 0.3,
      max_output_tokens: 500,
      reasoning: { effort: "low" },
      metadata: { ticket: "17" },
    });
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model,
      error: null,
      metadata: { ticket: "17" },
      instructions: "Be short.",
      output_text: "Let me add.\n\nIt is 5.",
      output: [{ type: "message", role: "assistant", status: "completed" }],
    });
    expect(response.id).toMatch(/^resp_[0-9a-f]{32}$/);
    expect(response.usage?.total_tokens).toBeGreaterThan(0);
    expect(rack.ran.at(-1)).toEqual({ name: "add", input: { a: 2, b: 3 } });
    const request = lastRequest();
    expect(request).toMatchObject({ temperature: 0.3, max_tokens: 500, reasoning_effort: "low" });
    expect(request.messages.slice(0, 2)).toEqual([
      { role: "system", content: "Be short." },
      { role: "user", content: "2 + 3?" },
    ]);
    for (const member of ["input", "store", "metadata", "instructions", "reasoning"])
      expect(request).not.toHaveProperty(member);
  });

  it("makes no more calls of the rack's tools than the client allows", async () => {
    const add = { name: "add", arguments: '{"a":2,"b":3}' };
    rack.script((_request, asked) => (asked < 2 ? { toolCalls: [add, add] } : { content: "It is 5." }));
    const before = rack.ran.length;
    const response = await rack.client().responses.create({ model, input: "2 + 3?", max_tool_calls: 3 });
    expect(response).toMatchObject({ status: "completed", max_tool_calls: 3, output_text: "It is 5." });
    expect(rack.ran.length - before).toBe(3);
    const request = lastRequest();
    expect(request).not.toHaveProperty("max_tool_calls");
    expect(request.messages.at(-1).content).toContain("the client allows 3 calls for this answer");
    const body = { model, input: "2 + 3?", max_tool_calls: 0 };
    await expect(rack.client().responses.create(body)).rejects.toMatchObject({
      status: 400,
      param: "max_tool_calls",
    });
  });

  it("streams the events that OpenAI's client puts together to the same response", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Let me add.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
        : { reasoning: "Two and three.", content: "It is 5." },
    );
    const stream = rack.client().responses.stream({ model, input: "2 + 3?" });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      types.push(event.type);
      numbers.push(event.sequence_number);
    }
    const final = await stream.finalResponse();
    expect(numbers).toEqual(numbers.map((_, at) => at));
    expect(types.filter((type) => !type.endsWith(".delta"))).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.reasoning_summary_part.added",
      "response.reasoning_summary_text.done",
      "response.reasoning_summary_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    expect(final.output.map(({ type }) => type)).toEqual(["message", "reasoning", "message"]);
    expect(final.output[1]).toMatchObject({ summary: [{ type: "summary_text", text: "Two and three." }] });
    const { output_parsed: _parsed, ...retrieved } = Object(await rack.client().responses.retrieve(final.id));
    expect(JSON.parse(JSON.stringify(final.output))).toMatchObject(retrieved.output);
  });

  it("hands calls of the client's tools over, and goes on with what it brings", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? called(["write", { text: "once" }], ["ask_user", { question: "Which?" }])
        : { content: "The red one." },
    );
    const before = rack.ran.length;
    const first = await rack.client().responses.create({ model, input: "Which one?", tools: [askUser] });
    const [call] = first.output as OpenAI.Responses.ResponseFunctionToolCall[];
    expect(first.status).toBe("completed");
    expect(call).toMatchObject({
      type: "function_call",
      name: "ask_user",
      arguments: '{"question":"Which?"}',
    });
    const output = { type: "function_call_output", call_id: call!.call_id, output: "red" } as const;
    const second = await rack.client().responses.create({
      model,
      previous_response_id: first.id,
      tools: [askUser],
      input: [output],
    });
    expect(second).toMatchObject({ output_text: "The red one.", previous_response_id: first.id });
    // The model reads both answers, in the order of its calls, and the rack's tool ran once.
    expect(answersIn(lastRequest()).map(({ content }) => content)).toEqual(["wrote once", "red"]);
    expect(rack.ran.slice(before)).toEqual([{ name: "write", input: { text: "once" } }]);
    expect(await rack.ask(`/api/chat/sessions`)).toMatchObject({ status: 200 });
  });

  it("goes on in the same conversation when the client sends all of it, or nothing is stored", async () => {
    for (const store of [true, false]) {
      rack.script((_request, asked) =>
        asked === 0
          ? called(["write", { text: "once" }], ["ask_user", { question: "Which?" }])
          : { content: "The red one." },
      );
      const before = rack.ran.length;
      const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: `Which one, ${store}?` }];
      const first = await rack.client().responses.create({ model, input, tools: [askUser], store });
      const [call] = first.output as OpenAI.Responses.ResponseFunctionToolCall[];
      input.push(call!, { type: "function_call_output", call_id: call!.call_id, output: "red" });
      const second = await rack.client().responses.create({ model, input, tools: [askUser], store });
      expect(second.output_text).toBe("The red one.");
      expect(answersIn(lastRequest()).map(({ content }) => content)).toEqual(["wrote once", "red"]);
      expect(rack.ran.slice(before)).toHaveLength(1);
      const { items } = await rack.ask("/api/chat/sessions?limit=500");
      expect(items.filter(({ title }: { title: string }) => title === `Which one, ${store}?`)).toHaveLength(
        store ? 1 : 0,
      );
    }
  });

  it("follows another, also twice, and remembers what was said", async () => {
    const said = (request: { messages: unknown }) => JSON.stringify(request.messages);
    rack.script((request) => ({ content: said(request).includes("Ann") ? "You are Ann." : "Who are you?" }));
    const { responses } = rack.client();
    const first = await responses.create({ model, input: "I am Ann." });
    const second = await responses.create({ model, input: "Who am I?", previous_response_id: first.id });
    expect(second.output_text).toBe("You are Ann.");
    // A branch from the first knows nothing of the second.
    const [one, other] = await Promise.all([
      responses.create({ model, input: "And now?", previous_response_id: first.id }),
      responses.create({ model, input: "Or now?", previous_response_id: first.id }),
    ]);
    for (const branch of [one, other]) expect(branch.output_text).toBe("You are Ann.");
    expect(rack.requests.slice(-2).map(said).join()).not.toContain("Who am I?");
    // Instructions are for one response only.
    const third = { model, input: "Go on.", previous_response_id: second.id, instructions: "Sing." };
    const { id } = await responses.create(third);
    expect(lastRequest().messages[0]).toEqual({ role: "system", content: "Sing." });
    await responses.create({ model, input: "Stop.", previous_response_id: id });
    expect(said(lastRequest())).not.toContain("Sing.");
  });

  it("has JSON that fits the asked schema, also when the model spoke before a call", async () => {
    const script = () =>
      rack.script((_request, asked) =>
        asked === 0
          ? { content: "Let me look.", toolCalls: [{ name: "add", arguments: '{"a":2,"b":3}' }] }
          : { content: '{"answer":5}' },
      );
    const schema = {
      type: "object",
      properties: { answer: { type: "number" } },
      required: ["answer"],
      additionalProperties: false,
    };
    const text = { format: { type: "json_schema", name: "sum", schema, strict: true } } as const;
    script();
    const parsed = await rack.client().responses.parse({ model, input: "2 + 3?", text });
    expect(parsed.output_text).toBe('{"answer":5}');
    expect(parsed.output_parsed).toEqual({ answer: 5 });
    expect(lastRequest().response_format).toEqual({
      type: "json_schema",
      json_schema: { name: "sum", schema, strict: true },
    });
    script();
    const stream = rack.client().responses.stream({ model, input: "2 + 3?", text });
    expect((await stream.finalResponse()).output_text).toBe('{"answer":5}');
  });

  it("takes images, files, custom tools and a choice among tools", async () => {
    rack.script(() => called(["grep", "needle"]));
    const grep = { type: "custom", name: "grep", description: "Finds text." } as const;
    const response = await rack.client().responses.create({
      model,
      tools: [askUser, grep],
      tool_choice: { type: "custom", name: "grep" },
      input: [
        { role: "developer", content: "Look." },
        {
          role: "user",
          content: [
            { type: "input_text", text: "What is this?" },
            { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" },
            { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" },
          ],
        },
      ],
    });
    const request = lastRequest();
    expect(request.messages).toEqual([
      { role: "system", content: "Look." },
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=", detail: "low" } },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" } },
        ],
      },
    ]);
    expect(request.tool_choice).toEqual({ type: "custom", custom: { name: "grep" } });
    expect(request.tools).toContainEqual({
      type: "custom",
      custom: { name: "grep", description: "Finds text." },
    });
    expect(response.output[0]).toMatchObject({ name: "grep" });
  });

  it("shows images that the client's tools return", async () => {
    rack.script((_request, asked) => (asked === 0 ? called(["ask_user", {}]) : { content: "A cat." }));
    const { responses } = rack.client();
    const first = await responses.create({ model, input: "Look.", tools: [askUser] });
    const [call] = first.output as OpenAI.Responses.ResponseFunctionToolCall[];
    const image_url = "data:image/png;base64,iVBORw0KGgo=";
    const output = [
      { type: "input_text", text: "here" },
      { type: "input_image", image_url, detail: "auto" },
    ] as const;
    await responses.create({
      model,
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call!.call_id, output: [...output] }],
    });
    expect(answersIn(lastRequest())[0].content).toContain("here");
    expect(lastRequest().messages.at(-1).content.at(-1)).toEqual({
      type: "image_url",
      image_url: { url: image_url },
    });
  });

  it("gives the provider its reasoning back with the calls that the client ran", async () => {
    rack.script((_request, asked) =>
      asked === 0
        ? { reasoning: "I must ask.", ...called(["ask_user", { question: "Which?" }]) }
        : { content: "Red." },
    );
    const { responses } = rack.client();
    const first = await responses.create({ model, input: "Which?", tools: [askUser] });
    expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "function_call"]);
    const call = first.output[1] as OpenAI.Responses.ResponseFunctionToolCall;
    const output = { type: "function_call_output", call_id: call.call_id, output: "red" } as const;
    await responses.create({ model, input: [output], previous_response_id: first.id });
    expect(lastRequest().messages.at(-2)).toMatchObject({
      role: "assistant",
      reasoning_content: "I must ask.",
    });
  });

  it("tells of the rack's tools when it is asked to", async () => {
    const script = () =>
      rack.script((_request, asked) => (asked === 0 ? called(["add", { a: 2, b: 3 }]) : { content: "5." }));
    const headers = { "x-toolrack-events": "1" };
    const shown = [
      { type: "mcp_call", name: "add", arguments: '{"a":2,"b":3}', output: '{"sum":5}', status: "completed" },
      { type: "message" },
    ];
    script();
    const response = await rack.client().responses.create({ model, input: "2 + 3?" }, { headers });
    expect(response).toMatchObject({ output: shown, toolrack: { end: { reason: "stop" } } });
    script();
    const stream = rack.client().responses.stream({ model, input: "2 + 3?" }, { headers });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    expect(types).toEqual(
      expect.arrayContaining(["response.mcp_call.in_progress", "response.mcp_call.completed"]),
    );
    const { id, output } = await stream.finalResponse();
    expect(output).toMatchObject(shown);
    // A client may send back what it was shown.
    const { responses } = rack.client();
    expect((await responses.retrieve(id)).output).toMatchObject(shown);
    const input = [...output, { role: "user", content: "Sure?" }] as OpenAI.Responses.ResponseInput;
    expect((await responses.create({ model, input })).output_text).toBe("5.");
  });

  it("says that it was cut, and where", async () => {
    rack.script(() => ({ content: "One, two", finishReason: "length" }));
    const response = await rack.client().responses.create({ model, input: "Count." });
    expect(response).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output_text: "One, two",
      output: [{ status: "incomplete" }],
    });
  });
});

describe("a stored response", () => {
  it("is retrieved, tells its input, and is deleted", async () => {
    rack.script(() => ({ content: "Hello." }));
    const { responses } = rack.client();
    const input = [
      { role: "system", content: "Be kind." },
      { role: "user", content: "Hi." },
    ] as const;
    const first = await responses.create({ model, input: [...input], temperature: 0.5 });
    const second = await responses.create({ model, input: "Again.", previous_response_id: first.id });
    const retrieved = await responses.retrieve(first.id, { include: ["message.output_text.logprobs"] });
    expect(retrieved).toMatchObject({
      id: first.id,
      output_text: "Hello.",
      temperature: 0.5,
      status: "completed",
    });
    expect(retrieved.usage).toEqual(first.usage);
    const listed: unknown[] = [];
    for await (const item of responses.inputItems.list(first.id, { order: "asc", limit: 1 }))
      listed.push(item);
    expect(listed).toMatchObject([
      { type: "message", role: "system", content: [{ type: "input_text", text: "Be kind." }] },
      { type: "message", role: "user", content: [{ type: "input_text", text: "Hi." }] },
    ]);
    await expect(responses.inputItems.list(first.id, { after: "msg_1" })).rejects.toMatchObject({
      status: 404,
      param: "after",
    });
    expect((await responses.inputItems.list(second.id)).data).toMatchObject([
      { role: "user", content: [{ type: "input_text", text: "Again." }] },
    ]);
    // The second builds on the first, which is forgotten for clients only.
    await responses.delete(first.id);
    await expect(responses.retrieve(first.id)).rejects.toMatchObject({
      status: 404,
      code: "response_not_found",
    });
    await responses.create({ model, input: "Still?", previous_response_id: second.id });
    expect(JSON.stringify(lastRequest().messages)).toContain("Hi.");
  });

  it("takes its conversation with it when it was the last", async () => {
    rack.script(() => ({ content: "Hello." }));
    const { responses } = rack.client();
    const { id } = await responses.create({ model, input: "A farewell." });
    const titles = async () =>
      (await rack.ask("/api/chat/sessions?limit=500")).items.map(({ title }: { title: string }) => title);
    expect(await titles()).toContain("A farewell.");
    await responses.delete(id);
    expect(await titles()).not.toContain("A farewell.");
  });

  it("is not kept with store: false", async () => {
    rack.script(() => ({ content: "Hello." }));
    const { responses } = rack.client();
    const first = await responses.create({ model, input: "I am Bob." });
    const { id, output_text } = await responses.create({
      model,
      input: "Hi.",
      store: false,
      previous_response_id: first.id,
    });
    expect(output_text).toBe("Hello.");
    expect(id).toMatch(/^resp_[0-9a-f]{32}$/);
    expect(JSON.stringify(lastRequest().messages)).toContain("I am Bob.");
    await expect(responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
  });

  it("belongs to its token", async () => {
    rack.script(() => ({ content: "Hello." }));
    const [own, other] = await Promise.all([rack.issue({ chat: true }), rack.issue({ chat: true })]);
    const { id } = await rack.client(own).responses.create({ model, input: "Hi." });
    const responses = rack.client(other).responses;
    await expect(responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    await expect(responses.create({ model, input: "And?", previous_response_id: id })).rejects.toMatchObject({
      status: 404,
    });
    await expect(responses.delete(id)).rejects.toMatchObject({ status: 404 });
    expect((await rack.client(own).responses.retrieve(id)).output_text).toBe("Hello.");
    // An admin may read it, so it goes on in a conversation of its own.
    await rack.client().responses.create({ model, input: "And?", previous_response_id: id });
    expect(lastRequest().messages.map(({ content }: { content: string }) => content)).toEqual([
      "Hi.",
      "Hello.",
      "And?",
    ]);
    expect((await rack.client(own).responses.inputItems.list(id)).data).toHaveLength(1);
  });

  it("is not told again by a reference once it is deleted", async () => {
    rack.script(() => ({ content: "Hello." }));
    const { responses } = rack.client();
    const first = await responses.create({ model, input: "Hi." });
    await responses.create({ model, input: "And?", previous_response_id: first.id });
    const reference = { type: "item_reference", id: first.output[0]!.id! } as const;
    const input = [reference, { role: "user", content: "Again." } as const];
    await responses.create({ model, input });
    await responses.delete(first.id);
    await expect(responses.create({ model, input })).rejects.toMatchObject({ status: 400 });
  });

  it("reaches a client that streams whole, however long it is", async () => {
    const text = "long ".repeat(500_000);
    rack.script(() => ({ content: text }), { chunkSize: text.length });
    const stream = rack.client().responses.stream({ model, input: "Much, please." });
    expect((await stream.finalResponse()).output_text).toBe(text);
  });

  it("goes on in the background, is followed, and is cancelled", async () => {
    const { responses } = rack.client();
    rack.script((_request, asked) =>
      asked === 0 ? called(["weather", { city: "hold-background" }]) : { content: "It is warm." },
    );
    const begun = await responses.create({ model, input: "Weather?", background: true });
    expect(begun).toMatchObject({ status: "in_progress", background: true });
    await rack.hold.started("hold-background");
    expect((await responses.retrieve(begun.id)).status).toBe("in_progress");
    const followed = responses.stream({ response_id: begun.id });
    rack.hold.release("hold-background");
    expect((await followed.finalResponse()).output_text).toBe("It is warm.");
    // Events are numbered alike each time.
    const rest: string[] = [];
    for await (const { type } of await responses.retrieve(begun.id, { stream: true, starting_after: 1 }))
      rest.push(type);
    expect(rest[0]).toBe("response.output_item.added");
    expect(rest.at(-1)).toBe("response.completed");

    rack.script(() => {
      return { content: "Let me see.", ...called(["weather", { city: "hold-cancelled" }]) };
    });
    const second = await responses.create({ model, input: "Weather?", background: true });
    await rack.hold.started("hold-cancelled");
    const cancelled = await responses.cancel(second.id);
    expect(cancelled).toMatchObject({ status: "cancelled", output: [{ status: "incomplete" }] });
    expect((await responses.cancel(second.id)).status).toBe("cancelled");
    const told = await rack.fetch(`/v1/responses/${second.id}?stream=true`);
    expect(await told.text()).toMatch(/event: response\.incomplete\ndata: .*"status":"cancelled".*\n\n$/);
  });
});

it("a response is followed and cancelled from another server of the same database", async () => {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const other = await serve(rack.workspace.directory, { logger, port: 0 });
  try {
    rack.script((_request, asked) =>
      asked === 0
        ? { content: "Wait.", toolCalls: [{ name: "weather", arguments: '{"city":"hold-node"}' }] }
        : called(["weather", { city: "hold-node-again" }]),
    );
    const begun = await rack.client().responses.create({ model, input: "Weather?", background: true });
    await rack.hold.started("hold-node");
    const { responses } = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: other.token });
    await vi.waitFor(async () => expect((await responses.retrieve(begun.id)).output_text).toBe("Wait."));
    const followed = await responses.retrieve(begun.id, { stream: true });
    rack.hold.release("hold-node");
    await rack.hold.started("hold-node-again");
    expect((await responses.cancel(begun.id)).status).toBe("cancelled");
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of followed) events.push(event);
    expect(events.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { id: begun.id, status: "cancelled", output: [{}] },
    });
  } finally {
    await other.close();
  }
});

describe("a request that comes again or breaks off", () => {
  it("gets the answer of the first, and no tool runs twice", async () => {
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: "hold-repeat" }]) : { content: "Written." },
    );
    const before = rack.ran.length;
    const send = () =>
      rack.ask("/v1/responses", {
        body: { model, input: "Write it." },
        headers: { "idempotency-key": "one-and-the-same" },
      });
    const first = send();
    await rack.hold.started("hold-repeat");
    const second = send();
    rack.hold.release("hold-repeat");
    const [one, other] = await Promise.all([first, second]);
    expect(one).toMatchObject({ status: "completed", object: "response" });
    expect(other.id).toBe(one.id);
    expect(rack.ran.length - before).toBe(1);
  });

  it.each([
    ["by an idempotency key", { "idempotency-key": "behind" }, { "idempotency-key": "behind" }],
    ["by a count of retries", { "x-stainless-retry-count": "0" }, { "x-stainless-retry-count": "1" }],
  ])("is one response in the background when it says so %s", async (how, once, again) => {
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: `hold-${how}` }]) : { content: "Written." },
    );
    const before = rack.ran.length;
    const body = { model, input: `Write it, known ${how}.`, background: true };
    const first = await rack.ask("/v1/responses", { body, headers: once });
    await rack.hold.started(`hold-${how}`);
    const second = await rack.ask("/v1/responses", { body, headers: again });
    expect(second).toMatchObject({ id: first.id, status: "in_progress" });
    rack.hold.release(`hold-${how}`);
    await vi.waitFor(async () =>
      expect(await rack.ask(`/v1/responses/${first.id}`)).toMatchObject({ status: "completed" }),
    );
    const third = await rack.ask("/v1/responses", { body, headers: again });
    expect(third).toMatchObject({ id: first.id, status: "completed" });
    expect(rack.ran.length - before).toBe(1);
  });

  it("is cancelled with its connection, and says so", async () => {
    rack.script(() => called(["weather", { city: "hold-closed" }]));
    const closing = new AbortController();
    const stream = await rack
      .client()
      .responses.create({ model, input: "Weather?", stream: true }, { signal: closing.signal });
    let id = "";
    for await (const event of stream) {
      if (event.type !== "response.created") continue;
      id = event.response.id;
      await rack.hold.started("hold-closed");
      break;
    }
    closing.abort();
    await vi.waitFor(() => expect(rack.hold.aborted).toContain("hold-closed"));
    await vi.waitFor(async () =>
      expect((await rack.client().responses.retrieve(id)).status).toBe("cancelled"),
    );
  });

  it("says where the question is while a person is asked, streamed or not", async () => {
    const pending = async () => (await rack.ask("/api/approvals?state=pending")).items;
    const allow = async () => {
      await vi.waitFor(async () => expect(await pending()).toHaveLength(1));
      const [{ id }] = await pending();
      await rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });
      return id;
    };
    for (const stream of [true, false]) {
      rack.script((_request, asked) =>
        asked === 0 ? called(["wipe", { what: "disk" }]) : { content: "Wiped." },
      );
      const answered = rack.fetch("/v1/responses", { body: { model, input: `Wipe (${stream}).`, stream } });
      const id = await allow();
      const response = await answered;
      const text = await response.text();
      expect(text).toContain("Wiped.");
      if (stream) expect(text).toContain(`/api/approvals/${id}`);
      else expect(response.headers.get("x-toolrack-approval")).toBe(id);
      if (!stream) expect(JSON.parse(text)).toMatchObject({ object: "response", status: "completed" });
    }
  });

  it("goes on after a restart when it waited for a person", async () => {
    rack.script((_request, asked) =>
      asked === 0 ? called(["wipe", { what: "disk" }]) : { content: "Wiped." },
    );
    const { id } = await rack.client().responses.create({
      model,
      input: "Wipe it.",
      instructions: "Be careful.",
      temperature: 0.1,
      background: true,
    });
    const pending = () => rack.ask("/api/approvals?state=pending");
    await vi.waitFor(async () => expect((await pending()).items).toHaveLength(1));
    await rack.serving.close();
    await rack.open();
    const [{ id: question }] = (await pending()).items;
    await rack.ask(`/api/approvals/${question}`, { body: { decision: "allow" } });
    await vi.waitFor(async () => {
      expect(await rack.client().responses.retrieve(id)).toMatchObject({
        status: "completed",
        output_text: "Wiped.",
        instructions: "Be careful.",
      });
    });
    expect(lastRequest()).toMatchObject({ temperature: 0.1 });
    expect(lastRequest().messages[0]).toEqual({ role: "system", content: "Be careful." });
  });
});

describe("a request that cannot be served", () => {
  const refused = async (body: object, token?: string) => {
    const answer = await rack.ask("/v1/responses", {
      body: { model, input: "Hi.", ...body },
      ...(token === undefined ? {} : { token }),
    });
    return [answer.status, answer.error?.code, answer.error?.param, answer.error?.message];
  };

  it("is told what to do instead", async () => {
    const before = rack.requests.length;
    expect((await refused({ n: 2 })).slice(0, 2)).toEqual([400, "invalid_request"]);
    expect(await refused({ conversation: "conv_1" })).toEqual([
      400,
      "invalid_request",
      "conversation",
      expect.stringContaining("previous_response_id"),
    ]);
    expect(await refused({ tools: [{ type: "web_search" }] })).toEqual([
      400,
      "invalid_request",
      "tools[0]",
      expect.stringContaining("web_search"),
    ]);
    expect((await refused({ tool_choice: { type: "mcp" } }))[2]).toBe("tool_choice");
    expect((await refused({ input: [{ type: "web_search_call", id: "ws_1" }] }))[2]).toBe("input[0]");
    expect((await refused({ input: [] }))[2]).toBe("input");
    expect((await refused({ background: true, store: false }))[2]).toBe("background");
    expect((await refused({ previous_response_id: "resp_nope" })).slice(0, 3)).toEqual([
      404,
      "response_not_found",
      "previous_response_id",
    ]);
    expect((await refused({ tools: [{ type: "function" }] }))[2]).toBe("tools[0].name");
    expect((await refused({ text: { format: { type: "grammar" } } }))[2]).toBe("text.format");
    const wrong = { role: "user", content: [{ type: "input_text", text: { a: 1 } }] };
    expect((await refused({ input: [wrong] }))[2]).toBe("input[0]");
    expect((await refused({ input: [{ type: "item_reference", id: "msg_nope" }] }))[2]).toBe("input[0].id");
    const orphan = { type: "function_call_output", call_id: "call_1", output: "" };
    expect((await refused({ input: [orphan] }))[3]).toContain("call_1");
    const open = { type: "function_call", call_id: "call_1", name: "ask_user", arguments: "{}" };
    expect((await refused({ input: [open, { role: "user", content: "Well?" }] }))[3]).toContain("ask_user");
    expect((await refused({ input: [{ ...open, arguments: { a: 1 } }, orphan] }))[2]).toBe("input[0]");
    expect(rack.requests.length).toBe(before);
  });

  it("is refused with 403 for a token without chat", async () => {
    const token = await rack.issue({ tools: ["add"], chat: false });
    expect((await refused({}, token)).slice(0, 2)).toEqual([403, "chat_forbidden"]);
    const id = `resp_${"0".repeat(32)}`;
    for (const [method, path] of [
      ["GET", id],
      ["DELETE", id],
      ["POST", `${id}/cancel`],
      ["GET", `${id}/input_items`],
    ])
      expect((await rack.fetch(`/v1/responses/${path}`, { method: method!, token })).status).toBe(403);
  });
});

describe("a provider that fails", () => {
  it("is told with its status before tools have acted, and in the answer afterwards", async () => {
    rack.script(() => ({ error: { message: "Bad words.", type: "invalid_request_error" }, status: 400 }));
    const { responses } = rack.client();
    await expect(responses.create({ model, input: "Hi." })).rejects.toMatchObject({ status: 400 });
    for (const stream of [false, true]) {
      rack.script((_request, asked) =>
        asked === 0
          ? called(["write", { text: "acted" }])
          : { error: { message: "Bad words", type: "invalid_request_error" }, status: 400 },
      );
      const before = rack.ran.length;
      const input = `Write it (${stream}).`;
      const ask = () =>
        stream ? responses.stream({ model, input }).finalResponse() : responses.create({ model, input });
      const final = await ask();
      expect(final.status).toBe("completed");
      expect(final.output_text).toContain("Bad words. Tools had run before");
      expect(final).toHaveProperty("toolrack.error.code", "provider_refused");
      // The same request again gets the same answer, and runs nothing.
      expect(await ask()).toMatchObject({ id: final.id, output_text: final.output_text });
      expect(rack.ran.slice(before)).toHaveLength(1);
      const next = { role: "user", content: "And?" } as const;
      rack.script(() => ({ content: "Once." }));
      const history = [{ role: "user", content: input } as const, ...final.output, next];
      await responses.create({ model, input: history as OpenAI.Responses.ResponseInput });
      // A client that goes on from what it read has a model that knows of the call.
      expect(answersIn(lastRequest())).toMatchObject([{ content: "wrote acted" }]);
    }
  });
});
