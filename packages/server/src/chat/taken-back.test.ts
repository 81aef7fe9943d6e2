import { expect, it, vi } from "vitest";
import { StreamReader } from "../http/server.fixture.ts";
import { ChatRack, called } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

async function begin(rack: ChatRack, token: string, content: string) {
  const { id: session } = await rack.ask("/api/chat/sessions", { body: {}, token });
  const response = await rack.fetch(`/api/chat/sessions/${session}/messages`, {
    body: { content },
    headers: { accept: "text/event-stream" },
    token,
  });
  return { session, reader: new StreamReader(response) };
}

const idOf = async (rack: ChatRack) => (await rack.ask("/api/tokens")).items.at(-1).id;

it("a token that is taken back ends its turns: nothing more is called or asked", async () => {
  await using rack = await ChatRack.start();
  const token = await rack.issue({ tools: ["*"] });
  rack.script(() => called(["wipe", { what: "all" }]));
  const { session, reader } = await begin(rack, token, "go");
  const { data } = await reader.until("approval");
  expect((await rack.ask(`/api/tokens/${await idOf(rack)}`, { method: "DELETE" })).status).toBe(200);
  const { end } = (await reader.all()).at(-1)!.data;
  expect(end).toMatchObject({ reason: "stopped", message: expect.stringContaining("token") });
  expect((await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } })).status).toBe(
    409,
  );
  expect(rack.ran).toEqual([]);
  expect(rack.requests).toHaveLength(1);
  const { messages } = await rack.ask(`/api/chat/sessions/${session}`);
  expect(messages.at(-1)).toMatchObject({ status: "stopped", end });
});

it("a token that is taken back on another node, or that expires, ends them a moment later", async () => {
  await using rack = await ChatRack.start();
  rack.script((request) => called(["write", { text: `hold ${String(request.messages.at(-1)?.content)}` }]));
  const { tokens } = rack.serving.store;
  const gone = await begin(rack, await rack.issue({ tools: ["*"] }), "one");
  await rack.hold.started("hold one");
  await tokens.remove(await idOf(rack));
  expect((await gone.reader.all()).at(-1)!.data.end.reason).toBe("stopped");
  const { token } = await rack.ask("/api/tokens", {
    body: { name: "short", scopes: { tools: ["*"] }, expiresAt: Date.now() + 2_000 },
  });
  const expired = await begin(rack, token, "two");
  await rack.hold.started("hold two");
  expect((await expired.reader.all()).at(-1)!.data.end).toMatchObject({
    reason: "stopped",
    message: expect.stringContaining("expired"),
  });
  expect(rack.hold.aborted).toEqual(["hold one", "hold two"]);
  expect(rack.requests).toHaveLength(2);
});

it("a token that is taken back ends its completions", async () => {
  await using rack = await ChatRack.start();
  const token = await rack.issue({ tools: ["*"] });
  rack.script(() => called(["write", { text: "hold it" }]));
  const asked = rack.ask("/v1/chat/completions", {
    body: { messages: [{ role: "user", content: "go" }] },
    token,
  });
  await rack.hold.started("hold it");
  await rack.ask(`/api/tokens/${await idOf(rack)}`, { method: "DELETE" });
  expect(await asked).toMatchObject({ status: 401, error: { code: "unauthorized" } });
  expect(rack.hold.aborted).toEqual(["hold it"]);
  expect(rack.requests).toHaveLength(1);
});
