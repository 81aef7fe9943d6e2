import { describe, expect, it } from "vitest";
import { masterGrant } from "../access/grants.ts";
import { openChat } from "../rack/open-chat.ts";
import { openRack } from "../rack/rack.ts";
import type { ChatService } from "./chat-service.ts";
import { ChatRack, called } from "./testing/chat-rack.fixture.ts";
import type { FeedEntry } from "./turn.ts";

/** A second process on the same store, as far as conversations go. */
async function openNode(rack: ChatRack): Promise<{ chat: ChatService } & AsyncDisposable> {
  const opened = new AsyncDisposableStack();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const parts = await openRack(rack.workspace.directory, { logger, watch: false }, opened);
  const chat = await openChat({ ...parts, logger });
  opened.defer(() => chat.close());
  return { chat, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** What a reader of the node is told until the turn ends. */
async function read(chat: ChatService, session: string): Promise<FeedEntry[]> {
  const turn = await chat.watch(session);
  const entries: FeedEntry[] = [];
  turn?.feed.follow(0, (entry) => entries.push(entry));
  await turn?.done;
  return entries;
}

describe("a turn that runs on another node of the same store", { timeout: 60_000 }, () => {
  it("is stopped with its calls", async () => {
    await using rack = await ChatRack.start();
    await using other = await openNode(rack);
    rack.script(() => called(["write", { text: "hold it" }]));
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    await rack.hold.started("hold it");
    expect(await other.chat.stop(session)).toBe(true);
    const end = (await reader.all()).at(-1);
    expect(end?.data.end).toEqual({ reason: "stopped" });
    const { messages } = await rack.ask(`/api/chat/sessions/${session}`);
    expect(messages.at(-1)).toMatchObject({ status: "stopped" });
    expect(rack.serving.app.registry.activeCalls()).toEqual([]);
    expect(await other.chat.stop(session)).toBe(false);

    rack.script(() => ({ content: "still here" }));
    expect((await rack.say(session, "and now?")).parts.at(-1).text).toBe("still here");
  });

  it("is stopped while the model speaks, and before its session is removed", async () => {
    await using rack = await ChatRack.start();
    await using other = await openNode(rack);
    rack.script(() => ({ content: "a story without an end ".repeat(200) }), { latency: 200, chunkSize: 2 });
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    await reader.until("text");
    await other.chat.removeSession(session);
    expect((await reader.all()).at(-1)?.data.end).toEqual({ reason: "stopped" });
    expect((await rack.ask(`/api/chat/sessions/${session}`)).status).toBe(404);
  });

  it("is told of as far as it is stored, to its end", async () => {
    await using rack = await ChatRack.start();
    await using other = await openNode(rack);
    rack.script((_request, asked) => {
      if (asked === 0) return { content: "Let me look.", ...called(["write", { text: "hold one" }]) };
      return asked === 1 ? called(["wipe", { what: "all" }]) : { content: "All done." };
    });
    const session = await rack.session();
    const reader = await rack.stream(session, "go");
    await rack.hold.started("hold one");
    expect((await other.chat.sessions.require({ grant: masterGrant }, session)).running).toBe(true);
    const watching = read(other.chat, session);
    // So that the reader is there before the call ends.
    await expect.poll(async () => (await other.chat.watch(session))?.feed.isFollowed).toBe(true);
    rack.hold.release("hold one");
    const { data } = await reader.until("approval");
    const turn = await other.chat.watch(session);
    await new Promise<void>((resolve) => {
      const unfollow = turn!.feed.follow(0, ({ type }) => {
        if (type !== "approval") return;
        queueMicrotask(() => unfollow());
        resolve();
      });
    });
    await rack.ask(`/api/approvals/${data.approval.id}`, { body: { decision: "allow" } });
    const entries = await watching;
    expect(entries.at(-1)).toMatchObject({ type: "end", data: { end: { reason: "stop" } } });
    const calls = entries.filter(({ type }) => type === "call");
    expect(calls).toMatchObject([{ data: { name: "wipe" } }]);
    const texts = entries.flatMap(({ type, data: told }) =>
      type === "text" ? [(told as { text: string }).text] : [],
    );
    expect(texts.join("")).toBe("All done.");
    const states = entries.filter(({ type }) => type === "state").map(({ data: told }) => told);
    expect(states).toMatchObject([
      { name: "write", state: { status: "completed", output: "wrote hold one" } },
      expect.anything(),
    ]);
    const approvals = entries.filter(({ type }) => type === "approval").map(({ data: told }) => told);
    expect(approvals).toMatchObject([
      { approval: { id: data.approval.id, state: "pending" } },
      { approval: { id: data.approval.id, state: "allowed" } },
    ]);
    expect(await other.chat.watch(session)).toBeUndefined();
  });
});
