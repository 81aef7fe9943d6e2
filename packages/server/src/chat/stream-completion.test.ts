import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { type AnswerPiece, DeltaMerger, readChunk } from "./answer-chunks.ts";
import type { ProviderError } from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";
import { type StreamOptions, streamCompletion } from "./provider.ts";
import { Providers } from "./providers.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function endpointOf(
  listener: RequestListener,
  config: { path?: string; headers?: Record<string, string>; idleSeconds?: number } = {},
): Promise<ModelEndpoint> {
  const { path = "/v1", headers = { "x-own": "1" }, idleSeconds = 60 } = config;
  server = createServer(listener);
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const baseURL = `http://127.0.0.1:${port}${path}`;
  const test = { baseURL, apiKey: "sk-hidden-key", headers, idleSeconds, models: ["m"] };
  const readSecret = async (name: string) => `secret-of-${name}-0123456789`;
  return new Providers({ providers: { test }, environment: {}, readSecret }).resolve("m");
}

async function read(endpoint: ModelEndpoint, more: Partial<StreamOptions> = {}): Promise<AnswerPiece[]> {
  const chunks: AnswerPiece[] = [];
  const onPiece = (piece: AnswerPiece) => void chunks.push(piece);
  const options = { signal: new AbortController().signal, backoff: 1, onPiece, ...more };
  await streamCompletion(endpoint, { model: "m" }, options);
  return chunks;
}

const event = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
const said = (content: string) => event({ content });
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
    expect(chunk).toMatchObject({ text: "whole", finish: "stop" });
    expect(seen).toEqual(["/v1/chat/completions", "Bearer sk-hidden-key", "1"]);
  });

  it("has every header once, and that of the config where both name one, however it is written", async () => {
    let seen: readonly string[] = [];
    const headers = { Authorization: "Basic abc", "User-Agent": "mine", HOST: "models.example" };
    const endpoint = await endpointOf(
      (incoming, outgoing) => {
        seen = incoming.rawHeaders;
        outgoing.writeHead(200, stream).end(said("hello") + finish);
      },
      { headers },
    );
    await read(endpoint);
    const names = seen.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    expect(new Set(names).size).toBe(names.length);
    const sentAs = (name: string) => seen[names.indexOf(name) * 2 + 1];
    expect([sentAs("authorization"), sentAs("user-agent"), sentAs("host")]).toEqual(Object.values(headers));
  });

  it("holds its tools as they are, also those that were sent before", async () => {
    const seen: unknown[] = [];
    const endpoint = await endpointOf(async (incoming, outgoing) => {
      seen.push(JSON.parse((await incoming.toArray()).join("")));
      outgoing.writeHead(200, stream).end(said("hello") + finish);
    });
    const tool = (name: string) => ({ type: "function", function: { name, description: 'says "ä"\n' } });
    const [known, other] = [tool("known"), tool("other")];
    const bodies = [
      { model: "m", tools: [known], tool_choice: undefined },
      { model: "m", tools: [other, known] },
      { tools: [] },
    ];
    const options = { signal: new AbortController().signal, onPiece: () => {} };
    for (const body of bodies) await streamCompletion(endpoint, body, options);
    expect(seen).toEqual(JSON.parse(JSON.stringify(bodies)));
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
    expect(chunks[0]?.text).toBe("hello");
    // A connection that was kept open and breaks when it is used again is replaced without a pause.
    expect(requests).toBe(5);
    expect(retries).toHaveLength(3);
    expect(retries[1]).toContain("answered 500");
  });

  it("waits as long as the provider asks, in any of its forms", async () => {
    const waits: number[] = [];
    const forms = [
      { "retry-after-ms": "30" },
      { "retry-after": "0.02" },
      { "retry-after": new Date(Date.now() - 1_000).toUTCString() },
      { "retry-after": "" },
    ];
    const endpoint = await endpointOf((_incoming, outgoing) => {
      const form = forms.shift();
      if (form !== undefined) outgoing.writeHead(429, form).end();
      else outgoing.writeHead(200, stream).end(said("x") + finish);
    });
    await read(endpoint, { onRetry: ({ waitMs }) => waits.push(waitMs) });
    expect(waits.slice(0, 2)).toEqual([30, 20]);
    // No pause at all would be no pause for four requests.
    expect(waits.slice(2).every((pause) => pause > 0)).toBe(true);
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
    await expect(read(endpoint)).rejects.toMatchObject({
      kind: "cut",
      message: expect.stringMatching(/^The answer of the model provider "test" .* broke off before its end/),
    });
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

  it("says that a key cannot be sent, and shows nothing of it", async () => {
    const endpoint = await endpointOf(() => {}, { headers: { "x-api-key": "secret-key\nof-two-lines" } });
    const error = (await read(endpoint, { retries: 0 }).catch((thrown) => thrown)) as ProviderError;
    expect(error.message).toMatch(/cannot be asked: ERR_INVALID_CHAR/);
    expect(error.message).not.toContain("secret");
  });

  it("says where nobody answers", async () => {
    const endpoint = await endpointOf(() => {});
    server!.close();
    await expect(read(endpoint, { retries: 1 })).rejects.toThrow(
      /"test" \(http.*\) cannot be reached: ECONNREFUSED/,
    );
  });

  it("is made again when the answer broke off before it said anything", async () => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      outgoing.writeHead(200, stream);
      // Some servers begin like this, which says nothing.
      if (requests === 1)
        outgoing.write(event({ role: "assistant", content: "", tool_calls: [] }), () => outgoing.destroy());
      else if (requests === 2) outgoing.end("data: [DONE]\n\n");
      else outgoing.end(said("hello") + finish);
    });
    const chunks = await read(endpoint);
    expect(requests).toBe(3);
    expect(chunks.at(-2)?.text).toBe("hello");
  });

  it("is answered when the connection breaks behind the end", async () => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      outgoing.writeHead(200, stream);
      outgoing.write(said("whole") + finish, () => outgoing.destroy());
    });
    expect((await read(endpoint))[0]?.text).toBe("whole");
    expect(requests).toBe(1);
  });

  it("is answered by a stream that does not say that it is one, in pieces of any size", async () => {
    const endpoint = await endpointOf(async (_incoming, outgoing) => {
      outgoing.writeHead(200);
      for (const piece of ["\n", "d", "at", said("hello").slice(3), finish]) {
        await new Promise((resolve) => outgoing.write(piece, resolve));
      }
      outgoing.end();
    });
    expect((await read(endpoint))[0]?.text).toBe("hello");
  });

  it("passes over what is no choice, and says when there is none", async () => {
    let type = "text/event-stream";
    let body = `data: {"choices":[null,5,"x"]}\n\ndata: null\n\ndata: 5\n\n${said("hello")}${finish}`;
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(200, { "content-type": type }).end(body),
    );
    const merger = new DeltaMerger();
    for (const chunk of await read(endpoint)) merger.add(chunk);
    expect(merger.text).toBe("hello");
    type = "application/json";
    body = '{"choices":[null]}';
    await expect(read(endpoint, { retries: 0 })).rejects.toMatchObject({
      kind: "failed",
      message: expect.stringContaining("has no choices"),
    });
  });

  it("is given up when the provider sends more at once than can be taken in", async () => {
    let requests = 0;
    const piece = "x".repeat(1_000_000);
    const endpoint = await endpointOf(async (_incoming, outgoing) => {
      requests++;
      outgoing.writeHead(200, stream).write('data: {"choices":[{"delta":{"content":"');
      for (let at = 0; at < 40; at++) await new Promise((resolve) => outgoing.write(piece, resolve));
    });
    await expect(read(endpoint)).rejects.toThrow("more than 32000000 characters at once");
    expect(requests).toBe(1);
  });
});

describe("an answer of a server with habits of its own", () => {
  it("may have events without data, and a connection that stays open behind the end", async () => {
    const endpoint = await endpointOf((_incoming, outgoing) => {
      outgoing.writeHead(200, stream);
      outgoing.write(`data:\n\n${said("hel")}data: \n\ndata:\n\n${said("lo")}${finish}data: [DONE]\n\n`);
    });
    const chunks = await read(endpoint);
    expect(chunks.map(({ text }) => text).join("")).toBe("hello");
  });

  it.each([
    ['{"message":"the model is overloaded","type":"overloaded_error"}', "the model is overloaded"],
    ['{"type":"error","error":{"type":"overloaded_error","message":"come back later"}}', "come back later"],
    ['{"detail":"CUDA out of memory"}', "CUDA out of memory"],
    ['{"reason":{"gpu":7}}', '{"reason":{"gpu":7}}'],
    ["the worker died", "the worker died"],
  ])("keeps its words in an event named error: %s", async (data, words) => {
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(200, stream).end(`event: error\ndata: ${data}\n\n`),
    );
    // The provider answered with the status 200, so the message names no status.
    const message = `reported an error for the model "${endpoint.model}": ${words}`;
    await expect(read(endpoint, { retries: 0 })).rejects.toThrow(message);
  });

  it.each<[string, number, Record<string, string>, string, RegExp]>([
    [
      "a redirect",
      307,
      { location: "https://login.example/?k=sk-hidden-key" },
      "",
      /307 and points to https:\/\/login.example\/\?k=\[redacted\].*baseURL/,
    ],
    [
      "a page",
      200,
      { "content-type": "text/html; charset=utf-8" },
      "<!doctype html><p>Sign in",
      /web page \(text\/html.*baseURL/,
    ],
    ["a page that does not say so", 200, {}, "\n<html><p>Sign in", /web page.*baseURL/],
  ])("is not asked for again when it is %s", async (_, status, headers, body, words) => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      outgoing.writeHead(status, headers).end(body);
    });
    await expect(read(endpoint)).rejects.toThrow(words);
    expect(requests).toBe(1);
  });

  it("may begin with a byte order mark", async () => {
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(200, stream).end(`\uFEFF${said("hello")}${finish}`),
    );
    expect((await read(endpoint))[0]?.text).toBe("hello");
  });

  it("has no end while its finish reason is empty, and was cut where the provider says so in its own words", async () => {
    const ending = (reason: string) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x" }, finish_reason: reason }] })}\n\n`;
    const endpoint = await endpointOf((incoming, outgoing) => {
      outgoing
        .writeHead(200, stream)
        .end(ending("") + ending("null") + ending(String(incoming.headers.said)));
    });
    const finishOf = async (said: string) => (await read(endpoint, { headers: { said } })).at(-1)?.finish;
    await expect(read(endpoint, { headers: { said: "" } })).rejects.toThrow("broke off before its end");
    for (const said of ["length", "model_length", "MAX_TOKENS", "insufficient_system_resource", "abort"])
      expect(await finishOf(said)).toBe("length");
    expect(await finishOf("eos_token")).toBe("eos_token");
  });

  it("is not guessed at when it is compressed, which nobody asked for", async () => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      requests++;
      outgoing
        .writeHead(200, { ...stream, "content-encoding": "gzip" })
        .end(gzipSync(said("hello") + finish));
    });
    await expect(read(endpoint)).rejects.toThrow(/is compressed, although .*: gzip$/);
    expect(requests).toBe(1);
  });

  it("is read when a header says in any way that it is not compressed", async () => {
    const endpoint = await endpointOf((incoming, outgoing) =>
      outgoing
        .writeHead(200, { ...stream, "content-encoding": String(incoming.headers.wanted) })
        .end(said("hello") + finish),
    );
    for (const wanted of ["Identity", ""])
      expect((await read(endpoint, { headers: { wanted } }))[0]?.text).toBe("hello");
  });

  it("is asked for again when a gateway shows a page about a server that is away", async () => {
    let requests = 0;
    const endpoint = await endpointOf((_incoming, outgoing) => {
      if (++requests === 1) outgoing.writeHead(502, { "content-type": "text/html" }).end("<html>Bad Gateway");
      else outgoing.writeHead(200, stream).end(said("hello") + finish);
    });
    expect((await read(endpoint))[0]?.text).toBe("hello");
  });

  it.each([
    ["before it begins", ""],
    ["in the middle", said("half")],
  ])("is given up when nothing comes any more %s", async (_, beginning) => {
    let requests = 0;
    const endpoint = await endpointOf(
      (_incoming, outgoing) => {
        requests++;
        if (beginning !== "") outgoing.writeHead(200, stream).write(beginning);
      },
      { idleSeconds: 0.05 },
    );
    await expect(read(endpoint)).rejects.toMatchObject({
      code: "silent",
      message: expect.stringContaining("sent nothing for 0.05 seconds"),
    });
    expect(requests).toBe(1);
  });

  it("is complete when its server is silent behind the finish reason", async () => {
    const endpoint = await endpointOf(
      (_incoming, outgoing) => outgoing.writeHead(200, stream).write(said("whole") + finish),
      { idleSeconds: 0.05 },
    );
    expect((await read(endpoint))[0]?.text).toBe("whole");
  });

  it.each([
    ["an error event", 'event: error\ndata: {"message":"busy"}\n\n'],
    ["an error as data", 'data: {"error":{"message":"busy"}}\n\n'],
    ["nonsense", "data: nonsense\n\n"],
  ])("is complete with its finish reason, also when %s follows", async (_, more) => {
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(200, stream).end(said("whole") + finish + more + said("never")),
    );
    expect((await read(endpoint)).map(({ text }) => text).join("")).toBe("whole");
  });

  it("reads the same, whether chunks differ in their text only or in more", async () => {
    const texts = ["a", "b", 'say \\"so\\"', "\\n\\n", "\\u4f60好", "", '\\\\","role":"x', "🦊", " end"];
    const frame = (text: string) =>
      `{"id":"1","choices":[{"index":0,"delta":{"content": "${text}"},"finish_reason":null}]}`;
    const chunks = [
      ...texts.map(frame),
      frame("b").replace('"id":"1"', '"id":"2"'),
      frame("c").replace("}]}", '}],"system_fingerprint":"fp"}'),
      frame("d").replace('"content": "d"', '"content": null,"reasoning_content":"x"'),
      frame("d").replace('"content": "d"', '"content": null,"reasoning_content":"y"'),
      frame('e"},"finish_reason":"stop","more":{"a":"'),
    ];
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(200, stream).end(chunks.map((chunk) => `data: ${chunk}\n\n`).join("") + finish),
    );
    const merged = new DeltaMerger();
    const pieces = await read(endpoint);
    for (const piece of pieces) merged.add(piece);
    const parsed = new DeltaMerger();
    for (const chunk of chunks) parsed.add(readChunk(JSON.parse(chunk)));
    expect(merged.text).toBe(parsed.text);
    expect(merged.text).toContain('say "so"\n\n你好');
    expect(pieces.map(({ reasoning }) => reasoning).join("")).toBe("xy");
    expect([merged.reasoningField, merged.facts]).toEqual(["reasoning_content", parsed.facts]);
  });
});

describe("what a provider says when it refuses", () => {
  it("keeps the provider's own code, type and member", async () => {
    const error = {
      message: "too long",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    };
    const endpoint = await endpointOf((_incoming, outgoing) =>
      outgoing.writeHead(400).end(JSON.stringify({ error })),
    );
    await expect(read(endpoint)).rejects.toMatchObject({
      details: { provider: "test", status: 400, type: error.type, param: "messages", code: error.code },
    });
  });

  it.each([
    [
      502,
      "<html>\n<head><title>502 Bad\n Gateway</title><style>body{}</style>",
      'model "m": 502 Bad Gateway',
    ],
    [404, "<!DOCTYPE html><p>Nothing here", 'model "m": a web page'],
    [404, "404 page not found", 'model "m": 404 page not found'],
  ])("is told of a page by its title: %s %s", async (status, page, told) => {
    const endpoint = await endpointOf((_incoming, outgoing) => outgoing.writeHead(status).end(page));
    const { message } = (await read(endpoint, { retries: 0 }).catch((thrown) => thrown)) as ProviderError;
    expect(message.slice(message.indexOf("model "))).toContain(told);
    expect(message.endsWith(told)).toBe(true);
  });

  const reference = (name: string) => `\${secret:${name}}`;

  it.each<[string, (header: string) => string]>([
    ["as a page", (header) => `<html><title>hdr ${header}</title></html>`],
    ["cut in the middle of it", (header) => `${" ".repeat(465)}hdr ${header}`],
    ["behind a long text", (header) => `${"y".repeat(980)} ${header}`],
    [
      "as an error",
      (header) => JSON.stringify({ error: { message: header, code: header, type: header, param: header } }),
    ],
    [
      "encoded",
      (header) => JSON.stringify({ error: { message: Buffer.from(`x${header}`).toString("base64") } }),
    ],
  ])("holds nothing of its secrets when it repeats them %s", async (_, page) => {
    const endpoint = await endpointOf(
      (incoming, outgoing) => {
        const { authorization = "", "x-api-key": key = "", "x-auth": auth = "" } = incoming.headers;
        outgoing
          .writeHead(403)
          .end(page(`${authorization} ${key} ${String(auth).slice("Token ".length)} ${incoming.url}`));
      },
      {
        path: `/v1/${reference("PATH")}?key=${reference("QUERY")}`,
        headers: { "x-api-key": reference("HEADER"), "x-auth": "Token literal-key-of-a-header" },
      },
    );
    const error = (await read(endpoint).catch((thrown) => thrown)) as ProviderError;
    expect(error.kind).toBe("unauthorized");
    const shown = JSON.stringify([error.message, error.details, error.cause]);
    for (const secret of ["sk-hidden", "secret-of-", "0123456", "literal-key"])
      expect(shown).not.toContain(secret);
    expect(shown).toContain(`/v1/${reference("PATH")}?key=…)`);
    expect(Buffer.from(/[A-Za-z0-9+/]{24,}/.exec(shown)?.[0] ?? "", "base64").toString()).not.toContain(
      "sk-hid",
    );
  });

  it("shows the address as the config has it when nobody is there, or nothing sensible comes", async () => {
    const endpoint = await endpointOf(
      (_incoming, outgoing) => outgoing.writeHead(200, stream).end("data: {nonsense sk-hidden-key\n\n"),
      { path: `/${reference("PATH")}` },
    );
    const nonsense = (await read(endpoint, { retries: 0 }).catch((thrown) => thrown)) as ProviderError;
    expect(nonsense.message).toContain("{nonsense [redacted]");
    expect(nonsense.cause).toBeUndefined();
    server!.closeAllConnections();
    await new Promise((resolve) => server!.close(resolve));
    const missing = (await read(endpoint, { retries: 0 }).catch((thrown) => thrown)) as ProviderError;
    expect(missing.message).toMatch(/\/\$\{secret:PATH\}\) cannot be reached: ECONNREFUSED\.$/);
  });
});
