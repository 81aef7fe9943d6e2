import { afterAll, beforeAll, expect, it } from "vitest";
import { sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ tools: sampleTools().tools });
});
afterAll(() => server[Symbol.asyncDispose]());

const make = (body: object) => server.ask("/api/tokens", { method: "POST", body });

it("makes a token that works within its scopes, and shows its text only once", async () => {
  const expiresAt = Date.now() + 60_000;
  const { status, body } = await make({ name: "agent", scopes: { tools: ["add"] }, expiresAt });
  expect(status).toBe(200);
  const { token, ...rest } = body;
  expect(rest).toEqual({
    id: expect.any(String),
    name: "agent",
    scopes: { tools: ["add"] },
    createdAt: expect.any(Number),
    expiresAt,
  });
  expect((await server.call("add", { a: 1 }, {}, { token })).status).toBe(200);
  expect((await server.call("fail", {}, {}, { token })).status).toBe(404);

  const list = await server.fetch("/api/tokens");
  const text = await list.text();
  expect(text).not.toContain(token);
  expect(JSON.parse(text).items).toContainEqual({ ...rest, lastUsedAt: expect.any(Number) });
});

it("takes a token back at once, also one that was just used", async () => {
  const { body } = await make({ name: "gone", scopes: { admin: true } });
  const { id, token } = body;
  expect((await server.ask("/api/tokens", { token })).status).toBe(200);
  expect((await server.ask(`/api/tokens/${id}`, { method: "DELETE" })).body).toEqual({ id });
  expect((await server.ask("/api/tokens", { token })).status).toBe(401);
  const again = await server.ask(`/api/tokens/${id}`, { method: "DELETE" });
  expect([again.status, again.body.error.code]).toEqual([404, "token_not_found"]);
});

it("refuses what could not be used", async () => {
  const wrong = [
    { name: " ", scopes: {} },
    { name: "x".repeat(101), scopes: {} },
    { name: "x" },
    { name: "x", scopes: { everything: true } },
    { name: "x", scopes: { tools: "add" } },
    { name: "x", scopes: {}, expiresAt: Date.now() - 1 },
    { name: "x", scopes: {}, expiresAt: "tomorrow" },
  ];
  for (const body of wrong) {
    const answer = await make(body);
    expect([body, answer.status, answer.body.error.code]).toEqual([body, 400, "invalid_request"]);
  }
});
