import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";
import { StreamReader } from "../server.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start();
});
afterAll(() => rack[Symbol.asyncDispose]());

describe("a reader of events", () => {
  it("that has read the end is told that there is nothing more", async () => {
    rack.script(() => ({ content: "hello" }));
    const session = await rack.session();
    const path = `/api/chat/sessions/${session}/events`;
    const last = (await (await rack.stream(session, "hi")).all()).at(-1)!;
    expect(last.event).toBe("end");
    expect((await rack.fetch(path, { headers: { "last-event-id": last.id! } })).status).toBe(204);
    // The same where the message is all that is left.
    const again = await new StreamReader(await rack.fetch(path)).all();
    expect(again.map(({ event }) => event)).toEqual(["message", "end"]);
    const ids = { "last-event-id": again.at(-1)!.id! };
    expect((await rack.fetch(path, { headers: ids })).status).toBe(204);
    // Another turn is another matter.
    await rack.say(session, "and?");
    const more = await new StreamReader(await rack.fetch(path, { headers: ids })).all();
    expect(more.map(({ event }) => event)).toEqual(["message", "end"]);
  });
});

describe("a token for one expert only", () => {
  it("talks as that expert", async () => {
    const { name } = await rack.ask("/api/experts", {
      body: { name: "Adder", instructions: "You add.", tools: ["add"] },
    });
    const token = await rack.issue({ experts: [name] });
    const { tools } = await rack.ask("/api/chat/tools", { token });
    expect(tools.map((tool: { name: string }) => tool.name)).toContain("add");
    const session = await rack.ask("/api/chat/sessions", { body: {}, token });
    expect(session.expert).toBe(name);
    rack.script(() => ({ content: "3" }));
    await rack.ask(`/api/chat/sessions/${session.id}/messages`, { body: { content: "1 + 2?" }, token });
    const request = rack.requests.at(-1);
    expect(request.messages[0]).toMatchObject({
      role: "system",
      content: expect.stringContaining("You add."),
    });
    expect(request.tools.map((tool: { function: { name: string } }) => tool.function.name)).toContain("add");
  });
});

describe("a conversation of another token", () => {
  it("is an admin's to read, stop and delete, and nobody's to speak in", async () => {
    const token = await rack.issue({ tools: ["add"] });
    const { id } = await rack.ask("/api/chat/sessions", { body: {}, token });
    rack.script(() => called(["write", { text: "beyond the token's reach" }]));
    const before = rack.requests.length;
    const refused = await rack.say(id, "write something");
    expect(refused).toMatchObject({ status: 403, error: { code: "chat_forbidden" } });
    expect(rack.requests).toHaveLength(before);
    expect((await rack.ask(`/api/chat/sessions/${id}`)).messages).toEqual([]);
    expect((await rack.ask(`/api/chat/sessions/${id}/stop`, { method: "POST" })).stopped).toBe(false);
    expect((await rack.ask(`/api/chat/sessions/${id}`, { method: "DELETE" })).status).toBe(200);
  });
});

describe("the messages of a conversation", () => {
  it("are read in pages, the last first", async () => {
    rack.script((_request, asked) => ({ content: `answer ${asked}` }));
    const session = await rack.session();
    const path = `/api/chat/sessions/${session}`;
    for (const word of ["one", "two", "three"]) await rack.say(session, word);
    const page = await rack.ask(`${path}?limit=4`);
    expect(page.messages.map(({ position }: { position: number }) => position)).toEqual([3, 4, 5, 6]);
    const older = await rack.ask(`${path}?limit=4&before=${page.previous}`);
    expect(older.messages.map(({ position }: { position: number }) => position)).toEqual([1, 2]);
    expect(older.previous).toBeUndefined();
    expect((await rack.ask(path)).messages).toHaveLength(6);
    expect((await rack.fetch(`${path}?before=x`)).status).toBe(400);
  });

  it("can be read and gone on with although one of them is huge", async () => {
    rack.script(() => ({ content: "hello" }));
    const session = await rack.session();
    const path = `/api/chat/sessions/${session}`;
    const { id } = await rack.say(session, "one");
    const parts = [{ type: "text", round: 1, text: "x".repeat(101_000_000) }];
    const { chat } = rack.serving.store;
    await chat.saveMessage(id, { status: "completed", body: { model: "model-a", parts } });
    const { messages } = await rack.ask(path);
    expect(messages).toHaveLength(2);
    expect(messages[1]).toMatchObject({ unread: expect.any(Number), parts: [{ type: "text" }] });
    expect(messages[1].parts[0].text).toMatch(/^\[.*too large.*\]$/);
    expect((await rack.say(session, "and?")).parts[0].text).toBe("hello");
    expect(JSON.stringify(rack.requests.at(-1)).length).toBeLessThan(100_000);
  });

  it("are sent only as many at a time as fit into some megabytes", async () => {
    rack.script(() => ({ content: "hello" }));
    const session = await rack.session();
    const { chat } = rack.serving.store;
    const answers = [];
    for (const word of ["one", "two", "three"]) answers.push(await rack.say(session, word));
    for (const { id } of answers) {
      const parts = [{ type: "text", round: 1, text: "x".repeat(1_900_000) }];
      await chat.saveMessage(id, { status: "completed", body: { model: "model-a", parts } });
    }
    const { messages, previous } = await rack.ask(`/api/chat/sessions/${session}`);
    expect(messages.map(({ position }: { position: number }) => position)).toEqual([3, 4, 5, 6]);
    expect(previous).toBe(3);
  });
});

it("text is kept while it streams, so that no end of the process loses it", async () => {
  const finish = Promise.withResolvers<void>();
  const upstream = createServer(async (_request, response) => {
    const delta = (content: string) =>
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`);
    response.writeHead(200, { "content-type": "text/event-stream" });
    delta("what people have seen");
    await finish.promise;
    delta(", and the rest");
    response.end(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`);
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const baseURL = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`;
  try {
    await using own = await ChatRack.start({ provider: { baseURL } });
    const session = await own.session();
    const reader = await own.stream(session, "go");
    const stored = async () => (await own.serving.store.chat.listMessages(session)).at(-1)?.body.parts;
    await expect.poll(stored, { timeout: 20_000 }).toMatchObject([{ text: "what people have seen" }]);
    finish.resolve();
    expect((await reader.all()).at(-1)?.data.end).toEqual({ reason: "stop" });
    expect(await stored()).toMatchObject([{ text: "what people have seen, and the rest" }]);
  } finally {
    finish.resolve();
    upstream.closeAllConnections();
    upstream.close();
  }
});
