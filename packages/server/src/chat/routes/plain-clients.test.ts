import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { APIError } from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { answersIn, ChatRack, called } from "../testing/chat-rack.fixture.ts";
import { waitForPerson } from "./served-run.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let rack: ChatRack;
beforeAll(async () => {
  rack = await ChatRack.start({ chat: { maxRounds: 3 } });
});
afterAll(() => rack[Symbol.asyncDispose]());

const path = "/v1/chat/completions";
const said = (content: string) => ({ model: "model-a", messages: [{ role: "user", content }] });

describe("an error", () => {
  it("has a type, the member that is wrong, and an id of the request", async () => {
    const refused = async (promise: Promise<unknown>) => {
      const error = await promise.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(APIError);
      const { status, type, param, requestID } = error as APIError;
      expect(requestID).toMatch(/^req_[0-9a-f-]{36}$/);
      return [status, type, param];
    };
    const { completions } = rack.client().chat;
    const messages = [{ role: "user", content: "hi" }] as const;
    const create = (more: object) =>
      completions.create({ model: "model-a", messages: [...messages], ...more });
    expect(await refused(create({ n: 2 }))).toEqual([400, "invalid_request_error", "n"]);
    expect(await refused(create({ model: "no-such" }))).toEqual([404, "invalid_request_error", "model"]);
    const broken = create({ messages: [{ role: "user", content: 5 }] });
    expect(await refused(broken)).toEqual([400, "invalid_request_error", "messages[0].content"]);
    const unknown = rack.client("trk_nobody").models.list();
    expect(await refused(unknown)).toEqual([401, "authentication_error", null]);
    const tools = await rack.issue({ tools: ["add"], chat: false });
    expect(await refused(rack.client(tools).models.list())).toEqual([403, "permission_error", null]);
  });

  it("comes under another id each time, as does every answer", async () => {
    rack.script(() => ({ content: "hi" }));
    const ids = [
      await rack.fetch("/v1/models"),
      await rack.fetch(path, { body: said("an id") }),
      await rack.fetch(path, { body: { ...said("an id"), stream: true } }),
      await rack.fetch("/v1/models/none"),
      await rack.fetch("/api/none"),
    ].map(({ headers }) => headers.get("x-request-id"));
    expect(new Set(ids).size).toBe(5);
    expect(ids).not.toContain(null);
  });
});

it("a token that may not chat is refused everywhere, before anything else is looked at", async () => {
  const token = await rack.issue({ tools: ["add"], chat: false });
  const id = await rack.session();
  const routes: [path: string, method: string, body?: unknown][] = [
    ["/v1/models", "GET"],
    ["/v1/models/model-a", "GET"],
    [path, "POST", { nonsense: true }],
    ["/api/chat", "GET"],
    ["/api/chat/tools", "GET"],
    ["/api/chat/sessions", "GET"],
    ["/api/chat/sessions", "POST", { nonsense: true }],
    [`/api/chat/sessions/${id}`, "GET"],
    [`/api/chat/sessions/${id}`, "PATCH", {}],
    [`/api/chat/sessions/${id}`, "DELETE"],
    [`/api/chat/sessions/${id}/messages`, "POST", { nonsense: true }],
    [`/api/chat/sessions/${id}/events`, "GET"],
    [`/api/chat/sessions/${id}/stop`, "POST", {}],
    // Whether there is such a route is told to nobody else either.
    ["/v1", "GET"],
    ["/v1/no-such", "POST", {}],
    ["/v%31/no-such", "GET"],
    ["/v1/models/a/b/c", "GET"],
    [path, "DELETE"],
    ["/api/chat/no-such", "GET"],
    [`/api/chat/sessions/${id}/no-such`, "PUT", {}],
  ];
  for (const [at, method, body] of routes) {
    const { status, error } = await rack.ask(at, { method, body, token });
    expect([at, status, error.code]).toEqual([at, 403, "chat_forbidden"]);
  }
  expect((await rack.ask("/v1/no-such")).status).toBe(404);
  expect((await rack.ask("/api/no-such", { token })).status).toBe(404);
  expect((await rack.ask("/api/tools", { method: "PUT", token })).status).toBe(405);
});

describe("while a person is asked", () => {
  const asks = () =>
    rack.script((request) =>
      answersIn(request).length === 0
        ? { content: "I will.", toolCalls: [{ name: "wipe", arguments: '{"what":"all"}' }] }
        : { content: "It is done." },
    );
  const question = async () => {
    const open = async () => (await rack.ask("/api/approvals?state=pending")).items;
    await expect.poll(open, { timeout: 30_000 }).toHaveLength(1);
    return (await open())[0].id;
  };
  const agree = (id: string, more: object = {}) =>
    rack.ask(`/api/approvals/${id}`, { body: { decision: "allow", ...more } });

  it("a client that streams reads where the question is", async () => {
    asks();
    const stream = await rack.client().chat.completions.create({
      model: "model-a",
      messages: [{ role: "user", content: "wipe, streamed" }],
      stream: true,
    });
    let text = "";
    for await (const { choices } of stream) {
      text += choices[0]?.delta.content ?? "";
      const id = /POST \/api\/approvals\/(\w+)\.\]$/.exec(text)?.[1];
      if (id !== undefined) await agree(id);
    }
    expect(text).toMatch(/^I will\.\n\n\[A person has to approve the call of wipe: .*\.\]\n\nIt is done\.$/);
  });

  it("a client that expects JSON reads it beside the answer", async () => {
    asks();
    const body = { ...said("wipe, as JSON"), stream: true, response_format: { type: "json_object" } };
    const answer = rack.fetch(path, { body });
    await agree(await question());
    const text = await (await answer).text();
    expect(text).toMatch(/^: A person has to approve/m);
    expect(text).not.toMatch(/^data: .*A person/m);
  });

  it("a client that does not stream is kept waiting, and finds the question in a header", async () => {
    asks();
    const response = await rack.fetch(path, { body: said("wipe, whole") });
    expect(response.status).toBe(200);
    await agree(response.headers.get("x-toolrack-approval") ?? "");
    const text = await response.text();
    expect(text).toMatch(/^\n+\{/);
    expect(JSON.parse(text).choices[0]).toMatchObject({
      message: { content: "I will.\n\nIt is done." },
      finish_reason: "stop",
    });
  });

  it("it reads white space until the answer is there", async () => {
    const approval = { id: "a1", callId: "c1", toolName: "wipe", displayName: "", input: {} } as const;
    const asked = { ...approval, message: "", state: "pending", expiresAt: 0, reason: "" } as const;
    let timer: NodeJS.Timeout | undefined;
    const server = createServer((_incoming, outgoing) => {
      timer = waitForPerson({ type: "approval", approval: asked }, outgoing, 5);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    // A server that listens on a port has such an address.
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    let text = "";
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (text.length >= 3) break;
    }
    expect(text).toMatch(/^\n+$/);
    clearInterval(timer);
    server.closeAllConnections();
    server.close();
  });

  it("and fails then, the answer says so, since its status is sent", async () => {
    rack.script((request) =>
      answersIn(request).length === 0
        ? called(["wipe", { what: "all" }])
        : { error: { message: "down" }, status: 402 },
    );
    const response = await rack.fetch(path, { body: said("wipe, denied") });
    const id = response.headers.get("x-toolrack-approval");
    await rack.ask(`/api/approvals/${id}`, { body: { decision: "deny" } });
    const answer: unknown = await response.json();
    expect(answer).toMatchObject({
      choices: [{ message: { content: expect.stringMatching(/^\[.*down\]$/) }, finish_reason: "length" }],
      toolrack: { error: { code: "provider_refused" } },
    });
  });

  it("the event shows the arguments as they were changed", async () => {
    asks();
    const response = await rack.fetch(path, {
      body: { ...said("wipe, edited"), stream: true, toolrack: { events: true } },
    });
    await agree(await question(), { arguments: { what: "nothing" } });
    const approvals = [...(await response.text()).matchAll(/^data: (\{.*)$/gm)]
      .map(([, json]) => JSON.parse(json!).toolrack)
      .filter((event) => event?.type === "approval")
      .map(({ approval }) => [approval.state, approval.input, approval.arguments]);
    expect(approvals).toEqual([
      ["pending", { what: "all" }, undefined],
      ["allowed", { what: "all" }, { what: "nothing" }],
    ]);
    expect(rack.ran.at(-1)).toEqual({ name: "wipe", input: { what: "nothing" } });
  });
});

it("an answer that a limit cut says so by its finish reason", async () => {
  rack.script((_request, asked) => called(["add", { a: asked, b: 1 }]));
  const whole = await rack.ask(path, { body: said("endless") });
  expect(whole.choices[0]).toMatchObject({
    finish_reason: "length",
    message: { content: expect.stringContaining("chat.maxRounds") },
  });
  const streamed = await rack.fetch(path, { body: { ...said("endless"), stream: true } });
  expect(await streamed.text()).toContain('"finish_reason":"length"');
});
