import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { CompletionChunk } from "./completion-chunk.ts";
import type { ModelEndpoint } from "./endpoint.ts";
import { type StreamOptions, streamCompletion } from "./stream-completion.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function endpointOf(listener: RequestListener): Promise<ModelEndpoint> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return {
    provider: "test",
    baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    apiKey: "sk-hidden-key",
    headers: { "x-own": "1" },
    model: "m",
    toolCalls: "native",
    images: true,
    contextTokens: undefined,
  };
}

async function read(endpoint: ModelEndpoint, more: Partial<StreamOptions> = {}): Promise<CompletionChunk[]> {
  const chunks: CompletionChunk[] = [];
  const options = { signal: new AbortController().signal, backoff: 1, ...more };
  for await (const chunk of streamCompletion(endpoint, { model: "m" }, options)) chunks.push(chunk);
  return chunks;
}

const said = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
const finish = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n`;
const stream = { "content-type": "text/event-stream" };

describe("a request to a model", () => {
  it("carries the key and the configured headers, and takes an answer that is no stream", async () => {
    let seen: unknown;
    const endpoint = await endpointOf((incoming, outgoing) => {
      seen = [incoming.url, incoming.headers.authorization, incoming.headers["x-own"]];
      outgoing.setHeader("content-type", "application/json");
      outgoing.end(JSON.stringify({ choices: [{ message: { content: "whole" }, finish_reason: "stop" }] }));
    });
    const [chunk] = await read(endpoint);
    expect(chunk?.choices?.[0]).toMatchObject({ delta: { content: "whole" }, finish_reason: "stop" });
    expect(seen).toEqual(["/v1/chat/completions", "Bearer sk-hidden-key", "1"]);
  });

  it("is made again after 429, 5xx and broken connections, as long as nothing was said", async () => {
    let requests = 0;
    const endpoint = await endpointOf((incoming, outgoing) => {
      requests++;
      if (requests === 1) outgoing.writeHead(429, { "retry-after": "0" }).end("{}");
      else if (requests === 2) outgoing.writeHead(500).end("oops");
      else if (requests === 3) incoming.socket.destroy();
      else if (requests === 4) outgoing.writeHead(200, stream).end(": nothing\n\n");
      else outgoing.writeHead(200, stream).end(said("hello") + finish);
    });
    const retries: string[] = [];
    const chunks = await read(endpoint, { onRetry: ({ reason }) => retries.push(reason) });
    expect(chunks[0]?.choices?.[0]?.delta).toEqual({ content: "hello" });
    expect(retries).toHaveLength(4);
    expect(retries[1]).toContain("answered 500");
  });

  it("waits as long as the provider asks, in any of its forms", async () => {
    const waits: number[] = [];
    const forms = [
      { "retry-after-ms": "30" },
      { "retry-after": "0.02" },
      { "retry-after": new Date(Date.now() - 1_000).toUTCString() },
    ];
    const endpoint = await endpointOf((_incoming, outgoing) => {
      const form = forms.shift();
      if (form !== undefined) outgoing.writeHead(429, form).end();
      else outgoing.writeHead(200, stream).end(said("x") + finish);
    });
    await read(endpoint, { onRetry: ({ waitMs }) => waits.push(waitMs) });
    expect(waits).toEqual([30, 20, 0]);
  });

  it("is given up when the pause would be long, the request is wrong, or the quota is used up", async () => {
    let requests = 0;
    let answer: () => [status: number, headers: Record<string, string>, body: string];
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      const [status, headers, body] = answer();
      outgoing.writeHead(status, headers).end(body);
    });
    answer = () => [429, { "retry-after": "3600" }, ""];
    await expect(read(endpoint)).rejects.toMatchObject({ kind: "busy", retryAfter: 3600 });
    answer = () => [
      400,
      {},
      JSON.stringify({ error: { message: "too long", code: "context_length_exceeded" } }),
    ];
    await expect(read(endpoint)).rejects.toMatchObject({ kind: "refused", code: "context_length_exceeded" });
    answer = () => [429, {}, JSON.stringify({ error: { message: "pay", code: "insufficient_quota" } })];
    await expect(read(endpoint)).rejects.toMatchObject({ kind: "busy" });
    answer = () => [401, {}, JSON.stringify({ error: { message: "Incorrect key sk-hidden-key" } })];
    await expect(read(endpoint)).rejects.toThrow(/Incorrect key \[redacted\]/);
    expect(requests).toBe(4);
  });

  it("is never made again once something was said", async () => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      outgoing.writeHead(200, stream);
      outgoing.write(said("half"), () => outgoing.destroy());
    });
    await expect(read(endpoint)).rejects.toMatchObject({ name: "ProviderError" });
    expect(requests).toBe(1);
  });

  it("notices an answer that ends without an end, and an error in the middle", async () => {
    let body = said("half");
    const endpoint = await endpointOf((_incoming, outgoing) => outgoing.writeHead(200, stream).end(body));
    await expect(read(endpoint)).rejects.toMatchObject({ kind: "cut" });
    body = `${said("half")}data: {"error":{"message":"overloaded","code":529}}\n\n`;
    await expect(read(endpoint)).rejects.toThrow("overloaded");
    body = `${said("half")}data: {nonsense\n\n`;
    await expect(read(endpoint)).rejects.toThrow("not JSON");
  });

  it("ends at once when it is stopped, also while it waits", async () => {
    const stop = new AbortController();
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(503, { "retry-after": "50" }).end(),
    );
    const reading = read(endpoint, { signal: stop.signal, onRetry: () => stop.abort(new Error("enough")) });
    await expect(reading).rejects.toThrow("enough");
  });

  it("says where nobody answers", async () => {
    const endpoint = await endpointOf(() => {});
    server!.close();
    await expect(read(endpoint, { retries: 1 })).rejects.toThrow(
      /"test" \(http.*\) cannot be reached: ECONNREFUSED/,
    );
  });
});
