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

  it("tells admins of skills, experts and switches, and nobody else", async () => {
    const [events, others] = [await open(), await open({}, await server.issue({ tools: ["*"] }))];
    await Promise.all([events.until("ready"), others.until("ready")]);
    const post = (path: string, body: unknown) => server.ask(path, { method: "POST", body });
    const { body: skill } = await post("/api/skills", { name: "Watched" });
    expect((await events.until("skill.changed")).data).toMatchObject({
      id: skill.id,
      name: "Watched",
      toolCount: 0,
    });
    await server.ask(`/api/skills/${skill.id}`, { method: "PATCH", body: { instructions: "# New" } });
    expect((await events.until("skill.changed")).data.id).toBe(skill.id);
    const { body: expert } = await post("/api/experts", { name: "watcher", skills: [skill.id] });
    expect((await events.until("expert.changed")).data).toEqual({ id: expert.id, name: "watcher" });
    await server.ask(`/api/experts/${expert.id}`, { method: "PATCH", body: { description: "Sees." } });
    expect((await events.until("expert.changed")).data.id).toBe(expert.id);
    await server.ask(`/api/experts/${expert.id}`, { method: "DELETE" });
    expect((await events.until("expert.removed")).data).toEqual({ id: expert.id });
    await server.ask(`/api/skills/${skill.id}`, { method: "DELETE" });
    expect((await events.until("skill.removed")).data).toEqual({ id: skill.id });
    const { body: switched } = await server.ask("/api/tools", {
      method: "PATCH",
      body: { names: ["fail", "add", "nobody"], enabled: false },
    });
    expect(switched).toEqual({ changed: ["fail", "add"], missing: ["nobody"] });
    expect((await events.until("tool.switched")).data).toMatchObject({ toolName: "fail", enabled: false });
    expect((await events.until("tool.switched")).data).toMatchObject({ toolName: "add", enabled: false });
    const back = { names: switched.changed, enabled: true };
    await server.ask("/api/tools", { method: "PATCH", body: back });
    expect((await server.ask("/api/tools/add")).body.status).toBe("ok");
    for (let event = await others.next(); event !== undefined; event = await others.next()) {
      expect(event.event).toBe("tools.changed");
      if (event.data.version === server.app.registry.snapshot().version) break;
    }
    await Promise.all([events.cancel(), others.cancel()]);
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

  it("ends the stream of a token at once when it is taken back, and when it expires", async () => {
    // No heartbeat comes to the help.
    await using quiet = await TestServer.start({ tools: sampleTools().tools, heartbeat: 3_600_000 });
    const stream = async (token: string) => {
      const reader = new StreamReader(await quiet.fetch("/api/events", { token }));
      await reader.until("ready");
      return reader;
    };
    const [kept, expiring] = [
      await quiet.issue({ tools: ["*"] }),
      await quiet.issue({ tools: ["*"] }, { expiresAt: Date.now() + 3_000 }),
    ];
    const made = await quiet.ask("/api/tokens", {
      method: "POST",
      body: { name: "gone", scopes: { admin: true } },
    });
    const [staying, revoked, ending] = [
      await stream(kept),
      await stream(made.body.token),
      await stream(expiring),
    ];
    await quiet.ask(`/api/tokens/${made.body.id}`, { method: "DELETE" });
    await quiet.call("add", { a: 1 }, { callId: "after" });
    await quiet.call("add", { a: 1 }, { callId: "own" }, { token: kept });
    expect(await revoked.next()).toBeUndefined();
    expect(await ending.next()).toBeUndefined();
    expect((await staying.until("call.completed")).data.callId).toBe("own");
    await staying.cancel();
  });

  it("ends the stream of a token that was taken back", async () => {
    const token = await server.issue({ tools: ["add"], admin: true }, { expiresAt: Date.now() + 2_000 });
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
  }, 60_000);
});
