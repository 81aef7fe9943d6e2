import { expect, it, vi } from "vitest";
import { ChatRack, called } from "../../chat/testing/chat-rack.fixture.ts";
import { serve } from "../../rack/serve.ts";
import { StreamReader } from "../server.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

it("tells of a turn on another node to its end, and stops it from there", async () => {
  await using rack = await ChatRack.start();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const other = await serve(rack.workspace.directory, { logger, port: 0 });
  const ask = (path: string, options: RequestInit = {}) =>
    fetch(other.url + path, {
      ...options,
      headers: { authorization: `Bearer ${other.token}`, ...options.headers },
    });
  try {
    rack.script((_request, asked) =>
      asked === 0 ? called(["write", { text: "hold" }]) : { content: "All done." },
    );
    const session = await rack.session();
    const path = `/api/chat/sessions/${session}`;
    await rack.stream(session, "go");
    await rack.hold.started("hold");
    expect(await (await ask(path)).json()).toMatchObject({ running: true });
    const reader = new StreamReader(await ask(`${path}/events`));
    const first = await reader.until("message");
    expect(first.data).toMatchObject({ status: "running", parts: [{ name: "write" }] });
    rack.hold.release("hold");
    const events = await reader.all();
    expect(events.map(({ event }) => event)).toEqual(["state", "text", "end"]);
    expect(events.at(-1)?.data.end).toEqual({ reason: "stop" });
    // Of an event of one node, the other knows nothing.
    const again = await new StreamReader(
      await rack.fetch(`${path}/events`, { headers: { "last-event-id": events[0]!.id! } }),
    ).all();
    expect(again.map(({ event }) => event)).toEqual(["message", "end"]);

    rack.script(() => called(["write", { text: "hold on" }]));
    const stopped = await rack.stream(session, "and now");
    await rack.hold.started("hold on");
    expect(await (await ask(`${path}/stop`, { method: "POST" })).json()).toEqual({ stopped: true });
    expect((await stopped.all()).at(-1)?.data.end).toEqual({ reason: "stopped" });
  } finally {
    await other.close();
  }
});

it("answers on one node what waits on the other, and tells who read an older turn of the newest", async () => {
  await using rack = await ChatRack.start();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const other = await serve(rack.workspace.directory, { logger, port: 0 });
  const ask = (path: string, body: unknown) =>
    fetch(other.url + path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { authorization: `Bearer ${other.token}`, "content-type": "application/json" },
    });
  try {
    rack.script((_request, asked) =>
      asked === 0 ? called(["wipe", { what: "all" }]) : { content: "All done." },
    );
    const session = await rack.session();
    const path = `/api/chat/sessions/${session}`;
    const reader = await rack.stream(session, "go");
    const { data } = await reader.until("approval");
    const answered = await ask(`/api/approvals/${data.approval.id}`, { decision: "allow" });
    expect(answered.status).toBe(200);
    expect(await answered.json()).toMatchObject({ state: "allowed" });
    const events = await reader.all();
    const approvals = events.filter(({ event }) => event === "approval").map((event) => event.data.approval);
    expect(approvals).toMatchObject([{ id: data.approval.id, state: "allowed" }]);
    expect(events.at(-1)?.data.end).toEqual({ reason: "stop" });
    expect(rack.ran).toHaveLength(1);
    const again = await ask(`/api/approvals/${data.approval.id}`, { decision: "deny" });
    expect(await again.json()).toMatchObject({ error: { code: "approval_decided" } });

    const headers = { "last-event-id": events.at(-1)!.id! };
    expect((await rack.fetch(`${path}/events`, { headers })).status).toBe(204);
    rack.script(() => ({ content: "From the other node." }));
    expect((await ask(`${path}/messages`, { content: "and now?" })).status).toBe(200);
    const newest = await new StreamReader(await rack.fetch(`${path}/events`, { headers })).all();
    expect(newest.map(({ event }) => event)).toEqual(["message", "end"]);
    expect(newest[0]?.data.parts.at(-1).text).toBe("From the other node.");
  } finally {
    await other.close();
  }
});

it("carries the trace of a message on to the provider", async () => {
  await using rack = await ChatRack.start();
  rack.script(() => ({ content: "hello" }));
  const session = await rack.session();
  const headers = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", baggage: "a=b" };
  await rack.ask(`/api/chat/sessions/${session}/messages`, { body: { content: "hi" }, headers });
  expect(rack.mock.getRequests()[0]?.headers).toMatchObject(headers);
});
