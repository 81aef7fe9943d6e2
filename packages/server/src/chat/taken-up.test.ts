import { describe, expect, it } from "vitest";
import { StreamReader } from "../http/server.fixture.ts";
import { answersIn, ChatRack, called } from "./testing/chat-rack.fixture.ts";

const ended = (rack: ChatRack, session: string) =>
  expect.poll(async () => (await rack.ask(`/api/chat/sessions/${session}`)).messages.at(-1), {
    timeout: 20_000,
  });

/** A model that asks for a dangerous call, then says what it was told. */
function wipesThenTells(rack: ChatRack): void {
  rack.script((request) =>
    answersIn(request).length === 0
      ? called(["wipe", { what: "all" }])
      : { content: `told: ${answersIn(request).at(-1).content}` },
  );
}

async function restart(rack: ChatRack): Promise<void> {
  await rack.serving.close();
  await rack.open();
}

describe("a turn that is taken up after a restart", { timeout: 60_000 }, () => {
  it("finds its question, however many came after it", async () => {
    await using rack = await ChatRack.start();
    wipesThenTells(rack);
    const session = await rack.session();
    const { data } = await (await rack.stream(session, "go")).until("approval");
    const { approvals } = rack.serving.store;
    const { id, ...request } = (await approvals.get(data.approval.id))!;
    for (let at = 0; at < 510; at++) {
      await approvals.add(`later${at}`, { ...request, callId: `call${at}`, sessionID: "another" });
      await approvals.decide(`later${at}`, { decision: "deny" }, "Ann");
    }
    await restart(rack);
    expect(await rack.ask(`/api/chat/sessions/${session}`)).toMatchObject({ running: true });
    await rack.ask(`/api/approvals/${id}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({
      status: "completed",
      parts: [{}, { text: "told: wiped all" }],
    });
  });

  it("tells a reader who comes back all that it missed", async () => {
    await using rack = await ChatRack.start();
    wipesThenTells(rack);
    const session = await rack.session();
    const last = await (await rack.stream(session, "go")).until("approval");
    await restart(rack);
    await rack.ask(`/api/approvals/${last.data.approval.id}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed" });
    const response = await rack.fetch(`/api/chat/sessions/${session}/events`, {
      headers: { "last-event-id": last.id! },
    });
    const events = await new StreamReader(response).all();
    expect(events.map(({ event }) => event)).toEqual(["message", "end"]);
    expect(events[0]!.data.parts).toMatchObject([
      { name: "wipe", state: { status: "completed" } },
      { text: "told: wiped all" },
    ]);
  });

  it("goes on with the model of the message, and counts what was used before", async () => {
    await using rack = await ChatRack.start({
      provider: { models: ["model-a", "model-b"] },
      chat: { maxRounds: 2 },
    });
    let counter = 0;
    rack.script((request) =>
      answersIn(request).length === 0
        ? called(["wipe", { what: "all" }])
        : called(["add", { a: counter++, b: 1 }]),
    );
    const session = await rack.session({ model: "model-a" });
    const response = await rack.fetch(`/api/chat/sessions/${session}/messages`, {
      body: { content: "go", model: "model-b" },
      headers: { accept: "text/event-stream" },
    });
    const reader = new StreamReader(response);
    const first = (await reader.until("usage")).data.total;
    const { data } = await reader.until("approval");
    await restart(rack);
    await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } });
    await ended(rack, session).toMatchObject({ status: "completed", end: { reason: "limit" } });
    expect(rack.requests.map(({ model }) => model)).toEqual(["model-b", "model-b"]);
    const { messages } = await rack.ask(`/api/chat/sessions/${session}`);
    expect(messages.at(-1)).toMatchObject({ provider: "scripted", model: "model-b" });
    expect(messages.at(-1).usage.total_tokens).toBeGreaterThan(first.total_tokens);
  });

  it("tells the model of edited arguments and of a no as it does without one", async () => {
    await using rack = await ChatRack.start();
    const answers = [
      { decision: "allow", arguments: { what: "a little" } },
      { decision: "deny", reason: "use the archive" },
      { decision: "deny" },
    ];
    for (const body of answers) {
      wipesThenTells(rack);
      const told: string[] = [];
      for (const isRestarted of [false, true]) {
        const session = await rack.session();
        const { data } = await (await rack.stream(session, "go")).until("approval");
        if (isRestarted) await restart(rack);
        await rack.ask(`/api/approvals/${data.approval.id}`, { body });
        await ended(rack, session).toMatchObject({ status: "completed" });
        told.push(answersIn(rack.requests.at(-1))[0].content);
      }
      expect(told[1]).toBe(told[0]);
    }
    expect(rack.ran.map(({ input }) => input.what)).toEqual(["a little", "a little"]);
  });
});
