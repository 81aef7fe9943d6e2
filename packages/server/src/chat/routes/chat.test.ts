import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ApprovalInbox } from "../../calls/approvals/inbox.ts";
import { openCalls } from "../../calls/call-service.ts";
import { StreamReader, sampleTools, TestServer } from "../../http/server.fixture.ts";
import { openChat } from "../../rack/open-chat.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const mock = new LLMock({ port: 0 });
let server: TestServer;
beforeAll(async () => {
  await mock.start();
  mock.on({ predicate: ({ messages }) => messages.at(-1)?.role === "tool" }, { content: "It is 3." });
  mock.on({ predicate: () => true }, { toolCalls: [{ name: "add", arguments: '{"a":1,"b":2}' }] });
  const providers = { scripted: { baseURL: `${mock.url}/v1`, models: ["model-a"] } };
  server = await TestServer.start({
    tools: sampleTools().tools,
    files: { "toolrack.config.js": `export default ${JSON.stringify({ builtins: false, providers })};` },
    async prepare(app, store) {
      const logger = { debug() {}, info() {}, warn() {}, error() {} };
      const approvals = await ApprovalInbox.open({ store, logger });
      const calls = openCalls({
        book: app.book,
        store,
        logger,
      });
      return { approvals, calls, chat: await openChat({ app, store, approvals, calls, logger }) };
    },
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await mock.stop();
});

const json = (method: string, body?: unknown) => ({ method, ...(body === undefined ? {} : { body }) });

describe("every answer about conversations is as it is described", () => {
  it("from their beginning to their end", async () => {
    expect((await server.ask("/api/chat")).body).toMatchObject({
      configured: true,
      limits: { maxRounds: 50 },
      experts: [],
    });
    expect((await server.ask("/v1/models")).body.data).toHaveLength(1);
    expect((await server.ask("/api/chat/tools")).body.tools).toContainEqual({
      name: "add",
      tokens: expect.any(Number),
      offered: true,
    });
    const { body: session } = await server.ask("/api/chat/sessions", json("POST", { system: "Be brief." }));
    expect(session).toMatchObject({ title: "", system: "Be brief.", running: false, owner: "master" });
    const path = `/api/chat/sessions/${session.id}`;
    const { body: answer } = await server.ask(`${path}/messages`, json("POST", { content: "1 + 2?" }));
    expect(answer.parts.at(-1)).toEqual({ type: "text", round: 2, text: "It is 3." });
    const renamed = await server.ask(path, json("PATCH", { title: "Sums" }));
    expect(renamed.body).toMatchObject({ title: "Sums", system: "Be brief." });
    expect((await server.ask(path)).body.messages).toHaveLength(2);
    expect((await server.ask("/api/chat/sessions")).body.items).toHaveLength(1);
    expect((await server.ask(`${path}/stop`, json("POST"))).body).toEqual({ stopped: false });
    expect((await server.ask(path, json("DELETE"))).body).toEqual({ id: session.id });
    expect((await server.ask(path)).status).toBe(404);
  });

  it("and what is wrong with a request is said", async () => {
    const { body: session } = await server.ask("/api/chat/sessions", json("POST", {}));
    const path = `/api/chat/sessions/${session.id}`;
    for (const body of [{}, { content: "" }, { content: [] }, { content: "x", more: 1 }]) {
      expect((await server.ask(`${path}/messages`, json("POST", body))).status).toBe(400);
    }
    const unknown = await server.ask(`${path}/messages`, json("POST", { content: "x", model: "no-such" }));
    expect(unknown).toMatchObject({ status: 404, body: { error: { code: "model_not_found" } } });
    expect((await server.ask("/api/chat/sessions", json("POST", { expert: "nobody" }))).status).toBe(404);
    expect((await server.ask("/api/chat/sessions?cursor=x")).status).toBe(400);
    expect((await server.fetch(`${path}/events`, json("HEAD"))).status).toBe(405);
    expect((await server.fetch(path, { token: null })).status).toBe(401);
  });

  it("and a message that is sent anew takes the place of all that followed", async () => {
    const { body: session } = await server.ask("/api/chat/sessions", json("POST", {}));
    const path = `/api/chat/sessions/${session.id}`;
    const say = (body: object) => server.ask(`${path}/messages`, json("POST", body));
    await say({ content: "first" });
    await say({ content: "second" });
    const { body: answer } = await say({ content: "second, changed", from: 3 });
    expect(answer.position).toBe(4);
    const { messages } = (await server.ask(path)).body;
    const said = messages.flatMap(({ content }: { content?: string }) => content ?? []);
    expect(said).toEqual(["first", "second, changed"]);
    expect(messages.map(({ position }: { position: number }) => position)).toEqual([1, 2, 3, 4]);
    expect((await say({ content: "x", from: 0 })).status).toBe(400);
  });

  it("takes text and images from people", async () => {
    const { body: session } = await server.ask("/api/chat/sessions", json("POST", {}));
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
    ];
    const response = await server.fetch(`/api/chat/sessions/${session.id}/messages`, {
      ...json("POST", { content }),
      headers: { accept: "text/event-stream" },
    });
    const events = await new StreamReader(response).all();
    expect(events.map(({ event }) => event)).toEqual(
      expect.arrayContaining(["turn", "call", "state", "text", "usage", "end"]),
    );
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    const [request] = mock.getRequests().slice(-1);
    expect(request?.body).toMatchObject({ messages: [{ role: "user", content }, {}, {}] });
  });
});
