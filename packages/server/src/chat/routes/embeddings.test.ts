import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAI } from "@ai-sdk/openai";
import { embedMany } from "ai";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { ChatRack } from "../testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const KEY = "key-of-the-provider";
let provider: Server;
let rack: ChatRack;
let asked: { url: string | undefined; key: string | undefined; body: Record<string, unknown> }[] = [];
let failures: { status: number; text: string; headers?: Record<string, string> }[] = [];

beforeAll(async () => {
  provider = createServer(async (incoming, outgoing) => {
    const body = JSON.parse(await textOf(incoming));
    asked.push({ url: incoming.url, key: incoming.headers.authorization, body });
    const failure = failures.shift();
    if (body.model === "silent") return undefined;
    if (failure !== undefined) return outgoing.writeHead(failure.status, failure.headers).end(failure.text);
    const data = [body.input].flat().map((text: string, index: number) => {
      const embedding =
        body.encoding_format === "base64"
          ? Buffer.from(new Float32Array([text.length, 1]).buffer).toString("base64")
          : [text.length, 1];
      return { object: "embedding", index, embedding };
    });
    const usage = { prompt_tokens: 3, total_tokens: 3 };
    outgoing.writeHead(200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ object: "list", data, model: body.model, usage, note: `with ${KEY}` }));
  });
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  // A server that listens on a port has such an address.
  const { port } = provider.address() as AddressInfo;
  const baseURL = `http://127.0.0.1:${port}/v1`;
  rack = await ChatRack.start({
    provider: { baseURL, models: ["model-a", "small", { id: "silent", idleSeconds: 0.2 }] },
    chat: { models: { any: ["model-a", "small"], quick: ["silent", "small"] } },
  });
});
afterAll(async () => {
  await rack[Symbol.asyncDispose]();
  provider.closeAllConnections();
  provider.close();
});
beforeEach(() => {
  asked = [];
  failures = [];
});

it("passes a request on with the provider's key, and the answer back", async () => {
  const answer = await rack
    .client()
    .embeddings.create({ model: "scripted/small", input: ["one", "three"], dimensions: 2 });
  expect(answer.data.map(({ embedding }) => [...embedding])).toEqual([
    [3, 1],
    [5, 1],
  ]);
  expect(answer.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 });
  expect(asked).toMatchObject([
    { url: "/v1/embeddings", key: `Bearer ${KEY}`, body: { model: "small", dimensions: 2 } },
  ]);
  expect(JSON.stringify(answer)).not.toContain(KEY);
  const counted = async () => (await rack.ask("/api/stats")).usage;
  await expect.poll(counted, { timeout: 20_000 }).toMatchObject({
    requests: 1,
    estimated: 0,
    promptTokens: 3,
    models: [{ model: "scripted/small" }],
  });
});

it("serves AI SDK's default provider", async () => {
  const openai = createOpenAI({ apiKey: rack.serving.token, baseURL: `${rack.serving.url}/v1` });
  const { embeddings } = await embedMany({ model: openai.embeddingModel("small"), values: ["one", "three"] });
  expect(embeddings).toEqual([
    [3, 1],
    [5, 1],
  ]);
});

it("lets clients try again after a failure, and masks what the provider says", async () => {
  const text = JSON.stringify({ error: { message: `The key ${KEY} is tired.` } });
  failures = [{ status: 429, text, headers: { "retry-after": "0" } }];
  const answer = await rack.client().embeddings.create({ model: "small", input: "one" });
  expect(answer.data).toHaveLength(1);
  expect(asked).toHaveLength(2);
  const wrong = { message: `The key ${KEY} is tired.`, type: "tired_error", param: "input" };
  failures = [{ status: 400, text: JSON.stringify({ error: wrong }) }];
  const refused = await rack.ask("/v1/embeddings", { body: { model: "small", input: "one" } });
  expect(refused).toMatchObject({
    status: 400,
    error: { code: "provider_refused", type: "tired_error", param: "input" },
  });
  expect(refused.error.message).not.toContain(KEY);
});

it.each([
  ["a page", { status: 200, text: "<html>" }, /answered with a web page .*baseURL/],
  ["a redirect", { status: 307, text: "", headers: { location: "/login" } }, /points to \/login.*baseURL/],
  ["something else", { status: 200, text: '{"hello":1}' }, /no list of embeddings.*hello/],
  ["an error with status 200", { status: 200, text: '{"error":"no room"}' }, /reported an error.*no room/],
])("says of %s what a completion would say, and asks the next of a list", async (_, failure, words) => {
  failures = [failure];
  const { status, error } = await rack.ask("/v1/embeddings", { body: { model: "small", input: "one" } });
  expect(status).toBe(502);
  expect(error.message).toMatch(words);
  failures = [failure];
  const answer = await rack.ask("/v1/embeddings", { body: { model: "any", input: "one" } });
  expect(answer.data).toHaveLength(1);
});

it("gives up a silent provider, and asks the next of a list", async () => {
  const { error } = await rack.ask("/v1/embeddings", { body: { model: "silent", input: "one" } });
  expect(error.message).toContain("idleSeconds");
  const answer = await rack.ask("/v1/embeddings", { body: { model: "quick", input: "one" } });
  expect(answer.model).toBe("small");
});

it("is for tokens that may use models", async () => {
  const token = await rack.issue({ tools: ["add"], chat: false });
  const body = { model: "small", input: "one" };
  expect((await rack.fetch("/v1/embeddings", { body, token })).status).toBe(403);
  expect((await rack.fetch("/v1/embeddings", { body: { model: "none", input: "one" } })).status).toBe(404);
  expect(asked).toEqual([]);
});

async function textOf(incoming: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of incoming) text += piece;
  return text;
}
