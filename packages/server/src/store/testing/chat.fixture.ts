import { beforeAll, describe, expect, test } from "vitest";
import type { NewChatMessage } from "../chat.ts";
import type { Store, StoreOptions } from "../store.ts";

import type { TestPlace } from "./engines.fixture.ts";

/** What every engine must do with conversations. */
export function testChat(place: TestPlace): void {
  describe("conversations", () => {
    let options: StoreOptions;
    let store: Store;
    /** Another node of the same database. */
    let other: Store;
    beforeAll(async () => {
      options = await place.make();
      store = await place.open(options);
      other = await place.open(options);
    });

    const session = (id: string, more: object = {}) => ({
      id,
      owner: "t1",
      title: "",
      model: "",
      state: {},
      ...more,
    });
    const turn = (id: string): NewChatMessage[] => [
      { id: `${id}-user`, role: "user", status: "completed", body: { content: `says ${id}` } },
      { id, role: "assistant", status: "running", body: { parts: [] } },
    ];

    test("are kept as they are, changed and found by their owner", async () => {
      const state = { system: "be kind 😀\0", tools: ["a", "b"] };
      const added = await store.chat.addSession(session("s1", { title: "天气 \0", expert: "Büro", state }));
      expect(await other.chat.getSession("s1")).toEqual(added);
      expect(added).toMatchObject({ expert: "Büro", title: "天气 ␀", state });
      expect(await store.chat.updateSession("s1", { title: "new", model: "m" })).toMatchObject({
        title: "new",
        model: "m",
        state,
      });
      expect(await store.chat.updateSession("nobody", { title: "new" })).toBeUndefined();
      await store.chat.addSession(session("s2", { owner: "t2" }));
      const { items } = await store.chat.listSessions({ owner: "t1" });
      expect(items.map(({ id }) => id)).toEqual(["s1"]);
    });

    test("are listed in pages, the last used first", async () => {
      for (const id of ["p1", "p2", "p3"]) await store.chat.addSession(session(id, { owner: "pages" }));
      const first = await store.chat.listSessions({ owner: "pages", limit: 2 });
      const second = await store.chat.listSessions({ owner: "pages", limit: 2, cursor: first.next! });
      expect([...first.items, ...second.items].map(({ id }) => id).sort()).toEqual(["p1", "p2", "p3"]);
      expect(second.next).toBeUndefined();
      await expect(store.chat.listSessions({ cursor: "x" })).rejects.toThrow("cursor");
    });

    test("take one turn at a time, however many begin at once", async () => {
      await store.chat.addSession(session("busy"));
      const begun = await Promise.all([
        store.chat.beginTurn("busy", turn("one")),
        other.chat.beginTurn("busy", turn("two")),
        store.chat.beginTurn("busy", turn("three")),
      ]);
      const [messages, ...more] = begun.filter((answer) => answer !== undefined);
      expect(more).toEqual([]);
      expect(messages?.map(({ position, role }) => [position, role])).toEqual([
        [1, "user"],
        [2, "assistant"],
      ]);
      expect(await other.chat.isBusy("busy")).toBe(true);
      const { id } = messages!.at(-1)!;
      await store.chat.saveMessage(id, { status: "running", body: { parts: [1] } });
      expect(await other.chat.isBusy("busy")).toBe(true);
      await store.chat.saveMessage(id, { status: "completed", body: { parts: [1, 2] } });
      expect(await store.chat.isBusy("busy")).toBe(false);
      expect((await store.chat.beginTurn("busy", turn("four")))?.at(-1)?.position).toBe(4);
      expect((await store.chat.listMessages("busy")).map(({ position }) => position)).toEqual([1, 2, 3, 4]);
      expect(await store.chat.getMessage(id)).toMatchObject({ status: "completed", body: { parts: [1, 2] } });
      expect(await store.chat.beginTurn("nowhere", turn("five"))).toBeUndefined();
    });

    test("are stopped by whichever node is asked to", async () => {
      await store.chat.addSession(session("long"));
      expect(await other.chat.requestStop("long")).toBeUndefined();
      const begun = await store.chat.beginTurn("long", turn("told"));
      const { id } = begun!.at(-1)!;
      expect(await other.chat.getRunning("long")).toEqual(begun!.at(-1));
      expect(await store.chat.findStopped([id])).toEqual([]);
      expect(await other.chat.requestStop("long")).toBe(id);
      // What is stored in between does not undo it.
      await store.chat.saveMessage(id, { status: "running", body: { parts: [1] } });
      expect(await store.chat.findStopped([id, "nobody"])).toEqual([id]);
      expect(await store.chat.findStopped([])).toEqual([]);
      expect(await other.chat.getRunning("long")).toMatchObject({ status: "running", body: { parts: [1] } });
      expect((await other.chat.getSession("long"))?.running).toBe(true);
      await store.chat.saveMessage(id, { status: "stopped", body: { parts: [1] } });
      expect(await store.chat.findStopped([id])).toEqual([]);
      expect(await other.chat.getRunning("long")).toBeUndefined();
      expect((await other.chat.getSession("long"))?.running).toBe(false);
    });

    test("have their messages read in pages, from the last one back", async () => {
      await store.chat.addSession(session("paged"));
      for (const id of ["first", "second", "third"]) {
        await store.chat.beginTurn("paged", turn(id));
        await store.chat.saveMessage(id, { status: "completed", body: { parts: [id, "天气"] } });
      }
      const all = await store.chat.listMessages("paged");
      expect(await other.chat.pageMessages("paged", {})).toEqual({ items: all });
      expect(await store.chat.pageMessages("paged", { limit: 6 })).toEqual({ items: all });
      const last = await store.chat.pageMessages("paged", { limit: 4 });
      expect(last).toEqual({ items: all.slice(2), previous: 3 });
      const rest = await store.chat.pageMessages("paged", { limit: 4, before: last.previous! });
      expect(rest).toEqual({ items: all.slice(0, 2) });
      expect(await store.chat.pageMessages("paged", { before: 1 })).toEqual({ items: [] });
      expect(await store.chat.pageMessages("nowhere", {})).toEqual({ items: [] });
      // What is large comes a few at a time, and one at least.
      const parts = ["x".repeat(2_100_000)];
      for (const id of ["first", "second"]) {
        await store.chat.saveMessage(id, { status: "completed", body: { parts } });
      }
      const some = await store.chat.pageMessages("paged", {});
      expect(some.items.map(({ position }) => position)).toEqual([3, 4, 5, 6]);
      expect(some.previous).toBe(3);
      await store.chat.removeSession("paged");
    });

    test("that a process left are taken up by one other, those of the living by none", async () => {
      const gone = await place.open(options);
      for (const id of ["left1", "left2"]) {
        await gone.chat.addSession(session(id));
        await gone.chat.beginTurn(id, turn(`${id}-turn`));
      }
      expect(await store.chat.claimOrphans()).toEqual([]);
      await gone.close();
      const claimed = await Promise.all([store.chat.claimOrphans(), other.chat.claimOrphans()]);
      expect(
        claimed
          .flat()
          .map(({ id }) => id)
          .sort(),
      ).toEqual(["left1-turn", "left2-turn"]);
      expect(await store.chat.claimOrphans()).toEqual([]);
    });

    test("are gone with their messages when removed, or too old and idle", async () => {
      await store.chat.addSession(session("old"));
      await store.chat.beginTurn("old", turn("old-turn"));
      expect(await store.chat.removeSession("old")).toBe(true);
      expect(await store.chat.removeSession("old")).toBe(false);
      expect(await store.chat.listMessages("old")).toEqual([]);
      const idle = await place.open();
      await idle.chat.addSession(session("idle"));
      await idle.chat.addSession(session("working"));
      await idle.chat.beginTurn("working", turn("w"));
      await idle.prune({ maxAge: -60_000 });
      expect((await idle.chat.listSessions({})).items.map(({ id }) => id)).toEqual(["working"]);
    });

    test("of clients leave behind what only their owner gets back", async () => {
      const handoff = { id: "h1", owner: "t1", sessionId: "s", messages: [{ role: "tool", content: "ü\0" }] };
      await store.chat.addHandoff(handoff);
      expect(await other.chat.getHandoff("h1", "t1")).toEqual(handoff);
      expect(await other.chat.getHandoff("h1", "t2")).toBeUndefined();
      const later = { ...handoff, sessionId: "s2" };
      await other.chat.addHandoff(later);
      expect(await store.chat.getHandoff("h1", "t1")).toEqual(later);
      await store.prune({ maxAge: -60_000 });
      expect(await store.chat.getHandoff("h1", "t1")).toBeUndefined();
    });
  });
}
