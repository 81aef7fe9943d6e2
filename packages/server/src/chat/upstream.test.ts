import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, it, vi } from "vitest";
import { answersIn, type ChatRack, type ChatRackOptions } from "./testing/chat-rack.fixture.ts";
import { type Answer, type Json, ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const upstream = new ScriptedUpstream();
const { requests } = upstream;
const start = (answer: Answer, options?: ChatRackOptions) => upstream.start(answer, options);

afterEach(() => upstream.stop());

const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (value: object, finish_reason: string | null = null, more = {}) =>
  event({ choices: [{ index: 0, delta: value, finish_reason }], ...more });
const call = (name: string, written: string, more = {}) =>
  delta({
    tool_calls: [
      { index: 0, id: "call_0", type: "function", function: { name, arguments: written }, ...more },
    ],
  });
const finish = (reason: string) => delta({}, reason);
const done = "data: [DONE]\n\n";

describe("an answer without end", () => {
  /** As fast as it is read, but never more than a few hundred megabytes. */
  const endless = (piece: string) => async (outgoing: ServerResponse) => {
    let isOpen = true;
    outgoing.on("close", () => {
      isOpen = false;
    });
    for (let at = 0; at < 20_000 && isOpen; at++) {
      if (!outgoing.write(piece))
        await new Promise((resolve) => outgoing.once("drain", resolve).once("close", resolve));
      else await new Promise((resolve) => setImmediate(resolve));
    }
    outgoing.end();
  };
  const text = delta({ content: "so it goes on ".repeat(700) });

  it("is stopped at the limit of one answer, which the end names, and what is kept stays small", async () => {
    const { say, session, ask } = bound(await start(endless(text), { chat: { maxAnswer: 50_000 } }));
    const id = await session();
    const message = await say(id, "go");
    expect(message.end).toMatchObject({
      reason: "limit",
      message: expect.stringContaining("chat.maxAnswer"),
    });
    expect(message.parts[0].text.startsWith("so it goes on")).toBe(true);
    expect(JSON.stringify(await ask(`/api/chat/sessions/${id}`)).length).toBeLessThan(60_000);
    expect(message.usage.completion_tokens).toBeGreaterThan(10_000);
  });

  it("is stopped at the tokens of a turn while it comes", async () => {
    const { say, session } = bound(await start(endless(text), { chat: { maxTokens: 20_000 } }));
    const message = await say(await session(), "go");
    expect(message.end).toMatchObject({
      reason: "limit",
      message: expect.stringContaining("chat.maxTokens"),
    });
    expect(JSON.stringify(message.parts).length).toBeLessThan(200_000);
  });

  it.each([
    ["reasoning", delta({ reasoning_content: "hm ".repeat(3_000) })],
    ["arguments of a call", call("write", "x".repeat(9_000))],
    ["what nobody knows of a call", call("write", "", { extra_content: "x".repeat(9_000) })],
  ])("is stopped when it is %s", async (_, piece) => {
    const started = await start(endless(piece), { chat: { maxAnswer: 50_000 } });
    const message = await started.say(await started.session(), "go");
    expect(message.end).toMatchObject({
      reason: "limit",
      message: expect.stringContaining("chat.maxAnswer"),
    });
    expect(JSON.stringify(message).length).toBeLessThan(60_000);
    expect(started.ran).toEqual([]);
  });

  it("is stopped when it asks for more and more calls, and none is run", async () => {
    let at = 0;
    const started = await start(async (outgoing) => {
      const next = () =>
        delta({ tool_calls: [{ index: at, id: `c${at++}`, function: { name: "add", arguments: "{}" } }] });
      for (let round = 0; round < 30; round++) outgoing.write(Array.from({ length: 50 }, next).join(""));
      outgoing.end(finish("tool_calls") + done);
    });
    const message = await started.say(await started.session(), "go");
    expect(message.end).toMatchObject({ reason: "limit", message: expect.stringContaining("1000 calls") });
    expect(message.parts).toHaveLength(1);
    expect(started.ran).toEqual([]);
  });
});

describe("a call whose arguments were cut off", () => {
  it.each([
    ["content_filter", finish("content_filter") + done],
    ["error", finish("error") + done],
    ["no reason at all", done],
  ])("is not run, for %s", async (_, end) => {
    const started = await start((outgoing, asked) =>
      outgoing.end(
        asked === 0
          ? call("write", '{"text":"rm -rf /ho') + end
          : delta({ content: "sorry" }) + finish("stop"),
      ),
    );
    const message = await started.say(await started.session(), "go");
    expect(started.ran).toEqual([]);
    expect(answersIn(requests[1])[0].content).toContain("was not run: your message broke off");
    expect(message.parts.at(-1).text).toBe("sorry");
  });

  it("is run when they are whole, and mended when the model had ended", async () => {
    const started = await start((outgoing, asked) => {
      if (asked === 0) return outgoing.end(call("write", '{"text":"whole"}') + done);
      if (asked === 1) return outgoing.end(call("write", "{'text':'mended'") + finish("stop") + done);
      return outgoing.end(delta({ content: "ok" }) + finish("stop"));
    });
    await started.say(await started.session(), "go");
    expect(started.ran.map(({ input }) => input.text)).toEqual(["whole", "mended"]);
  });
});

describe("what a provider says beside a call", () => {
  const signed = { google: { thought_signature: "c2lnbmVk" } };
  const details = [{ index: 0, type: "reasoning.text", text: "I think", signature: "s" }];
  const thinking =
    delta({ reasoning_content: "I ", reasoning_details: details }) +
    delta({ reasoning_content: "think" }) +
    call("add", '{"a":1,"b":2}', { extra_content: signed }) +
    finish("tool_calls");

  it("is told again in the rounds of the same turn, and not in the next one", async () => {
    const started = await start((outgoing, asked) =>
      outgoing.end(asked === 0 ? thinking : delta({ content: "3" }) + finish("stop")),
    );
    const session = await started.session();
    await started.say(session, "1 + 2?");
    await started.say(session, "Thanks.");
    const asked = (request: Json) =>
      request.messages.find(({ tool_calls }: Json) => tool_calls !== undefined);
    expect(asked(requests[1])).toMatchObject({
      reasoning_content: "I think",
      reasoning_details: details,
      tool_calls: [{ id: "call_0", type: "function", extra_content: signed }],
    });
    const later = asked(requests[2]);
    expect(Object.keys(later).sort()).toEqual(["content", "role", "tool_calls"]);
    expect(later.tool_calls[0].extra_content).toBeUndefined();
  });

  it("is shown to nobody who reads the conversation", async () => {
    const started = await start((outgoing, asked) =>
      outgoing.end(asked === 0 ? thinking : delta({ content: "3" }) + finish("stop")),
    );
    const session = await started.session();
    const answer = await started.say(session, "1 + 2?");
    const read = await started.ask(`/api/chat/sessions/${session}`);
    const events = await (await started.fetch(`/api/chat/sessions/${session}/events`)).text();
    const message = JSON.parse(/^event: message\ndata: (.*)$/m.exec(events)![1]!);
    const members = ["arguments", "callId", "displayName", "id", "name", "round", "state", "type"];
    for (const { parts } of [answer, read.messages[1], message]) {
      expect(parts.map(({ type }: Json) => type)).toEqual(["reasoning", "tool", "text"]);
      expect(Object.keys(parts[1]).sort()).toEqual(members);
    }
    expect(JSON.stringify([answer, read]) + events).not.toContain(signed.google.thought_signature);
    const { chat } = started.serving.store;
    expect(JSON.stringify(await chat.listMessages(session))).toContain(signed.google.thought_signature);
  });

  it("is told again too when the client has run its own tool in between", async () => {
    const started = await start((outgoing, asked) =>
      outgoing.end(asked === 0 ? thinking.replace("add", "mine") : delta({ content: "3" }) + finish("stop")),
    );
    const client = started.client();
    const tools: Json = [{ type: "function", function: { name: "mine", parameters: { type: "object" } } }];
    const messages: Json[] = [{ role: "user", content: "1 + 2?" }];
    const first = await client.chat.completions.create({ model: "model-a", messages, tools });
    const { message } = first.choices[0]!;
    messages.push(message, { role: "tool", tool_call_id: message.tool_calls![0]!.id, content: "3" });
    await client.chat.completions.create({ model: "model-a", messages, tools });
    expect(requests[1].messages[1]).toMatchObject({
      reasoning_content: "I think",
      tool_calls: [{ id: "call_0", extra_content: signed }],
    });
  });
});

it("tells a model that takes no images of a person's image in a line", async () => {
  const started = await start((outgoing) => outgoing.end(delta({ content: "ok" }) + finish("stop")), {
    provider: { images: false },
  });
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } };
  const message = await started.say(await started.session(), [{ type: "text", text: "What is it?" }, image]);
  expect(message.end).toEqual({ reason: "stop" });
  const { content } = requests[0].messages.at(-1);
  expect(content.map(({ type }: Json) => type)).toEqual(["text", "text"]);
  expect(content[1].text).toContain("images: false");
});

describe("what OpenAI's clients are told of the provider", () => {
  it("is none of its secrets, and neither is anybody else nor the store", async () => {
    const started = await start(
      (outgoing, _asked, _request) => {
        outgoing.statusCode = 403;
        outgoing.end(
          `${" ".repeat(465)}<pre>${outgoing.req.headers["x-api-key"]} ${outgoing.req.headers.authorization}</pre>`,
        );
      },
      { provider: { headers: { "x-api-key": "HDRSECRET-abcdef" } } },
    );
    const session = await started.session();
    const reader = await started.stream(session, "x");
    const { data } = await reader.until("end");
    const answer = await started.ask("/v1/chat/completions", {
      body: { messages: [{ role: "user", content: "x" }] },
    });
    expect(answer.status).toBe(502);
    const shown = JSON.stringify([data, answer, await started.ask(`/api/chat/sessions/${session}`)]);
    expect(shown).toContain("<pre>[redacted]");
    for (const secret of ["HDRSECRET", "abcdef", "key-of-the"]) expect(shown).not.toContain(secret);
  });

  it("is its own code, type and member of an error", async () => {
    const error = {
      message: "too long",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
    const started = await start((outgoing) => {
      outgoing.statusCode = 400;
      outgoing.end(JSON.stringify({ error }));
    });
    const messages: Json[] = [{ role: "user", content: "x" }];
    const thrown = await started
      .client()
      .chat.completions.create({ model: "model-a", messages })
      .catch((failure) => failure);
    expect(thrown).toMatchObject({
      status: 400,
      code: "provider_refused",
      type: error.type,
      param: "messages",
    });
    expect(thrown.error.details).toMatchObject({ provider: "scripted", code: error.code, status: 400 });
    const message = await started.say(await started.session(), "x");
    expect(message.error?.details ?? message.end?.details).toMatchObject({ code: error.code });
  });

  it("is what it counts of all rounds, its fingerprint and the probabilities of what it says", async () => {
    const usage = (cached: number, thought: number) => ({
      prompt_tokens: 100,
      completion_tokens: 10,
      total_tokens: 110,
      prompt_tokens_details: { cached_tokens: cached },
      completion_tokens_details: { reasoning_tokens: thought },
    });
    const logprobs = {
      content: [{ token: "3", logprob: -0.1, bytes: [51], top_logprobs: [] }],
      refusal: null,
    };
    const started = await start((outgoing, asked) => {
      const isFirst = asked % 2 === 0;
      outgoing.write(isFirst ? call("add", '{"a":1,"b":2}') + finish("tool_calls") : "");
      if (!isFirst) {
        const said = { index: 0, delta: { content: "3" }, finish_reason: null, logprobs };
        outgoing.write(
          event({ choices: [said], system_fingerprint: "fp_1", service_tier: "default" }) + finish("stop"),
        );
      }
      outgoing.end(event({ choices: [], usage: usage(isFirst ? 0 : 80, 4) }) + done);
    });
    const request = {
      model: "model-a",
      messages: [{ role: "user" as const, content: "1 + 2?" }],
      logprobs: true,
    };
    const whole = await started.client().chat.completions.create(request);
    expect(whole).toMatchObject({ system_fingerprint: "fp_1", service_tier: "default" });
    expect(whole.choices[0]?.logprobs).toEqual(logprobs);
    expect(whole.usage).toEqual({
      prompt_tokens: 200,
      completion_tokens: 20,
      total_tokens: 220,
      prompt_tokens_details: { cached_tokens: 80 },
      completion_tokens_details: { reasoning_tokens: 8 },
    });
    const stream = await started.client().chat.completions.create({ ...request, stream: true });
    const chunks: Json[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(chunks.find(({ choices }) => choices[0]?.delta.content === "3")?.choices[0]?.logprobs).toEqual(
      logprobs,
    );
  });
});

function bound(started: ChatRack) {
  return {
    say: started.say.bind(started),
    session: started.session.bind(started),
    ask: started.ask.bind(started),
  };
}
