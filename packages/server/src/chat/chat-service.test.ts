import { expect, it, vi } from "vitest";
import { openChat } from "../rack/open-chat.ts";
import { openRack } from "../rack/rack.ts";
import type { Store } from "../store/store.ts";
import type { ChatService } from "./chat-service.ts";
import { ChatRack } from "./testing/chat-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

/** The service alone, on the rack's store or on one that is made of it. */
async function openService(rack: ChatRack, alter: (store: Store) => Store = (store) => store) {
  const opened = new AsyncDisposableStack();
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const parts = await openRack(rack.workspace.directory, { logger, watch: false }, opened);
  const chat: ChatService = await openChat({ ...parts, store: alter(parts.store), logger });
  opened.defer(() => chat.close());
  return { chat, store: parts.store, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

it("a conversation that was removed a moment ago is unknown, not busy", async () => {
  await using rack = await ChatRack.start();
  await using service = await openService(rack);
  const session = (await service.store.chat.getSession(await rack.session()))!;
  await service.store.chat.removeSession(session.id);
  await expect(service.chat.handleStream(session, { content: "hi" })).rejects.toMatchObject({
    code: "chat_session_not_found",
  });
});

it("a title that cannot be stored does not keep a message from being answered", async () => {
  await using rack = await ChatRack.start();
  rack.script(() => ({ content: "hello" }));
  await using service = await openService(rack, (store) => ({
    ...store,
    chat: new Proxy(store.chat, {
      get(chat, name) {
        if (name === "updateSession") return () => Promise.reject(new Error("the disk is full"));
        const own = Reflect.get(chat, name);
        return typeof own === "function" ? own.bind(chat) : own;
      },
    }),
  }));
  const session = (await service.store.chat.getSession(await rack.session()))!;
  const turn = await service.chat.handleStream(session, { content: "hi" });
  expect(await turn.done).toMatchObject({ status: "completed" });
  expect(await service.store.chat.isBusy(session.id)).toBe(false);
});
