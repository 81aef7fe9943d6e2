import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { ToolCallRecord } from "@toolrack/core";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openStore, type Store } from "../store.ts";

import { makeRecord, makeStart, textResult } from "../testing/records.fixture.ts";
import { openHeldBack } from "./testing/held-back-calls.fixture.ts";

vi.setConfig({ testTimeout: 30_000 });
const patient = { timeout: 15_000 };

let directory: string;
let locks: string;
const opened: { close(): Promise<void> }[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-journals-"));
  locks = join(directory, "instances");
});
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  await rm(directory, { recursive: true, force: true });
});

const keep = <Opened extends { close(): Promise<void> }>(store: Opened): Opened => {
  opened.push(store);
  return store;
};
const journals = () => readdirSync(locks).filter((name) => name.endsWith(".jsonl"));
const journalText = () =>
  journals()
    .map((name) => readFileSync(join(locks, name), "utf8"))
    .join("");

/** As another process sees it. */
function fromOutside<Row>(statement: string): Row[] {
  const database = new DatabaseSync(join(directory, "toolrack.db"), { timeout: 5_000 });
  try {
    // The statement says what its rows have.
    return database.prepare(statement).all() as Row[];
  } finally {
    database.close();
  }
}
const idsInDatabase = () =>
  fromOutside<{ call_id: string }>("select call_id from calls order by call_id").map(
    ({ call_id }) => call_id,
  );

describe("a call that is safe in the journal", () => {
  let store: Store;
  let heldBack: Awaited<ReturnType<typeof openHeldBack>>;
  beforeEach(async () => {
    store = keep(await openStore({ directory }));
    heldBack = keep(await openHeldBack(directory));
  });
  const finish = async (callId: string, overrides: Partial<ToolCallRecord> = {}, content = "ok") => {
    await heldBack.calls.finished(makeRecord({ callId, ...overrides }), textResult(content));
    expect(idsInDatabase()).not.toContain(callId);
    expect(journalText()).toContain(callId);
  };

  test("is seen by every read of this process, also through another opening of the store", async () => {
    await finish("got");
    expect((await heldBack.calls.get("got"))?.outcome).toBe("completed");
    await finish("got elsewhere");
    expect((await store.calls.get("got elsewhere"))?.outcome).toBe("completed");
    await finish("read", {}, "its text");
    expect(await store.calls.readResult("read", 4, 4)).toEqual({ text: "text", total: 8 });
    await finish("listed", { sessionID: "s" });
    expect((await store.calls.list({ session: "s" })).items).toHaveLength(1);
    // On a connection of its own.
    await finish("found", { sessionID: "s" }, "Needle");
    expect((await store.calls.list({ text: "needle" })).items.map(({ callId }) => callId)).toEqual(["found"]);
    await finish("child", { parentCallId: "got" });
    expect((await store.calls.list({ root: "got" })).items).toHaveLength(2);
    await finish("counted", { toolName: "counted", timestamp: 5_000 });
    expect((await store.calls.statistics({ since: 0, until: 9_000, tool: "counted" })).calls).toBe(1);
    await finish("not interrupted");
    expect(await store.calls.settleInterrupted()).toBe(0);
    expect(idsInDatabase()).toContain("not interrupted");
  });

  test("is deleted with the others of its age, and not brought back", async () => {
    await finish("ancient", { timestamp: 1_000 });
    await store.prune({ maxAge: 60_000 });
    expect(idsInDatabase()).toEqual([]);
    expect(journalText()).toBe("");
  });

  test("keeps its blob from being taken for garbage", async () => {
    await heldBack.calls.finished(
      makeRecord({ callId: "long", timestamp: Date.now() }),
      textResult("x".repeat(70_000)),
    );
    const blobs = readdirSync(join(directory, "blobs"), { recursive: true, withFileTypes: true });
    for (const blob of blobs) if (blob.isFile()) utimesSync(join(blob.parentPath, blob.name), 1, 1);
    await store.prune({});
    expect((await store.calls.readResult("long", 69_999, 9))?.text).toBe("x");
  });

  test("takes the place of its beginning, which the database has", async () => {
    const record = makeRecord({ callId: "noted" });
    heldBack.calls.started(makeStart(record));
    await heldBack.calls.flush();
    expect(fromOutside("select state from calls")).toEqual([{ state: "running" }]);
    await heldBack.calls.finished(record, textResult("done"));
    expect(fromOutside("select state from calls")).toEqual([{ state: "running" }]);
    expect((await store.calls.list({})).items.map(({ outcome }) => outcome)).toEqual(["completed"]);
  });

  test("is read by its id without the others being written", async () => {
    await finish("one");
    await finish("two");
    expect(await store.calls.get("three")).toBeUndefined();
    expect(idsInDatabase()).toEqual([]);
    await store.calls.get("two");
    expect(idsInDatabase()).toEqual(["one", "two"]);
    expect(journalText()).toBe("");
  });

  test("is in the database a moment later by itself, and the journal is empty then", async () => {
    await store.calls.finished(makeRecord({ callId: "by itself" }), textResult("ok"));
    await expect.poll(idsInDatabase, patient).toEqual(["by itself"]);
    await expect.poll(journalText, patient).toBe("");
  });

  test("is in the database when the store has been closed, and no journal is left", async () => {
    await finish("last");
    await heldBack.close();
    opened.pop();
    expect(idsInDatabase()).toEqual(["last"]);
    expect(journals()).toEqual([]);
  });

  test("shares a transaction with many that end at once, and those wait for it", async () => {
    await finish("before");
    const many = Array.from({ length: 600 }, (_, n) => makeRecord({ callId: `many ${n}` }));
    await Promise.all(many.map((record) => heldBack.calls.finished(record, textResult("ok"))));
    expect(idsInDatabase()).toHaveLength(601);
    expect(journalText()).toBe("");
  });

  test("is never more than a few hundred that wait", async () => {
    for (let n = 0; n < 1050; n++) await heldBack.calls.finished(makeRecord(), textResult("ok"));
    expect(idsInDatabase().length).toBeGreaterThanOrEqual(1000);
    expect(journalText().split("\n").length).toBeLessThan(500);
  });
});

describe("a journal that cannot be written", () => {
  test("is done without: a call is safe when the database has it", async () => {
    const said: unknown[] = [];
    const logger = { warn() {}, error: (text: unknown) => said.push(text) };
    const store = keep(await openStore({ directory, logger }));
    // Nothing can be made where the directory was.
    renameSync(locks, `${locks}-elsewhere`);
    writeFileSync(locks, "");
    for (const callId of ["one", "two"]) {
      await store.calls.finished(makeRecord({ callId }), textResult("ok"));
      expect(idsInDatabase()).toContain(callId);
    }
    expect(said).toEqual([
      expect.stringMatching(/^The journal .*\.jsonl cannot be written: ENOTDIR.* answered when/),
    ]);
    fromOutside("create trigger refuse before insert on calls begin select raise(abort, 'no room'); end");
    await expect(store.calls.finished(makeRecord(), textResult("lost"))).rejects.toThrow("no room");
    await rm(locks);
    renameSync(`${locks}-elsewhere`, locks);
  });
});

describe("a database that refuses what is safe in the journal", () => {
  const refuse = () =>
    fromOutside(
      "create trigger refuse before insert on calls when new.tool_name = 'odd' begin select raise(abort, 'too odd'); end",
    );
  const relent = () => fromOutside("drop trigger refuse");

  test("is asked again until it takes it; meanwhile callers learn of it, and the others are written", async () => {
    const store = keep(await openStore({ directory }));
    const refused: string[] = [];
    store.calls.onRefused((callId, reason) => refused.push(`${callId}: ${(reason as Error).message}`));
    refuse();
    await store.calls.finished(makeRecord({ callId: "odd one", toolName: "odd" }), textResult("ok"));
    await store.calls.finished(makeRecord({ callId: "even" }), textResult("ok"));
    await expect.poll(() => refused, patient).toEqual(["odd one: too odd"]);
    expect(await store.calls.get("odd one")).toBeUndefined();
    expect(await store.calls.get("even")).toBeDefined();
    await expect(
      store.calls.finished(makeRecord({ callId: "odd two", toolName: "odd" }), textResult("ok")),
    ).rejects.toThrow("too odd");
    await store.calls.finished(makeRecord({ callId: "even too" }), textResult("ok"));
    expect(idsInDatabase()).toEqual(["even", "even too"]);
    expect(journalText()).toContain("odd one");
    relent();
    await expect.poll(idsInDatabase, patient).toEqual(["even", "even too", "odd one"]);
    await expect.poll(journalText, patient).toBe("");
    expect(refused).toHaveLength(1);
  });

  test("is given it by the next process at the latest", async () => {
    const store = await openStore({ directory });
    refuse();
    await store.calls.finished(makeRecord({ callId: "odd one", toolName: "odd" }), textResult("ok"));
    await store.close();
    expect(journalText()).toContain("odd one");
    relent();
    const next = keep(await openStore({ directory }));
    expect((await next.calls.get("odd one"))?.result.content).toBe("ok");
    expect(journals()).toEqual([]);
  });
});

describe("a journal that a process left behind", () => {
  const said: unknown[] = [];
  const logger = { warn: (text: unknown) => said.push(text), error: (text: unknown) => said.push(text) };
  let lines: string[];
  beforeEach(async () => {
    said.length = 0;
    const heldBack = await openHeldBack(directory);
    for (const callId of ["one", "two", "three"]) {
      await heldBack.calls.finished(makeRecord({ callId }), textResult(callId));
    }
    lines = journalText().trimEnd().split("\n");
    await heldBack.close();
    fromOutside("delete from calls");
  });
  const leave = (text: string, holder = "dead") => {
    mkdirSync(locks, { recursive: true });
    writeFileSync(join(locks, `${holder}.abc.jsonl`), text);
  };

  test("is brought in around what is damaged, which is said with its place", async () => {
    leave([lines[0], "damaged {", lines[1], "", lines[2]].join("\n"));
    appendFileSync(join(locks, "dead.abc.jsonl"), `\n${lines[0]?.slice(0, 50)}`);
    keep(await openStore({ directory, logger }));
    expect(idsInDatabase()).toEqual(["one", "three", "two"]);
    expect(said).toEqual([
      expect.stringMatching(/instances.[^/\\]+\.jsonl:2: this line was left out/),
      expect.stringMatching(/\.jsonl:4: this line was left out/),
    ]);
    expect(journals()).toEqual([]);
  });

  test("is brought in once, however often and from however many copies", async () => {
    const text = `${lines.join("\n")}\n`;
    leave(text);
    leave(text, "other");
    const store = keep(await openStore({ directory, logger }));
    leave(text);
    await store.calls.settleInterrupted();
    expect(idsInDatabase()).toEqual(["one", "three", "two"]);
    // A later call with an id that was taken is kept beside the earlier one, and that once too.
    const [first] = lines.map((line) => JSON.parse(line));
    const twin = JSON.stringify({ ...first, timestamp: first.timestamp + 1, result_text: "twin" });
    for (let times = 0; times < 2; times++) {
      leave(`${text}${twin}\n`);
      await store.calls.settleInterrupted();
    }
    expect(idsInDatabase()).toEqual(["one", expect.stringMatching(/^one~[0-9a-f]{12}$/), "three", "two"]);
    expect(said).toEqual([]);
  });

  test("stays while the database does not take it, and never stops a start", async () => {
    fromOutside("alter table calls rename to hidden");
    leave(lines.join("\n"));
    const store = keep(await openStore({ directory, logger }));
    expect(said).toEqual([
      expect.stringMatching(/^The calls in .*\.jsonl could not be brought into the database: no such table/),
    ]);
    expect(journals()).toHaveLength(1);
    fromOutside("alter table hidden rename to calls");
    await store.calls.settleInterrupted();
    expect(idsInDatabase()).toEqual(["one", "three", "two"]);
    expect(journals()).toEqual([]);
    expect(said).toHaveLength(1);
  });
});
