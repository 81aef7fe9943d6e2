import { get, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Hold, StreamReader, sampleTools, TestServer } from "../server.fixture.ts";

let server: TestServer;
let hold: Hold;

beforeAll(async () => {
  const sample = sampleTools();
  hold = sample.hold;
  server = await TestServer.start({ tools: sample.tools, heartbeat: 60, feedSize: 300 });
});
afterAll(() => server[Symbol.asyncDispose]());

async function open(headers: Record<string, string> = {}, token?: string): Promise<StreamReader> {
  const response = await server.fetch("/api/events", { headers, ...(token === undefined ? {} : { token }) });
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  return new StreamReader(response);
}

describe("GET /api/events", () => {
  it("tells the life of a call in order, with ids that grow", async () => {
    const events = await open();
    await events.until("ready");
    hold.release("live");
    await server.call("wait", { id: "live" }, { callId: "live" });
    const names: string[] = [];
    const numbers: number[] = [];
    for (let event = await events.next(); event !== undefined; event = await events.next()) {
      names.push(event.event);
      numbers.push(Number(event.id!.split("-")[1]));
      expect(event.data.callId).toBe("live");
      if (event.event === "call.completed") break;
    }
    expect(names).toEqual(["call.queued", "call.started", "call.progress", "call.completed"]);
    expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index));
    await events.cancel();
  });

  it("names failures, cancellations, loops and changes of the rack", async () => {
    const events = await open();
    await events.until("ready");
    await server.call("fail");
    expect((await events.until("call.failed")).data.error).toMatchObject({ code: "execution_failed" });
    const asked = server.call("wait", { id: "gone" }, { callId: "gone" });
    await hold.started("gone");
    await server.ask("/api/calls/gone", { method: "DELETE" });
    await asked;
    await events.until("call.cancelled");
    await server.ask("/api/tools/fail", { method: "PATCH", body: { enabled: false } });
    expect((await events.until("tools.changed")).data.version).toBeGreaterThan(0);
    await server.ask("/api/tools/fail", { method: "PATCH", body: { enabled: true } });
    for (let round = 0; round < 8; round++) await server.call("add", { a: 9 }, { sessionID: "loop" });
    expect((await events.until("loop.detected")).data).toMatchObject({ sessionID: "loop" });
    await events.cancel();
  });

  it("goes on where a reader left off", async () => {
    const first = await open();
    await first.until("ready");
    await server.call("add", { a: 1 }, { callId: "before" });
    const seen = await first.until("call.completed");
    await first.cancel();
    await server.call("add", { a: 1 }, { callId: "missed" });
    const second = await open({ "last-event-id": seen.id! });
    expect((await second.next())!.data.callId).toBe("missed");
    expect((await second.until("call.completed")).data.callId).toBe("missed");
    await second.cancel();
    const third = new StreamReader(await server.fetch(`/api/events?since=${seen.id}`));
    expect((await third.next())!.data.callId).toBe("missed");
    await third.cancel();
  });

  it("tells a reader to start anew when what it missed is not known any more", async () => {
    const first = await open();
    const { id } = await first.until("ready");
    await first.cancel();
    for (let round = 0; round < 110; round++) await server.app.registry.execute("add", { a: 1 });
    for (const stale of [id!, "another-process-5", "zzz-1", "5"]) {
      const events = await open({ "last-event-id": stale });
      const event = await events.next();
      expect(event!.event).toBe("reset");
      expect(event!.id).toMatch(/-\d+$/);
      await events.cancel();
    }
  });

  it("shows that it lives while nothing happens", async () => {
    const events = await open();
    await events.until("ready");
    setTimeout(() => void server.call("add", { a: 1 }), 200);
    await events.until("call.completed");
    expect(events.comments).toBeGreaterThanOrEqual(2);
    await events.cancel();
  });

  it("takes the token from the URL, which no other path does", async () => {
    const response = await server.fetch(`/api/events?token=${server.server.token}`, { token: null });
    expect(response.status).toBe(200);
    await response.body!.cancel();
    expect((await server.fetch(`/api/tools?token=${server.server.token}`, { token: null })).status).toBe(401);
    expect((await server.fetch("/api/events?token=wrong", { token: null })).status).toBe(401);
  });

  it("tells a token without admin rights of its own calls only", async () => {
    const token = await server.issue({ tools: ["add"] });
    const events = await open({}, token);
    await events.until("ready");
    await server.call("add", { a: 1 }, { callId: "others" });
    await server.call("add", { a: 1 }, { callId: "own" }, { token });
    const event = await events.next();
    expect(event!.data.callId).toBe("own");
    await events.cancel();
  });

  it("ends the stream of a token that was taken back", async () => {
    const token = await server.issue({ tools: ["add"], admin: true }, { expiresAt: Date.now() + 150 });
    const events = await open({}, token);
    await events.until("ready");
    expect(await events.next()).toBeUndefined();
  });

  it("has no HEAD", async () => {
    const response = await server.fetch("/api/events", { method: "HEAD" });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET"]);
  });
});

describe("many readers", () => {
  it("serves a few hundred readers, each every event", async () => {
    const headers = { authorization: `Bearer ${server.server.token}` };
    const readers = await Promise.all(
      Array.from(
        { length: 300 },
        () =>
          new Promise<IncomingMessage>((resolve, reject) => {
            get(`${server.server.url}/api/events`, { headers, agent: false }, resolve).on("error", reject);
          }),
      ),
    );
    const finished = readers.map(
      (reader) =>
        new Promise<void>((resolve) => {
          let text = "";
          reader.on("data", (chunk) => {
            text += chunk;
            if (text.includes('"callId":"crowd-19"') && text.includes("event: call.completed")) resolve();
          });
        }),
    );
    for (let round = 0; round < 20; round++)
      await server.call("add", { a: round }, { callId: `crowd-${round}` });
    await Promise.all(finished);
    for (const reader of readers) reader.destroy();
    const text = async () => (await server.fetch("/metrics")).text();
    await expect.poll(text).toMatch(/^toolrack_event_readers 0$/m);
  });
});
