import type { ServerResponse } from "node:http";
import { afterEach, expect, it, vi } from "vitest";
import type { ChatRack, ChatRackOptions } from "./testing/chat-rack.fixture.ts";
import { type Answer, type Json, ScriptedUpstream } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const upstream = new ScriptedUpstream();
afterEach(() => upstream.stop());

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const said = (content: string) => event({ choices: [{ index: 0, delta: { content } }] });
const finish = (reason = "stop") => event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
const done = "data: [DONE]\n\n";
const price = { input: 2, output: 10, cachedInput: 1 };

const start = (answer: Answer, options: ChatRackOptions = {}) =>
  upstream.start(answer, { ...options, provider: { price, ...options.provider } });
const question = { model: "model-a", messages: [{ role: "user" as const, content: "How far is it?" }] };

/** The answer of a provider that says 100 short words, which are about 100 tokens, and no more. */
function half(outgoing: ServerResponse): void {
  outgoing.write(said("fox ".repeat(100)));
}

async function usageOf(rack: ChatRack): Promise<Json> {
  return (await rack.ask("/api/stats")).usage;
}

/** Waits until the statistics know of so many requests to models. */
async function counted(rack: ChatRack, requests: number): Promise<Json> {
  await expect.poll(() => usageOf(rack), { timeout: 20_000 }).toMatchObject({ requests });
  return usageOf(rack);
}

it.each([
  ["null", null],
  ["nothing of use", { prompt_tokens: "many", completion_tokens: -4, total_tokens: Number.MAX_VALUE }],
  ["nothing for a text", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ["fractions and lists", { prompt_tokens: 0.5, completion_tokens: [7], total_tokens: {} }],
])("is estimated and says so where the provider counts %s", async (_, usage) => {
  const rack = await start((outgoing) => {
    half(outgoing);
    outgoing.end(finish() + event({ choices: [], usage }) + done);
  });
  const answer = await rack.client().chat.completions.create(question);
  expect(answer.usage).toMatchObject({ completion_tokens: 100, estimated: true });
  expect(answer.usage?.prompt_tokens).toBeGreaterThan(10);
  expect(answer.usage?.total_tokens).toBe(100 + Number(answer.usage?.prompt_tokens));
});

it("keeps the numbers that can be used, and estimates the others", async () => {
  const rack = await start((outgoing) => {
    half(outgoing);
    const usage = {
      prompt_tokens: 7,
      completion_tokens: null,
      prompt_tokens_details: { cached_tokens: 5, x: "y" },
    };
    outgoing.write(event({ choices: [], usage }));
    outgoing.end(finish() + event({ choices: [], usage: {} }) + done);
  });
  const { usage } = await rack.client().chat.completions.create(question);
  expect(usage).toEqual({
    prompt_tokens: 7,
    completion_tokens: 100,
    total_tokens: 107,
    prompt_tokens_details: { cached_tokens: 5 },
    cost: expect.closeTo(0.001009),
    estimated: true,
  });
});

it("costs what the config says, or else what the provider says, in the answer as in the statistics", async () => {
  const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100, cost: 0.5 };
  const told = said("a") + finish() + event({ choices: [], usage }) + done;
  const models = ["model-a", { id: "model-b", price: { input: 2, output: 10 } }];
  const rack = await start((outgoing) => outgoing.end(told), { provider: { models, price: undefined } });
  const answer = await rack.client().chat.completions.create(question);
  const priced = await rack.client().chat.completions.create({ ...question, model: "model-b" });
  expect([answer.usage, priced.usage]).toMatchObject([{ cost: 0.5 }, { cost: 0.003 }]);
  expect((await usageOf(rack)).models).toMatchObject([
    { model: "scripted/model-a", cost: 0.5 },
    { model: "scripted/model-b", cost: 0.003 },
  ]);
});

it("is null in every chunk but the last of a stream that asks for it, and in none of another", async () => {
  const rack = await start((outgoing) => {
    const usage = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 };
    outgoing.end(said("a") + said("b") + finish() + event({ choices: [], usage }) + done);
  });
  const chunksOf = async (more: object) => {
    const chunks: Json[] = [];
    const asked = { ...question, stream: true as const, ...more };
    for await (const chunk of await rack.client().chat.completions.create(asked)) chunks.push(chunk);
    return chunks;
  };
  const chunks = await chunksOf({ stream_options: { include_usage: true }, toolrack: { events: true } });
  expect(chunks.length).toBeGreaterThan(4);
  for (const chunk of chunks.slice(0, -1)) expect(chunk).toHaveProperty("usage", null);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 12 } });
  for (const chunk of await chunksOf({})) expect(chunk).not.toHaveProperty("usage");
});

it("counts what came of an answer that broke off, also in the stream that breaks off", async () => {
  const rack = await start((outgoing) => {
    half(outgoing);
    setImmediate(() => outgoing.destroy());
  });
  const asked = { ...question, stream: true as const, stream_options: { include_usage: true } };
  const chunks: Json[] = [];
  const read = async () => {
    for await (const chunk of await rack.client().chat.completions.create(asked)) chunks.push(chunk);
  };
  await read().catch(() => {});
  expect(chunks.at(-1)?.usage).toMatchObject({ completion_tokens: 100, estimated: true });
  expect(await usageOf(rack)).toMatchObject({ requests: 1, estimated: 1, completionTokens: 100 });
  const session = await rack.session();
  const { usage } = await rack.say(session, "How far is it?").then(() => lastOf(rack, session));
  expect(usage).toMatchObject({ completion_tokens: 100, estimated: true });
  expect(await usageOf(rack)).toMatchObject({ requests: 2, sessions: [{ session, completionTokens: 100 }] });
});

it("counts what came of an answer that was stopped, and of one whose client went away", async () => {
  const rack = await start((outgoing) => half(outgoing));
  const session = await rack.session();
  const reader = await rack.stream(session, "How far is it?");
  await reader.until("text");
  await rack.ask(`/api/chat/sessions/${session}/stop`, { method: "POST" });
  const { status, usage } = await lastOf(rack, session);
  expect([status, usage]).toMatchObject(["stopped", { completion_tokens: 100, estimated: true }]);

  const client = new AbortController();
  const response = await rack.fetch("/v1/chat/completions", {
    body: { ...question, stream: true },
    signal: client.signal,
  });
  await response.body?.getReader().read();
  client.abort();
  expect(await counted(rack, 2)).toMatchObject({ estimated: 2, completionTokens: 200 });
});

it("counts what came of an answer whose token was taken back", async () => {
  const rack = await start((outgoing) => half(outgoing));
  const token = await rack.issue({ tools: ["*"] });
  const response = await rack.fetch("/v1/chat/completions", { body: { ...question, stream: true }, token });
  const [{ id } = { id: "" }] = await rack.serving.store.tokens.list();
  await rack.fetch(`/api/tokens/${id}`, { method: "DELETE" });
  await response.text();
  expect(await counted(rack, 1)).toMatchObject({
    callers: [{ caller: `tester_${id}`, completionTokens: 100 }],
  });
});

it("counts nothing for an answer that never began", async () => {
  const rack = await start((outgoing) => outgoing.writeHead(400).end("{}"));
  await rack
    .client()
    .chat.completions.create(question)
    .catch(() => {});
  expect(await usageOf(rack)).toMatchObject({ requests: 0, promptTokens: 0, days: [], models: [] });
});

it("is told by day, token, model and session, with what it cost, and outlives the server", async () => {
  const rack = await start(
    (outgoing, _, { model }) => {
      const isOther = model === "model-b";
      const usage = isOther
        ? { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 }
        : {
            prompt_tokens: 1_000,
            completion_tokens: 100,
            total_tokens: 1_100,
            prompt_tokens_details: { cached_tokens: 400 },
          };
      outgoing.end(said("Far.") + finish() + event({ choices: [], usage }) + done);
    },
    { provider: { models: ["model-a", { id: "model-b", price: { input: 0, output: 1 } }] } },
  );
  const token = await rack.issue({ tools: ["*"] });
  await rack.client(token).chat.completions.create(question);
  await rack.client(token).chat.completions.create({ ...question, model: "model-b" });
  const session = await rack.session();
  await rack.say(session, "How far is it?");

  const cost = (600 * 2 + 400 * 1 + 100 * 10) / 1_000_000;
  const totals = {
    requests: 1,
    estimated: 0,
    promptTokens: 1_000,
    cachedTokens: 400,
    completionTokens: 100,
    cost,
  };
  const [{ id } = { id: "" }] = await rack.serving.store.tokens.list();
  const check = async () => {
    const { days, callers, models, sessions, ...whole } = await usageOf(rack);
    expect(whole).toMatchObject({ requests: 3, promptTokens: 2_050, completionTokens: 205 });
    expect(whole.cost).toBeCloseTo(2 * cost + 0.000005, 9);
    expect(days.map(({ requests }: Json) => requests).reduce((sum: number, one: number) => sum + one)).toBe(
      3,
    );
    expect(days.at(-1).day).toBe(new Date().toISOString().slice(0, 10));
    expect(callers).toMatchObject([
      { caller: `tester_${id}`, requests: 2 },
      { caller: "http", ...totals },
    ]);
    expect(models).toMatchObject([
      { model: "scripted/model-a", requests: 2 },
      { model: "scripted/model-b", requests: 1, promptTokens: 50, cost: 0.000005 },
    ]);
    expect(sessions).toEqual([{ session, ...totals }]);
  };
  await check();

  const metrics = async (bearer?: string) =>
    (await rack.fetch("/metrics", bearer ? { token: bearer } : {})).text();
  const labels = `caller="tester_${id}",model="scripted/model-a"`;
  expect(await metrics(token)).toContain(`toolrack_model_tokens_total{${labels},kind="prompt"} 600\n`);
  expect(await metrics(token)).not.toContain('caller="http"');
  expect(await metrics()).toContain(
    'toolrack_model_requests_total{caller="http",model="scripted/model-a"} 1\n',
  );

  await rack.serving.close();
  await rack.open();
  await check();
});

async function lastOf(rack: ChatRack, session: string): Promise<Json> {
  return (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1);
}
