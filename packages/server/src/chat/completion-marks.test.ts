import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { identify, markRequest, refuseRepeated } from "./completion-runs.ts";

const warned = vi.fn();
const logger = { debug() {}, info() {}, warn: warned, error() {} };
const sent = (count: number, owner = "t1") =>
  identify({ "x-stainless-retry-count": String(count) }, owner, { model: "a" })!;
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
  await here.close();
  await elsewhere.close();
  await rm(directory, { recursive: true, force: true });
});

it("refuses elsewhere what comes again, of the same token, for ten minutes", async () => {
  const refuse = (request: ReturnType<typeof sent>) => refuseRepeated(elsewhere.chat, request);
  await refuse(sent(1));
  await markRequest(here.chat, logger, sent(0));
  await expect(refuse(sent(1))).rejects.toMatchObject(refused);
  await refuse(sent(1, "t2"));
  // What a person asks once more is no repetition.
  await refuse(sent(0));
  const now = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: now + 590_000 });
  await expect(refuse(sent(1))).rejects.toMatchObject(refused);
  vi.setSystemTime(now + 610_000);
  await refuse(sent(1));
});

it("lets a request go on when the store takes no mark", async () => {
  using database = new DatabaseSync(join(directory, "toolrack.db"));
  database.exec("DROP TABLE chat_handoffs");
  await markRequest(here.chat, logger, sent(0));
  expect(warned).toHaveBeenCalledOnce();
});
