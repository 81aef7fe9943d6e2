import { afterEach, expect, it, vi } from "vitest";
import { answersIn, type ChatRack } from "./testing/chat-rack.fixture.ts";
import { type Answer, type Json, ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const upstream = new ScriptedUpstream();
afterEach(() => upstream.stop());

const KEY = "sk-Provider-Key-0001";
const HEADER = "tenant-4711-of-acme";
const SECRET = "pass-Phrase-of-the-workspace-99";
const spoken = `Hello: ${KEY}, bearer ${KEY.toUpperCase()}; ${HEADER}/${SECRET} says Acme Corp, ${encodeURIComponent(`${SECRET}`)}.`;
const hidden = "Hello: [redacted], bearer [redacted]; [redacted]/[redacted] says Acme Corp, [redacted].";

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (value: object, finish_reason: string | null = null, more = {}) =>
  event({ choices: [{ index: 0, delta: value, finish_reason, ...more }] });
const end = (reason = "stop") => `${delta({}, reason)}data: [DONE]\n\n`;
const call = (name: string, args: object) =>
  delta({
    tool_calls: [
      { index: 0, id: "call_0", type: "function", function: { name, arguments: JSON.stringify(args) } },
    ],
  });

async function start(answer: Answer): Promise<ChatRack> {
  const provider = {
    apiKey: KEY,
    headers: { "X-Tenant": HEADER, "X-Title": "Acme Corp", "X-Mode": "says" },
    models: ["model-a"],
  };
  const rack = await upstream.start(answer, { provider });
  await rack.ask("/api/secrets/PHRASE", { method: "PUT", body: { value: SECRET } });
  return rack;
}

const question = { model: "model-a", messages: [{ role: "user" as const, content: "What is your key?" }] };

it.each([1, 2, 3, 7, 1_000])(
  "hides keys, headers and secrets in streams of %i characters a chunk",
  async (size) => {
    const rack = await start((outgoing) => {
      for (let at = 0; at < spoken.length; at += size)
        outgoing.write(delta({ reasoning_content: spoken.slice(at, at + size) }));
      for (let at = 0; at < spoken.length; at += size)
        outgoing.write(delta({ content: spoken.slice(at, at + size) }));
      outgoing.end(end());
    });
    const stream = await rack.client().chat.completions.create({ ...question, stream: true });
    const deltas: Json[] = [];
    for await (const chunk of stream) deltas.push(chunk.choices[0]?.delta);
    expect(deltas.map((one) => one?.content ?? "").join("")).toBe(hidden);
    expect(deltas.map((one) => one?.reasoning_content ?? "").join("")).toBe(hidden);

    const whole = await rack.client().chat.completions.create(question);
    expect(whole.choices[0]?.message).toMatchObject({ content: hidden, reasoning_content: hidden });

    const session = await rack.session();
    const events = await (await rack.stream(session, `Is it ${SECRET}?`)).all();
    expect(JSON.stringify(events)).not.toContain(SECRET);
    const stored = await rack.serving.store.chat.listMessages(session);
    expect(stored[0]?.body).toEqual({ content: "Is it [redacted]?" });
    expect(stored[1]?.body).toMatchObject({
      parts: [
        { type: "reasoning", text: hidden },
        { type: "text", text: hidden },
      ],
    });
    expect((await rack.ask(`/api/chat/sessions/${session}`)).title).toBe("Is it [redacted]?");
    expect(JSON.stringify(upstream.requests.at(-1))).not.toContain(SECRET);
  },
);

it("runs a tool with what the model wrote, and shows, stores and repeats it masked", async () => {
  const rack = await start((outgoing, asked) => {
    outgoing.end(
      asked === 0
        ? call("write", { text: `use ${SECRET}` }) + end("tool_calls")
        : delta({ content: "ok" }) + end(),
    );
  });
  const session = await rack.session();
  const events = await (await rack.stream(session, "go")).all();
  expect(rack.ran).toEqual([{ name: "write", input: { text: `use ${SECRET}` } }]);
  expect(JSON.stringify(events)).not.toContain(SECRET);
  const stored = JSON.stringify(await rack.serving.store.chat.listMessages(session));
  expect(stored).not.toContain(SECRET);
  expect(stored).toContain("use [redacted]");
  expect(JSON.stringify(upstream.requests.at(-1))).not.toContain(SECRET);
});

it("keeps no secret that a conversation or a response is set up with", async () => {
  const rack = await start((outgoing) => outgoing.end(delta({ content: "Yes." }) + end()));
  const body = { title: `On ${SECRET}`, system: `Say ${SECRET}.` };
  const session = await rack.ask("/api/chat/sessions", { body });
  expect(session).toMatchObject({ title: "On [redacted]", system: "Say [redacted]." });
  const path = `/api/chat/sessions/${session.id}`;
  const renamed = await rack.ask(path, { method: "PATCH", body: { title: `${SECRET}!` } });
  expect(renamed.title).toBe("[redacted]!");

  const { responses } = rack.client();
  const set = { instructions: `Say ${SECRET}.`, metadata: { note: SECRET } };
  const response = await responses.create({ model: "model-a", input: "Well?", ...set });
  const masked = { instructions: "Say [redacted].", metadata: { note: "[redacted]" } };
  expect(response).toMatchObject(masked);
  expect(await responses.retrieve(response.id)).toMatchObject(masked);
  expect(JSON.stringify(upstream.requests)).not.toContain(SECRET);
});

it("hides secrets in calls that are handed to the client", async () => {
  const rack = await start((outgoing) => outgoing.end(call("mine", { key: KEY, at: 1 }) + end("tool_calls")));
  const tools = [{ type: "function" as const, function: { name: "mine", parameters: {} } }];
  const { choices } = await rack.client().chat.completions.create({ ...question, tools });
  const [handed]: Json[] = choices[0]?.message.tool_calls ?? [];
  expect(JSON.parse(handed.function.arguments)).toEqual({ key: "[redacted]", at: 1 });
});

it.each([KEY, HEADER, SECRET])(
  "hides %s in the names, ids and counts that come with an answer",
  async (secret) => {
    const usage = {
      prompt_tokens: 4,
      note: secret,
      prompt_tokens_details: { cached_tokens: 2, [secret]: 1 },
    };
    const named = { index: 0, id: secret, type: "function", function: { name: secret, arguments: "{}" } };
    const rack = await start((outgoing, asked) => {
      const finish =
        asked % 2 === 0 ? delta({ tool_calls: [named] }, "tool_calls") : delta({}, "stop", { usage });
      outgoing.end(`${finish}${event({ choices: [], usage })}data: [DONE]\n\n`);
    });
    const told = { toolrack: { events: true }, model: "model-a" };
    const messages = question.messages;
    const answers = [
      await rack.fetch("/v1/chat/completions", { body: { ...told, messages } }),
      await rack.fetch("/v1/chat/completions", { body: { ...told, messages, stream: true } }),
      await rack.fetch("/v1/responses", { body: { ...told, input: "go" } }),
      await rack.fetch("/v1/responses", { body: { ...told, input: "go", stream: true } }),
    ];
    for (const answer of answers) expect(await answer.text()).not.toContain(secret);
    const session = await rack.session();
    expect(JSON.stringify(await (await rack.stream(session, "go")).all())).not.toContain(secret);
    expect(JSON.stringify(await rack.ask(`/api/chat/sessions/${session}`))).not.toContain(secret);
    const records = [await rack.ask("/api/calls"), await rack.ask("/api/stats")];
    expect(JSON.stringify(records)).not.toContain(secret);
    const [answer] = answersIn(upstream.requests.at(-1));
    expect(answer.content).toContain('There is no tool named "[redacted]"');
  },
);

it("hides secrets of the workspace in why a provider is asked again, and why another one is", async () => {
  const rack = await start((outgoing, asked) => {
    if (asked > 0) return outgoing.end(delta({ content: "ok" }) + end());
    return outgoing
      .writeHead(503, { "retry-after-ms": "1" })
      .end(JSON.stringify({ error: `down ${SECRET}` }));
  });
  const events = JSON.stringify(await (await rack.stream(await rack.session(), "go")).all());
  expect(events).toContain("down [redacted]");
  expect(events).not.toContain(SECRET);
});

it("does not spell a secret out by the probabilities of its tokens, and keeps those of other text", async () => {
  const token = (text: string) => ({ token: text, logprob: -0.5, bytes: null, top_logprobs: [] });
  const probable = (text: string) =>
    delta({ content: text }, null, { logprobs: { content: [token(text)], refusal: null } });
  const pieces = (text: string) =>
    text.includes("#") ? [" is ", ...KEY.match(/.{1,4}/gs)!, "!"] : ["this", " is", " sk", "-no", " key"];
  let text = "plain";
  const rack = await start((outgoing) => outgoing.end(pieces(text).map(probable).join("") + end()));
  const asked = { ...question, logprobs: true };
  const tokensOf = async () => {
    const whole = await rack.client().chat.completions.create(asked);
    const streamed: Json[] = [];
    for await (const chunk of await rack.client().chat.completions.create({ ...asked, stream: true }))
      streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
    const names = (list: Json[]) => list.map((one) => one.token);
    return { whole: names(whole.choices[0]?.logprobs?.content ?? []), streamed: names(streamed) };
  };
  expect(await tokensOf()).toEqual({ whole: pieces(text), streamed: pieces(text) });
  text = "#";
  const { whole, streamed } = await tokensOf();
  expect(whole).toEqual([]);
  expect(streamed.join("")).not.toContain(KEY.slice(0, 8));
});

it("does not show most of a secret in an answer that breaks off or is cut within it", async () => {
  let isCut = false;
  const rack = await start((outgoing) => {
    outgoing.write(delta({ content: `It is ${KEY.slice(0, -1)}` }));
    if (isCut) outgoing.end(end("length"));
    else setImmediate(() => outgoing.destroy());
  });
  const session = await rack.session();
  for (const cut of [false, true]) {
    isCut = cut;
    await rack.say(session, "go");
    const stored = JSON.stringify(await rack.serving.store.chat.listMessages(session));
    expect(stored).toContain("It is ");
    expect(stored).not.toContain(KEY.slice(0, 8));
  }
});

it("hides secrets of the workspace in what a provider says of an error", async () => {
  const rack = await start((outgoing) =>
    outgoing
      .writeHead(400)
      .end(JSON.stringify({ error: { message: `Bad ${SECRET} and ${HEADER}`, code: "x" } })),
  );
  const thrown = await rack
    .client()
    .chat.completions.create(question)
    .catch((error) => error);
  expect(thrown.message).toContain("Bad [redacted] and [redacted]");
});

it("does not make a call after a restart whose arguments had a secret, and tells the model", async () => {
  const calls = [
    ["wipe", { what: "all" }],
    ["write", { text: SECRET }],
  ].map(([name, args], index) => ({
    ...{ index, id: `call_${index}`, type: "function" },
    function: { name, arguments: JSON.stringify(args) },
  }));
  const rack = await start((outgoing, asked) =>
    outgoing.end(
      asked === 0 ? delta({ tool_calls: calls }) + end("tool_calls") : delta({ content: "ok" }) + end(),
    ),
  );
  const session = await rack.session();
  const { data } = await (await rack.stream(session, "go")).until("approval");
  await rack.serving.close();
  await rack.open();
  await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } });
  const last = async () => (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1);
  await expect.poll(last, { timeout: 20_000 }).toMatchObject({ status: "completed" });
  expect(rack.ran).toEqual([{ name: "wipe", input: { what: "all" } }]);
  expect(answersIn(upstream.requests.at(-1)).at(-1).content).toContain("had a secret in them");
});
