import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Handoff } from "../store/chat.ts";
import { openStore, type Store } from "../store/store.ts";
import { identify, RequestMarks } from "./completion-runs.ts";

const warned = vi.fn();
const logger = { debug() {}, info() {}, warn: warned, error() {} };
const sent = (count?: number, owner = "t1") => {
  const headers = count === undefined ? {} : { "x-stainless-retry-count": String(count) };
  return identify(headers, owner, { messages: "a" });
};
const refused = { code: "chat_cancelled" };

let directory: string;
let here: Store;
let elsewhere: Store;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-marks-"));
  here = await openStore({ directory, logger });
  elsewhere = await openStore({ directory, logger });
});
afterEach(async () => {
  vi.useRealTimers();
  await here.close().catch(() => {});
  await elsewhere.close();
  await rm(directory, { recursive: true, force: true });
});

const marksOf = ({ chat }: Store) => ({
  addHandoff: (handoff: Handoff) => chat.addHandoff(handoff),
  getHandoff: (id: string, owner: string) => chat.getHandoff(id, owner),
  instanceId: chat.instanceId,
  isInstanceAlive: (id: string) => chat.isInstanceAlive(id),
});

/** Asks the other process, which leaves no mark of its own. */
const begin = (request: ReturnType<typeof sent>) =>
  new RequestMarks({ ...marksOf(elsewhere), addHandoff: async () => {} }, logger).begin(request);

it("refuses elsewhere what says that it comes again, of the same token, for ten minutes", async () => {
  await begin(sent(1));
  await new RequestMarks(here.chat, logger).begin(sent(0));
  await expect(begin(sent(1))).rejects.toMatchObject(refused);
  await begin(sent(1, "t2"));
  // What a person asks once more is no repetition.
  await begin(sent(0));
  await begin(sent());
  const now = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: now + 590_000 });
  await expect(begin(sent(1))).rejects.toMatchObject(refused);
  vi.setSystemTime(now + 610_000);
  await begin(sent(1));
});

it("refuses elsewhere what is the same as a request that was left, for two minutes", async () => {
  const marks = new RequestMarks(here.chat, logger);
  await marks.begin(sent());
  await marks.note(sent(), "left");
  await expect(begin(sent())).rejects.toMatchObject(refused);
  await marks.note(sent(), "done");
  await begin(sent());
  await marks.note(sent(1), "idle");
  await begin(sent(1));
  await marks.note(sent(), "left");
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 121_000 });
  await begin(sent());
});

it("refuses what a process had begun that has died", async () => {
  await new RequestMarks(here.chat, logger).begin(sent());
  await here.close();
  await expect(begin(sent())).rejects.toMatchObject(refused);
});

it("waits for the next heartbeat of a node on another machine", async () => {
  const remote = { id: "8d2f0c1e-0000-4000-8000-000000000000", heartbeat_at: Date.now() };
  using database = new DatabaseSync(join(directory, "toolrack.db"));
  database
    .prepare("INSERT INTO instances (id, heartbeat_at) VALUES (?, ?)")
    .run(remote.id, remote.heartbeat_at);
  await new RequestMarks({ ...marksOf(here), instanceId: remote.id }, logger).begin(sent());
  const asked = begin(sent());
  // Nobody knows yet whether that node died after its last heartbeat.
  expect(await Promise.race([asked.then(() => "allowed"), setTimeout(300, "undecided")])).toBe("undecided");
  database.prepare("UPDATE instances SET heartbeat_at = heartbeat_at + 1").run();
  await asked;
  database.exec("UPDATE instances SET heartbeat_at = heartbeat_at - 100000");
  await expect(begin(sent())).rejects.toMatchObject(refused);
});

it("lets a request go on when the store takes no mark", async () => {
  using database = new DatabaseSync(join(directory, "toolrack.db"));
  database.exec("DROP TABLE chat_handoffs");
  await new RequestMarks(here.chat, logger).begin(sent(0));
  expect(warned).toHaveBeenCalledTimes(2);
});
