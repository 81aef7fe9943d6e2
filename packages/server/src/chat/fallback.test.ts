import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ChatRack } from "./testing/chat-rack.fixture.ts";
import type { Json } from "./testing/scripted-upstream.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

type Answer = (outgoing: ServerResponse, request: Json) => unknown;

/** A provider that `answer` controls. */
class Provider {
  answer: Answer = (outgoing) => outgoing.writeHead(503).end("away");
  readonly requests: Json[] = [];
  readonly server: Server = createServer(async (incoming: IncomingMessage, outgoing) => {
    let text = "";
    for await (const piece of incoming) text += piece;
    this.requests.push(JSON.parse(text));
    await this.answer(outgoing, this.requests.at(-1));
  });

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    // A server that listens on a port has such an address.
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`;
  }
}

let rack: ChatRack | undefined;
let first = new Provider();
let second = new Provider();

async function start(traits: object = {}): Promise<ChatRack> {
  first = new Provider();
  second = new Provider();
  const config = {
    builtins: false,
    server: { port: 0 },
    providers: {
      first: { baseURL: await first.listen(), models: ["big"] },
      second: { baseURL: await second.listen(), models: ["other"], ...traits },
    },
    chat: { model: "best", models: { best: ["first/big", "second/other"] } },
  };
  rack = await ChatRack.start({
    files: { "toolrack.config.js": `export default ${JSON.stringify(config)};` },
  });
  return rack;
}

afterEach(async () => {
  await rack?.[Symbol.asyncDispose]();
  for (const { server } of [first, second]) {
    server.closeAllConnections();
    server.close();
  }
});

const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (value: object, finish_reason: string | null = null) =>
  event({ choices: [{ index: 0, delta: value, finish_reason }] });
const says = (text: string) => delta({ content: text }) + delta({}, "stop");
const calls = (name: string, args: object, more = {}) =>
  delta({
    tool_calls: [{ index: 0, id: "c", function: { name, arguments: JSON.stringify(args) }, ...more }],
  }) + delta({}, "tool_calls");
const stream =
  (text: string): Answer =>
  (outgoing) =>
    outgoing.writeHead(200, { "content-type": "text/event-stream" }).end(text);

describe("when a provider of a list fails", () => {
  it("the next one answers, the failed one is left alone for a while, and the record tells of it", async () => {
    const { say, session, ask } = bound(await start());
    second.answer = stream(says("hello"));
    const id = await session();
    const answer = await say(id, "hi");
    expect(answer.parts).toMatchObject([{ type: "text", text: "hello" }]);
    expect(answer).toMatchObject({
      provider: "second",
      model: "other",
      requests: [
        { round: 1, provider: "first", model: "big", messages: 1, tools: expect.any(Number) },
        { round: 1, provider: "second", model: "other", instead: expect.stringContaining("answered 503") },
      ],
    });
    const { messages } = await ask(`/api/chat/sessions/${id}`);
    expect(messages[1].requests).toEqual(answer.requests);
    expect(first.requests).toHaveLength(1);
    const { data } = await ask("/v1/models");
    expect(data[0]).toMatchObject({
      id: "best",
      toolrack: {
        providers: [
          { id: "first/big", health: "cooling", reason: expect.stringContaining("503") },
          { id: "second/other", health: "ok" },
        ],
      },
    });
    await say(id, "again");
    expect(first.requests).toHaveLength(1);
    expect(second.requests).toHaveLength(2);
    expect(second.requests[0].model).toBe("other");
  });

  it.each<[string, Answer]>([
    ["its key is not accepted", (outgoing) => outgoing.writeHead(401).end("{}")],
    ["it does not have the model", (outgoing) => outgoing.writeHead(404).end("{}")],
    [
      "its model takes no request that long",
      (outgoing) =>
        outgoing.writeHead(400).end('{"error":{"code":"context_length_exceeded","message":"too long"}}'),
    ],
    ["it redirects", (outgoing) => outgoing.writeHead(302, { location: "/login" }).end()],
    ["it breaks off before it says anything", (outgoing) => outgoing.socket?.destroy()],
    ["it sends an error event", stream('event: error\ndata: {"message":"busy"}\n\n')],
  ])("another is asked because %s", async (_, answer) => {
    const started = await start();
    first.answer = answer;
    second.answer = stream(says("hello"));
    const completion = await started.client().chat.completions.create({
      model: "best",
      messages: [{ role: "user", content: "hi" }],
    });
    expect(completion.choices[0]?.message.content).toBe("hello");
    expect(completion.model).toBe("best");
  });

  it("another is asked in the middle of a turn, and no tool runs twice", async () => {
    const started = await start({ images: false });
    let asked = 0;
    const signed = { extra_content: { signature: "only for the first" } };
    first.answer = (outgoing, request) => {
      if (asked++ === 0) return stream(calls("write", { text: "once" }, signed))(outgoing, request);
      return outgoing.writeHead(500).end();
    };
    second.answer = stream(says("done"));
    const answer = await started.say(await started.session(), "go");
    expect(started.ran).toEqual([{ name: "write", input: { text: "once" } }]);
    expect(answer.parts.at(-1).text).toBe("done");
    expect(answer.requests.map(({ round, provider }: Json) => [round, provider])).toEqual([
      [1, "first"],
      [2, "first"],
      [2, "second"],
    ]);
    expect(JSON.stringify(first.requests[1])).toContain("only for the first");
    expect(JSON.stringify(second.requests[0])).not.toContain("only for the first");
    expect(second.requests[0].messages.at(-1)).toMatchObject({ role: "tool", content: "wrote once" });
  });

  it("another is shown no more than it can read, and the record tells how much gave way", async () => {
    const started = await start({ contextTokens: 2048 });
    let asked = 0;
    first.answer = (outgoing, request) => {
      const answers = [calls("long", { size: 6_000 }), calls("add", { a: 1, b: 2 })];
      const answer = answers[asked++];
      return answer === undefined ? outgoing.writeHead(500).end() : stream(answer)(outgoing, request);
    };
    second.answer = stream(says("done"));
    const answer = await started.say(await started.session(), "go");
    expect(answer.parts.at(-1).text).toBe("done");
    expect(JSON.stringify(first.requests[2].messages).length).toBeGreaterThan(6_000);
    expect(JSON.stringify(second.requests[0].messages).length).toBeLessThan(3_000);
    expect(answer.requests.map(({ compacted }: Json) => compacted)).toEqual([
      undefined,
      undefined,
      undefined,
      1,
    ]);
  });

  it("another one goes on with a turn that waited for a person while the server started anew", async () => {
    const started = await start();
    const { say, session, ask } = bound(started);
    first.answer = stream(calls("wipe", { what: "all" }));
    second.answer = stream(says("done"));
    const id = await session();
    const reader = await started.stream(id, "go");
    const { data } = await reader.until("approval");
    await started.serving.close();
    await started.open();
    first.answer = (outgoing) => outgoing.writeHead(503).end("away");
    await ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } });
    await expect
      .poll(async () => (await ask(`/api/chat/sessions/${id}`)).messages.at(-1), { timeout: 20_000 })
      .toMatchObject({
        status: "completed",
        provider: "second",
        parts: [{ type: "tool" }, { text: "done" }],
      });
    // The turn went on with the model that had begun it.
    expect(first.requests).toHaveLength(2);
    expect((await say(id, "again")).provider).toBe("second");
  });

  it("nobody else is asked once something was said", async () => {
    const { say, session } = bound(await start());
    second.answer = stream(says("hello"));
    first.answer = (outgoing) => {
      outgoing.writeHead(200, { "content-type": "text/event-stream" });
      outgoing.write(delta({ content: "half" }), () => outgoing.destroy());
    };
    const cut = await say(await session(), "hi");
    expect(JSON.stringify(cut)).toContain("broke off before its end");
    expect(second.requests).toHaveLength(0);
  });

  it("a request that is wrong is answered with what was wrong, and nobody is to blame", async () => {
    const started = await start();
    first.answer = (outgoing) => outgoing.writeHead(400).end('{"error":{"message":"too long"}}');
    const body = { messages: [{ role: "user", content: "hi" }] };
    const answer = await started.ask("/v1/chat/completions", { body });
    expect(answer).toMatchObject({ status: 400, error: { message: expect.stringContaining("too long") } });
    expect(second.requests).toHaveLength(0);
    const { data } = await started.ask("/v1/models");
    expect(data[0].toolrack.providers[0].health).toBe("ok");
  });

  it("and all others fail too, the last one is asked as often as a single one", async () => {
    const started = await start();
    let asked = 0;
    second.answer = (outgoing, request) =>
      asked++ === 0
        ? outgoing.writeHead(429, { "retry-after-ms": "1" }).end()
        : stream(says("at last"))(outgoing, request);
    const reader = await started.stream(await started.session(), "hi");
    const told = (await reader.all()).map(({ event: type }) => type);
    expect(told.filter((type) => type === "model" || type === "retry")).toEqual(["model", "model", "retry"]);
  });
});

it("a client that wants to know is told which model is asked, without losing the status of an early error", async () => {
  const started = await start();
  const request = {
    body: { stream: true, messages: [{ role: "user", content: "hi" }], toolrack: { events: true } },
  };
  first.answer = (outgoing) => outgoing.writeHead(400).end('{"error":{"message":"no"}}');
  expect((await started.fetch("/v1/chat/completions", request)).status).toBe(400);
  first.answer = stream(says("hello"));
  const text = await (await started.fetch("/v1/chat/completions", request)).text();
  expect(text).toMatch(/"toolrack":\{"type":"model","round":1,"provider":"first","model":"big"/);
});

it("separates what a model thinks between tags, where its provider is set so", async () => {
  const started = await start({ reasoning: "tags" });
  second.answer = stream(
    delta({ content: "<thi" }) + delta({ content: "nk>hm</think>\n\nyes" }) + delta({}, "stop"),
  );
  const completion: Json = await started.client().chat.completions.create({
    model: "second/other",
    messages: [{ role: "user", content: "hi" }],
  });
  expect(completion.choices[0].message).toMatchObject({ content: "yes", reasoning_content: "hm" });
});

it("an unknown model is not found", async () => {
  const started = await start();
  const thrown = await started
    .client()
    .chat.completions.create({ model: "unheard-of", messages: [{ role: "user", content: "hi" }] })
    .catch((failure) => failure);
  expect(thrown).toMatchObject({ status: 404, code: "model_not_found" });
  expect((await started.fetch("/v1/models/unheard-of")).status).toBe(404);
  expect((await started.fetch("/v1/models/best")).status).toBe(200);
});

function bound(started: ChatRack) {
  return {
    say: started.say.bind(started),
    session: started.session.bind(started),
    ask: started.ask.bind(started),
  };
}
