import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { CompletionMarks, identify } from "./completion-runs.ts";

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
  const other = new CompletionMarks(elsewhere.chat, logger);
  await other.refuseRepeated(sent(1));
  await new CompletionMarks(here.chat, logger).add(sent(0));
  await expect(other.refuseRepeated(sent(1))).rejects.toMatchObject(refused);
  await other.refuseRepeated(sent(1, "t2"));
  // What a person asks once more is no repetition.
  await other.refuseRepeated(sent(0));
  const now = Date.now();
  vi.useFakeTimers({ toFake: ["Date"], now: now + 590_000 });
  await expect(other.refuseRepeated(sent(1))).rejects.toMatchObject(refused);
  vi.setSystemTime(now + 610_000);
  await other.refuseRepeated(sent(1));
});

it("lets a request go on when the store takes no mark", async () => {
  using database = new DatabaseSync(join(directory, "toolrack.db"));
  database.exec("DROP TABLE chat_handoffs");
  await new CompletionMarks(here.chat, logger).add(sent(0));
  expect(warned).toHaveBeenCalledOnce();
});
