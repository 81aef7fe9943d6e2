import { existsSync, readdirSync, rmSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ToolCallRecord, ToolResult } from "@toolrack/core";
import { beforeAll, describe, expect, test } from "vitest";
import type { CallQuery } from "../calls/call-query.ts";
import { MOST_MEANT } from "../calls/call-statistics.ts";
import { BlobMissingError, InvalidCursorError, PatternTooWideError } from "../errors.ts";
import type { Store, StoreOptions } from "../store.ts";

import type { TestPlace } from "./engines.fixture.ts";
import { makeRecord, makeStart, textResult } from "./records.fixture.ts";

/** What every engine must do with calls. */
export function testCalls(place: TestPlace): void {
  let options: StoreOptions;
  let store: Store;
  beforeAll(async () => {
    options = await place.make();
    store = await place.open(options);
  });
  const finish = async (overrides: Partial<ToolCallRecord> = {}, result: ToolResult = textResult("ok")) => {
    const record = makeRecord(overrides);
    await store.calls.finished(record, result);
    return record;
  };

  describe("calls of lanes", () => {
    /** The server's processes that answer this database's clients. Only PostgreSQL tells. */
    const backends = async (): Promise<number[]> => {
      if (!options.url?.startsWith("postgres")) return [];
      const { default: pg } = await import("pg");
      const client = new pg.Client(options.url);
      await client.connect();
      const { rows } = await client.query<{ pid: number }>(
        "select pid from pg_stat_activity where datname = current_database() and application_name = 'toolrack'",
      );
      await client.end();
      return rows.map(({ pid }) => pid);
    };

    test("are each taken by one process, which hands over and takes at the same time, over kept connections", async () => {
      const worker = await place.open(options);
      const other = await place.open(options);
      const server = store.calls.lanes.instance;
      let known: number[] = [];
      for (let round = 0; round < 3; round++) {
        const handovers = Array.from({ length: 40 }, () => ({
          ...{ call: makeStart(makeRecord()), lane: "heavy", handover: "what it needs" },
        }));
        const outcomes = await Promise.all(
          handovers.map((handover) => {
            const { callId } = handover.call;
            const take = ({ calls }: Store) => calls.lanes.take(callId, server, handover);
            return Promise.all([store.calls.lanes.hand(handover), take(worker), take(other)]);
          }),
        );
        for (const [at, [, byWorker, byOther]] of outcomes.entries()) {
          const { callId } = handovers[at]!.call;
          const winner = byWorker ? worker : other;
          expect([callId, byWorker, byOther]).toEqual([callId, byWorker, !byWorker]);
          expect(await store.calls.lanes.read(callId)).toEqual({
            instance: winner.calls.lanes.instance,
            handover: "what it needs",
          });
        }
        const now = await backends();
        expect(now).toEqual(expect.arrayContaining(known));
        known = now;
      }
      const left = await store.calls.lanes.open();
      for (const { callId, instance } of left)
        await store.calls.lanes.settle(callId, instance, {
          ...{ name: "OutcomeUnknownError", code: "outcome_unknown", message: "", recoverable: true },
        });
    });

    test("that begin before they are taken have one record: of whoever has the call when it ends", async () => {
      const worker = await place.open(options);
      const other = await place.open(options);
      const from = store.calls.lanes.instance;
      const begin = () => {
        const record = makeRecord();
        const { callId } = record;
        const handover = { call: makeStart(record), lane: "heavy", handover: "what it needs" };
        const isBorrowed = worker.calls.lanes.borrow(callId, from);
        const endAt = ({ calls }: Store, text: string) =>
          calls.finished(record, textResult(text), { lane: "heavy" });
        const told = async () => (await store.calls.get(callId))?.result.content;
        return { callId, handover, isBorrowed, endAt, told };
      };
      const quick = begin();
      expect(quick.isBorrowed).toBe(options.url?.startsWith("postgres") === true);
      if (!quick.isBorrowed) return;
      expect(await quick.endAt(worker, "nobody had written its row")).toBe("safe");
      expect(await quick.told()).toBe("nobody had written its row");

      const written = begin();
      await store.calls.lanes.hand(written.handover);
      expect(await written.endAt(worker, "the server had")).toBe("safe");
      expect(await written.told()).toBe("the server had");

      const late = begin();
      const taking = worker.calls.lanes.takeBorrowed(late.callId, from, late.handover);
      expect(await late.endAt(worker, "it was just being taken")).toBe("safe");
      await taking;
      expect(await late.told()).toBe("it was just being taken");

      const lost = begin();
      await store.calls.lanes.hand(lost.handover);
      expect(await other.calls.lanes.take(lost.callId, from)).toBe(true);
      expect(await worker.calls.lanes.takeBorrowed(lost.callId, from, lost.handover)).toBe(false);
      expect(await lost.endAt(worker, "too late")).toBe("taken");
      expect(await lost.endAt(other, "another had it")).toBe("safe");
      expect(await lost.told()).toBe("another had it");

      const back = begin();
      await store.calls.lanes.hand(back.handover);
      expect(await store.calls.lanes.withdraw(back.callId)).toBe(true);
      expect(await back.endAt(worker, "too late")).toBe("taken");
      expect(await back.endAt(store, "cancelled")).toBe("safe");
      expect(await back.told()).toBe("cancelled");
    });
  });

  describe("a record", () => {
    test("comes back as it was given", async () => {
      const error = {
        name: "InvalidArgumentError",
        code: "invalid_arguments",
        message: 'limit: expected number, got "many"',
        details: { toolName: "t", input: { limit: "many" }, issues: [{ path: "limit" }] },
        recoverable: true,
      } as const;
      const record = makeRecord({
        parentCallId: "parent-1",
        tid: "task-1",
        depth: 3,
        status: "error",
        parameters: { limit: "many" },
        error,
        flags: { repaired: true, dropped: ["x"] },
      });
      const result: ToolResult = {
        content: error.message,
        type: "error",
        structured: { a: [1, null, "é"] },
        attachments: [{ type: "file", mime: "image/png", url: "data:image/png;base64,AAAA" }],
        blocks: [{ type: "text", text: "x" }],
        metadata: { cost: 1.5 },
        error,
      };
      await store.calls.finished(record, result, { replayOf: "call_original" });
      expect(await store.calls.get(record.callId)).toEqual({
        ...record,
        result,
        resultSize: error.message.length,
        outcome: "error",
        replayOf: "call_original",
      });
    });

    test("of JSON keeps its structured value once and gives it back", async () => {
      const structured = { items: [{ title: "四" }], n: 1e21 };
      const result: ToolResult = { content: JSON.stringify(structured), type: "json", structured };
      const { callId } = await finish({}, result);
      expect((await store.calls.get(callId))?.result).toEqual(result);
    });

    test("has what the tool said and how long its result took, and no list has the former", async () => {
      const record = makeRecord({ afterDuration: 0.25 });
      const log = [
        { at: 1_700_000_000_000, level: "info", text: "first 四 \u0000 \ud800" },
        { at: 1_700_000_000_005, level: "progress", text: "half way (1/2)" },
      ] as const;
      await store.calls.finished(record, textResult("x"), { log });
      const { log: kept, afterDuration } = (await store.calls.get(record.callId))!;
      expect([kept, afterDuration]).toEqual([log, 0.25]);
      const [listed] = (await store.calls.list({ session: record.sessionID, limit: 1 })).items;
      expect(listed).not.toHaveProperty("log");
    });

    test("that nobody wrote is not there", async () => {
      expect(await store.calls.get("call_missing")).toBeUndefined();
      expect(await store.calls.readResult("call_missing", 0, 10)).toBeUndefined();
    });

    test("holds any text: NUL, half characters, emoji, quotes, backslashes", async () => {
      const nasty = "a\0b \ud83d c 😀𠮷 '\"\\ %_ \u2028";
      const record = await finish(
        {
          callId: `id-${nasty}`,
          toolName: nasty,
          sessionID: nasty,
          displayName: nasty,
          caller: nasty,
          messageID: nasty,
          tid: nasty,
          parameters: { [nasty]: nasty },
        },
        { content: nasty, type: "text", structured: [nasty], metadata: { [nasty]: 1 } },
      );
      const stored = await store.calls.get(record.callId);
      expect(stored?.parameters).toEqual({ [nasty]: nasty });
      expect(stored?.result.structured).toEqual([nasty]);
      expect(stored?.result.content).toBe("a␀b \ufffd c 😀𠮷 '\"\\ %_ \u2028");
      expect(stored?.caller).toContain("😀𠮷");
      expect((await store.calls.list({ session: nasty })).items).toHaveLength(1);
      expect((await store.calls.list({ text: "😀𠮷 '\"\\ %_" })).items[0]?.callId).toBe(stored?.callId);
    });

    test("keeps ids apart that differ in case or in a blank at the end, and very long ones", async () => {
      const long = "x".repeat(5_000);
      const ids = ["Same", "same", "same ", `${long}1`, `${long}2`];
      for (const callId of ids) await finish({ callId }, textResult(callId.slice(-6)));
      for (const callId of ids) {
        expect((await store.calls.get(callId))?.result.content).toBe(callId.slice(-6));
      }
    });

    test("with an id that is taken is kept beside the earlier one", async () => {
      const sessionID = "twice";
      await finish({ callId: "twice", sessionID }, textResult("first"));
      await Promise.all([
        finish({ callId: "twice", sessionID }, textResult("second")),
        finish({ callId: "bystander", sessionID }, textResult("third")),
      ]);
      const { items } = await store.calls.list({ session: sessionID });
      expect(items.map(({ result }) => result.content).sort()).toEqual(["first", "second", "third"]);
      expect((await store.calls.get("twice"))?.result.content).toBe("first");
      expect(items.find(({ result }) => result.content === "second")?.callId).toMatch(/^twice~[0-9a-f]{12}$/);
    });

    test("under an id that its caller chose is let in once, whoever asks where, and is known before it begins", async () => {
      const other = await place.open(options);
      const start = makeStart(makeRecord());
      const asked = [store, other, store, other].map(({ calls }) => calls.claim(start));
      expect((await Promise.all(asked)).filter(Boolean)).toHaveLength(1);
      expect(await other.calls.get(start.callId)).toMatchObject({ outcome: "running" });
      const ended = await finish();
      expect(await store.calls.claim(makeStart(ended))).toBe(false);
    });

    test("that was let in so has the arguments it began with, and then its result", async () => {
      const record = makeRecord();
      const start = makeStart(record);
      expect(await store.calls.claim({ ...start, parameters: {} })).toBe(true);
      store.calls.started(start);
      await expect
        .poll(async () => (await store.calls.get(record.callId))?.parameters)
        .toEqual(record.parameters);
      await store.calls.finished(record, textResult("done"));
      expect(await store.calls.get(record.callId)).toMatchObject({ result: { content: "done" } });
    });

    test("of huge arguments keeps their beginning and says so", async () => {
      const { callId } = await finish({ parameters: { blob: "é".repeat(3_000_000) } });
      const stored = await store.calls.get(callId);
      expect(stored?.parameters).toEqual({
        "[too large]": expect.stringMatching(/^3000011 characters of JSON: \{"blob":"éé/),
      });
      expect(JSON.stringify(stored).length).toBeLessThan(10_000);
    });

    test("of a value that JSON cannot hold is written all the same", async () => {
      const circular: Record<string, unknown> = { big: 12n };
      circular.self = circular;
      const { callId } = await finish({}, { content: "c", type: "text", structured: circular });
      expect((await store.calls.get(callId))?.result.structured).toEqual({ big: "12", self: "[circular]" });
    });

    test("of several thousand at once are all written, each once", async () => {
      const records = Array.from({ length: 2_000 }, () => makeRecord({ sessionID: "crowd" }));
      for (const record of records) store.calls.started(makeStart(record));
      await Promise.all(records.map((record) => store.calls.finished(record, textResult("x"))));
      const seen = await readAll({ session: "crowd", limit: 500 });
      expect(seen).toEqual(records.map(({ callId }) => callId).reverse());
    });
  });

  describe("a long result", () => {
    test("is a blob that is read by page, the same text once", async () => {
      const text = `${"0123456789".repeat(20_000)}the end`;
      const one = await finish({}, textResult(text));
      const two = await finish({}, textResult(text));
      const stored = await store.calls.get(one.callId);
      expect(stored?.resultSize).toBe(200_007);
      expect(stored?.result.content).toContain(`kept as call ${one.callId}; read on from offset 16384`);
      expect(stored!.result.content.length).toBeLessThan(20_000);
      expect(await store.calls.readResult(two.callId, 199_998, 100)).toEqual({
        text: "89the end",
        total: 200_007,
      });
      expect(await store.calls.readResult(one.callId, 300_000, 10)).toEqual({ text: "", total: 200_007 });
      expect(await blobNames(store)).toHaveLength(1);
    });

    test("of which the record has a part is read whole, character for character", async () => {
      const whole = `日本😀\0\ud83d${"語".repeat(30_000)}`;
      const record = makeRecord();
      await store.calls.finished(record, textResult("日本… cut …"), { whole });
      expect((await store.calls.get(record.callId))?.result.content).toBe("日本… cut …");
      const pages: string[] = [];
      for (let offset = 0; offset < whole.length; offset += 7_001) {
        pages.push((await store.calls.readResult(record.callId, offset, 7_001))!.text);
      }
      expect(pages.join("")).toBe(whole);
    });

    test("keeps large attachments and structured values too", async () => {
      const result: ToolResult = {
        content: "a picture",
        type: "text",
        attachments: [
          { type: "file", mime: "image/png", url: `data:image/png;base64,${"A".repeat(300_000)}` },
        ],
        structured: { rows: Array.from({ length: 5_000 }, (_, n) => `row ${n}`) },
      };
      const { callId } = await finish({ sessionID: "pictures" }, result);
      expect((await store.calls.get(callId))?.result).toEqual(result);
      const { items } = await store.calls.list({ session: "pictures" });
      expect(JSON.stringify(items).length).toBeLessThan(2_000);
    });

    test("that is gone says so wherever it is read, and its record is still listed", async () => {
      const own = await place.make();
      const losing = await place.open(own);
      const record = makeRecord();
      const attachments = [{ type: "file", mime: "a/b", url: `data:a/b,${"A".repeat(70_000)}` }] as const;
      await losing.calls.finished(record, {
        ...textResult("gone".repeat(40_000)),
        attachments: [...attachments],
      });
      for (const file of blobFiles(own.directory)) rmSync(file);
      await place.run(own, "delete from blobs");
      await expect(losing.calls.readResult(record.callId, 0, 10)).rejects.toThrow(BlobMissingError);
      await expect(losing.calls.get(record.callId)).rejects.toThrow(
        /the blob [0-9a-f]{64}\.latin1, is missing/,
      );
      expect((await losing.calls.list({})).items[0]?.result.content).toContain("gonegone");
    });

    test("is read by another node, whose folder does not have it", async () => {
      if (options.url === undefined) return;
      const other = await place.open({ ...(await place.make()), url: options.url });
      const text = "0123456789四".repeat(100_000);
      const { callId } = await finish({}, textResult(text));
      expect(await other.calls.readResult(callId, 1_099_990, 100)).toEqual({
        text: text.slice(1_099_990),
        total: 1_100_000,
      });
      expect((await other.calls.readResult(callId, 0, 2_000_000))?.text === text).toBe(true);
      expect(blobFiles(options.directory)).toEqual([]);
    });
  });

  describe("a list", () => {
    const ids = async (query: CallQuery) => (await store.calls.list(query)).items.map(({ callId }) => callId);

    test("goes from the newest to the oldest in pages, also through calls of one moment", async () => {
      const made: string[] = [];
      for (let n = 0; n < 25; n++) {
        const timestamp = 1_600_000_000_000 + Math.floor(n / 10);
        const callId = `page_${String(n).padStart(2, "0")}`;
        made.push((await finish({ callId, timestamp, sessionID: "pages" })).callId);
      }
      const first = await store.calls.list({ session: "pages", limit: 4 });
      expect(first.items.map(({ callId }) => callId)).toEqual(made.slice(-4).reverse());
      expect(await readAll({ session: "pages", limit: 4 })).toEqual(made.toReversed());
      expect((await store.calls.list({ session: "pages", limit: 25 })).next).toBeUndefined();
    });

    test("refuses a cursor that it did not give", async () => {
      for (const cursor of ["", "nonsense", "WzEsMl0", Buffer.from('["x","y"]').toString("base64url"), "é"]) {
        await expect(store.calls.list({ cursor })).rejects.toThrow(InvalidCursorError);
      }
    });

    test("takes any limit for one between 1 and 500", async () => {
      for (const limit of [0, -5, Number.NaN, 0.5]) {
        expect((await store.calls.list({ session: "pages", limit })).items).toHaveLength(1);
      }
      expect((await store.calls.list({ session: "crowd", limit: 1e9 })).items).toHaveLength(500);
      expect((await store.calls.list({ session: "crowd" })).items).toHaveLength(50);
    });

    test("finds tools by glob, case and all, and takes every other sign literally", async () => {
      const sessionID = "globs";
      for (const toolName of ["file_read", "file_Read", "fileXread", "file%read", "a[b]c", "a!c"]) {
        await finish({ callId: toolName, toolName, sessionID });
      }
      const find = async (tool: string) => (await ids({ session: sessionID, tool })).sort();
      expect(await find("file_read")).toEqual(["file_read"]);
      expect(await find("file_r*")).toEqual(["file_read"]);
      expect(await find("*_*ead")).toEqual(["file_Read", "file_read"]);
      expect(await find("file?read")).toEqual(["file%read", "fileXread", "file_read"]);
      expect(await find("*%*")).toEqual(["file%read"]);
      expect(await find("*[b]*")).toEqual(["a[b]c"]);
      expect(await find("*!*")).toEqual(["a!c"]);
      expect(await find("\\*")).toEqual([]);
    });

    test("finds by status, session, parent, duration and time", async () => {
      const sessionID = "filters";
      const error = { name: "E", code: "execution_failed", message: "m", recoverable: true } as const;
      await finish({ callId: "f1", sessionID, timestamp: 1000, duration: 5 });
      await finish({ callId: "f2", sessionID, timestamp: 2000, duration: 50.5, parentCallId: "f1" });
      await finish(
        { callId: "f3", sessionID, timestamp: 3000, duration: 500, status: "error", error },
        { content: "m", type: "error", error },
      );
      expect(await ids({ session: sessionID })).toEqual(["f3", "f2", "f1"]);
      expect(await ids({ session: sessionID, status: "error" })).toEqual(["f3"]);
      expect(await ids({ session: sessionID, status: "completed" })).toEqual(["f2", "f1"]);
      expect(await ids({ parent: "f1" })).toEqual(["f2"]);
      expect(await ids({ session: sessionID, minDuration: 50.5 })).toEqual(["f3", "f2"]);
      expect(await ids({ session: sessionID, minDuration: 6, maxDuration: 51 })).toEqual(["f2"]);
      expect(await ids({ session: sessionID, since: 2000, until: 2999.5 })).toEqual(["f2"]);
      expect(await ids({ session: "Filters" })).toEqual([]);
    });

    test("finds by caller, exactly or by glob", async () => {
      const sessionID = "callers";
      for (const caller of ["ann_1", "ann_2", "Ann_1", "schedule_tool_7"]) {
        await finish({ callId: `by ${caller}`, sessionID, caller });
      }
      const find = async (caller: string) => (await ids({ session: sessionID, caller })).sort();
      expect(await find("ann_1")).toEqual(["by ann_1"]);
      expect(await find("ann_*")).toEqual(["by ann_1", "by ann_2"]);
      expect(await find("schedule_tool_?")).toEqual(["by schedule_tool_7"]);
      expect(await find("nobody")).toEqual([]);
    });

    // Older versions did not record the root.
    test.each([
      ["k", undefined],
      ["r", "r1"],
    ])(
      "finds a whole chain by its root, also before the root itself is recorded (%s)",
      async (k, rootCallId) => {
        const sessionID = `chains of ${k}`;
        const add = async (callId: string, timestamp: number, parentCallId?: string) => {
          const record = makeRecord({ callId, sessionID, timestamp, ...(parentCallId && { parentCallId }) });
          await store.calls.finished(record, textResult("x"), { rootCallId });
        };
        await add(`${k}2`, 2000, `${k}1`);
        await add(`${k}3`, 3000, `${k}2`);
        await finish({ callId: `${k}4`, sessionID, timestamp: 4000, parentCallId: "elsewhere" });
        expect(await ids({ root: `${k}1` })).toEqual([`${k}3`, `${k}2`]);
        await add(`${k}1`, 1000);
        const chain = [`${k}3`, `${k}2`, `${k}1`];
        expect(await ids({ root: `${k}1` })).toEqual(chain);
        expect(await readAll({ root: `${k}1`, limit: 1 })).toEqual(chain);
        expect(await readAll({ root: `${k}1`, limit: 1, caller: "*" })).toEqual(chain);
        expect(await ids({ root: `${k}1`, since: 1500 })).toEqual(chain.slice(0, 2));
        expect(await ids({ root: `${k}1`, top: true })).toEqual([`${k}1`]);
        expect(await ids({ root: `${k}2` })).toEqual([`${k}3`, `${k}2`]);
      },
    );

    test("finds the many calls below one within a chain, page by page, and no others of the chain", async () => {
      const add = (callId: string, timestamp: number, parentCallId?: string) =>
        store.calls.finished(
          makeRecord({ callId, timestamp, sessionID: "deep", ...(parentCallId && { parentCallId }) }),
          textResult("x"),
          { rootCallId: parentCallId && "deep" },
        );
      await add("deep", 1_000);
      await add("deep maker", 1_001, "deep");
      await add("deep other", 1_001, "deep");
      const made = Array.from({ length: 600 }, (_, n) => `deep ${n}`);
      await Promise.all(
        made.map((id, n) => add(id, 2_000 + n, n % 3 === 2 ? `deep ${n - 1}` : "deep maker")),
      );
      await Promise.all(made.map((_, n) => add(`deep other ${n}`, 2_000 + n, "deep other")));
      expect(await readAll({ root: "deep maker", limit: 250 })).toEqual([...made.toReversed(), "deep maker"]);
      expect(await ids({ root: "deep 1" })).toEqual(["deep 2", "deep 1"]);
      expect(await ids({ root: "deep maker", session: "elsewhere" })).toEqual([]);
    });

    test("finds nothing by an unknown root, and each call of damaged chains once", async () => {
      const sessionID = "chains";
      expect(await ids({ root: "nobody" })).toEqual([]);
      // Damaged records may name each other.
      await finish({ callId: "o1", sessionID, timestamp: 5000, parentCallId: "o2" });
      await finish({ callId: "o2", sessionID, timestamp: 6000, parentCallId: "o1" });
      expect(await ids({ root: "o1" })).toEqual(["o2", "o1"]);
    });

    test("finds text in arguments, results and errors, whatever the case of Latin letters", async () => {
      const sessionID = "texts";
      const message = "Disk FULL at 100%";
      const error = { name: "E", code: "execution_failed", message, recoverable: true } as const;
      await finish({ callId: "t1", sessionID, parameters: { note: 'He said "Hi"\nand left 北京' } });
      await finish({ callId: "t2", sessionID }, textResult('Straße "Hi"\nparty 🎉'));
      await finish(
        { callId: "t3", sessionID, status: "error", error },
        { content: "failed", type: "error", error },
      );
      const find = (text: string) => ids({ session: sessionID, text });
      expect(await find('said "hi"\nAND')).toEqual(["t1"]);
      expect(await find('"HI"')).toEqual(["t2", "t1"]);
      expect(await find("北京")).toEqual(["t1"]);
      expect(await find("🎉")).toEqual(["t2"]);
      expect(await find("😀")).toEqual([]);
      expect(await find("full at 100%")).toEqual(["t3"]);
      expect(await find("full_at")).toEqual([]);
      expect(await find("%")).toEqual(["t3"]);
      expect(await find("' or 1=1 --")).toEqual([]);
    });

    test("searches all calls, slice by slice, also through many of one moment, until nobody waits any more", async () => {
      const own = await place.open();
      const records = Array.from({ length: 2_600 }, (_, n) => {
        // 700 calls of one millisecond in the middle, and a few others here and there.
        const timestamp = 5_000 + (n < 900 ? n : n < 1_600 ? 900 : n);
        const callId = `s${String(n).padStart(4, "0")}`;
        return makeRecord({ callId, timestamp, parameters: { note: n % 130 === 0 ? "needle" : "hay" } });
      });
      await Promise.all(records.map((record) => own.calls.finished(record, textResult("x"))));
      const expected = records.filter((_, n) => n % 130 === 0).map(({ callId }) => callId);
      const found: string[] = [];
      for (let cursor: string | undefined, isLast = false; !isLast; isLast = cursor === undefined) {
        const page = await own.calls.list({ text: "needle", limit: 4, ...(cursor && { cursor }) });
        found.push(...page.items.map(({ callId }) => callId));
        cursor = page.next;
      }
      expect(found).toEqual(expected.toReversed());
      const { items } = await own.calls.list({ text: "needle", tool: "search_web", status: "completed" });
      expect(items).toHaveLength(expected.length);

      const leaving = new AbortController();
      const searching = own.calls.list({ text: "nowhere", signal: leaving.signal });
      leaving.abort("gone");
      await expect(searching).rejects.toBe("gone");
    });

    test("finds the calls of a chain that a token began, and combines any conditions", async () => {
      const sessionID = "owners";
      const error = { name: "E", code: "execution_failed", message: "m", recoverable: true } as const;
      const add = async (callId: string, owner: string, more: Partial<ToolCallRecord> = {}) => {
        const result =
          more.error === undefined ? textResult("x") : { content: "m", type: "error" as const, error };
        await store.calls.finished(makeRecord({ callId, sessionID, timestamp: 1_000, ...more }), result, {
          owner,
        });
      };
      await add("w1", "ann_1", { toolName: "outer" });
      await add("w2", "ann_1", {
        timestamp: 2_000,
        parentCallId: "w1",
        caller: "outer",
        status: "error",
        error,
      });
      await add("w3", "ann_2");
      await add("w4", "");
      expect(await ids({ owner: "ann_1" })).toEqual(["w2", "w1"]);
      expect(await ids({ owner: "ann_1", status: "error" })).toEqual(["w2"]);
      expect(await ids({ owner: "ann_1", parent: "w1" })).toEqual(["w2"]);
      expect(await ids({ owner: "ann_2", parent: "w1" })).toEqual([]);
      expect(await ids({ owner: "ann_2", root: "w1" })).toEqual([]);
      expect(await ids({ owner: "ann_1", root: "w1", status: "error" })).toEqual(["w2"]);
      expect(await ids({ owner: "ann_1", session: sessionID, tool: "outer" })).toEqual(["w1"]);
      expect(await ids({ parent: "w1", status: "completed" })).toEqual([]);
    });

    test("leaves out calls that others made when only those at the top are wanted", async () => {
      await finish({ callId: "top_1", sessionID: "tops" });
      await finish({ callId: "made_1", sessionID: "tops", parentCallId: "top_1" });
      expect(await ids({ session: "tops", top: true })).toEqual(["top_1"]);
      expect(await ids({ session: "tops", top: false })).toEqual(["made_1", "top_1"]);
    });

    test("finds those with which a session went in circles, whatever the other flags say", async () => {
      const loop = { action: "nudge", count: 3, evidence: 'says "loop": again' } as const;
      await finish({ callId: "loop_1", sessionID: "flags", flags: { loop } });
      await finish({ callId: "loop_2", sessionID: "flags", flags: { dropped: ["loop"] } });
      await finish({ callId: "loop_3", sessionID: "flags", flags: { outputMismatch: '{"loop":1}' } });
      expect(await ids({ session: "flags", flag: "loop" })).toEqual(["loop_1"]);
    });

    test("shows long arguments as too large; the record has them", async () => {
      const parameters = { text: "y".repeat(50_000) };
      const { callId } = await finish({ sessionID: "long", parameters });
      const { items } = await store.calls.list({ session: "long" });
      expect(items[0]?.parameters).toEqual({ "[too large]": expect.any(String) });
      expect((await store.calls.get(callId))?.parameters).toEqual(parameters);
    });
  });

  describe("statistics", () => {
    const start = 1_900_000_000_000 - (1_900_000_000_000 % 60_000);
    const query = { since: start, until: start + 3_600_000 };
    beforeAll(async () => {
      for (let minute = 0; minute < 3; minute++) {
        for (let call = 0; call < 10; call++) {
          await finish({
            toolName: minute === 2 ? "counted_b" : "counted_a",
            timestamp: start + minute * 60_000 + call,
            duration: (call + 1) * 10 ** minute,
            status: call === 9 ? "error" : "completed",
          });
        }
      }
      // Has not ended, and counts for nothing.
      store.calls.started(makeStart(makeRecord({ toolName: "counted_b", timestamp: start + 120_060 })));
    });

    test("count what ended and say how long it took, in all, by time and by tool", async () => {
      expect(await store.calls.statistics({ ...query, tool: "counted_*" })).toEqual({
        calls: 30,
        errors: 3,
        cancelled: 0,
        p50: about(60),
        p95: about(900),
        interval: 60_000,
        buckets: [
          { at: start, calls: 10, errors: 1, cancelled: 0, p50: about(6), p95: about(10) },
          { at: start + 60_000, calls: 10, errors: 1, cancelled: 0, p50: about(60), p95: about(100) },
          { at: start + 120_000, calls: 10, errors: 1, cancelled: 0, p50: about(600), p95: about(1000) },
        ],
        tools: [
          { toolName: "counted_a", calls: 20, errors: 2, cancelled: 0, p50: about(10), p95: about(100) },
          { toolName: "counted_b", calls: 10, errors: 1, cancelled: 0, p50: about(600), p95: about(1000) },
        ],
      });
    });

    test("leave out what came before or after, and other tools", async () => {
      const { calls, tools } = await store.calls.statistics({
        since: start + 60_000,
        until: start + 119_999,
        tool: "counted_a",
      });
      expect([calls, tools.length]).toEqual([10, 1]);
      expect(await store.calls.statistics({ ...query, tool: "nothing" })).toEqual({
        calls: 0,
        errors: 0,
        cancelled: 0,
        interval: 60_000,
        buckets: [],
        tools: [],
      });
    });

    test("list the tools with the most calls, as many as wanted, and how long the first 50 took", async () => {
      // A time of its own, in an hour that has passed: some minutes, a whole hour, some minutes.
      const since = start - (start % 3_600_000) - 40 * 86_400_000 + 3_000_000;
      const asked = { since, until: since + 4_800_000 };
      const calls = Array.from({ length: 60 }, (_, n) =>
        Array.from({ length: n < 2 ? 3 : 1 }, () => n),
      ).flat();
      for (const at of [since, since + 1_000_000, since + 4_500_000])
        await Promise.all(calls.map((n) => finish({ toolName: `ranked_${n}`, timestamp: at, duration: 10 })));
      const { tools } = await store.calls.statistics(asked);
      expect(tools.slice(0, 3)).toMatchObject([
        { toolName: "ranked_0", calls: 9, p50: about(10) },
        { toolName: "ranked_1", calls: 9 },
        { toolName: "ranked_10", calls: 3 },
      ]);
      expect([tools.length, tools.filter(({ p50 }) => p50 !== undefined).length]).toEqual([60, 50]);
      expect((await store.calls.statistics({ ...asked, tools: 2 })).tools).toEqual(tools.slice(0, 2));
      expect((await store.calls.statistics({ ...asked, tools: 0 })).tools).toEqual([]);
      expect((await store.calls.statistics({ ...asked, tool: "ranked_1?" })).tools).toHaveLength(10);
      // A longer time, which leaves out much of its day.
      const later = { since: since + 3_600_000, until: since + 5 * 3_600_000 };
      for (let n = 0; n < 2; n++)
        await finish({ toolName: "ranked_59", timestamp: later.until, duration: 10 });
      expect((await store.calls.statistics({ ...later, tools: 2 })).tools).toMatchObject([
        { toolName: "ranked_0", calls: 3 },
        { toolName: "ranked_1", calls: 3 },
      ]);
      const { tools: latest } = await store.calls.statistics({ ...later, since: since + 4_560_000 });
      expect(latest).toMatchObject([{ toolName: "ranked_59", calls: 2 }]);
    });

    test("count what has just ended, however long the time is", async () => {
      await finish({ toolName: "long_ago", timestamp: Date.now() - 30 * 86_400_000, duration: 10 });
      await finish({ toolName: "just_ended", timestamp: Date.now(), duration: 10 });
      for (const days of [0.01, 0.5, 1, 5, 7, 20]) {
        const until = Date.now() - 1;
        for (const tool of ["just_ended", "just_*"]) {
          const { calls, buckets, tools } = await store.calls.statistics({
            since: until - days * 86_400_000,
            until,
            tool,
          });
          expect([days, tool, calls, buckets.length, tools.length]).toEqual([days, tool, 1, 1, 1]);
        }
      }
    });

    test("of a pattern are those of the tools that it means, wherever its star stands", async () => {
      const at = start + 200 * 86_400_000;
      const names = [
        "meant_one",
        "meant_two",
        "Meant_one",
        "meant[x]_one",
        "meanu",
        "\u{1f600}_one",
        "\u{1f600}",
      ];
      for (const toolName of names) await finish({ toolName, timestamp: at, duration: 10 });
      const meantBy = async (tool: string) => {
        const { calls, buckets, tools } = await store.calls.statistics({ since: at, until: at, tool });
        expect(buckets.reduce((sum, bucket) => sum + bucket.calls, 0)).toBe(calls);
        expect(tools).toHaveLength(calls);
        return tools.map(({ toolName }) => toolName).sort();
      };
      expect(await meantBy("meant_*")).toEqual(["meant_one", "meant_two"]);
      expect(await meantBy("*_one")).toEqual(["Meant_one", "meant[x]_one", "meant_one", "\u{1f600}_one"]);
      expect(await meantBy("meant[*")).toEqual(["meant[x]_one"]);
      expect(await meantBy("mean?")).toEqual(["meanu"]);
      expect(await meantBy("\u{1f600}*")).toEqual(["\u{1f600}", "\u{1f600}_one"]);
      expect(await meantBy("nothing_*")).toEqual([]);
      expect(await meantBy("*")).toEqual(names.toSorted());
    });

    test("are refused for a pattern that means very many tools, unless it means all", async () => {
      const at = start + 210 * 86_400_000;
      const add = (n: number) => finish({ toolName: `wide_${n}`, timestamp: at, duration: 10 });
      await Promise.all(Array.from({ length: MOST_MEANT }, (_, n) => add(n)));
      const wide = { since: at, until: at, tool: "wide_*" };
      expect(await store.calls.statistics(wide)).toMatchObject({ calls: MOST_MEANT });
      await add(MOST_MEANT);
      await expect(store.calls.statistics(wide)).rejects.toThrow(PatternTooWideError);
      expect(await store.calls.statistics({ ...wide, tool: "*" })).toMatchObject({ calls: MOST_MEANT + 1 });
      expect(await store.calls.statistics({ ...wide, tool: "wide_1*0" })).toMatchObject({ calls: 11 });
    });

    test("tell calls that nobody wanted any more from failures, and waiting from the tool's time", async () => {
      const own = { toolName: "counted_wait", timestamp: start + 3 };
      const failed = (code: "cancelled" | "approval_denied" | "timed_out") => ({
        status: "error" as const,
        duration: 90_000,
        error: { name: "E", code, message: "m", recoverable: true },
      });
      await finish({ ...own, duration: 60_005, flags: { waited: 60_000 } });
      await finish({ ...own, ...failed("cancelled") });
      await finish({ ...own, ...failed("approval_denied") });
      const { tools } = await store.calls.statistics({ ...query, tool: "counted_wait" });
      expect(tools).toEqual([
        { toolName: "counted_wait", calls: 3, errors: 0, cancelled: 2, p50: about(5), p95: about(5) },
      ]);
      await finish({ ...own, ...failed("timed_out"), timestamp: start + 4 });
      expect(await store.calls.statistics({ ...query, tool: "counted_wait" })).toMatchObject({ errors: 1 });
    });

    test("add up over any time, whatever slices it is put together from", async () => {
      const day = start - (start % 86_400_000) + 30 * 86_400_000;
      const times = [0, 1, 61, 900, 3_599, 3_600, 86_399, 86_400, 86_400 + 7_261, 3 * 86_400, 8 * 86_400];
      for (const second of times) {
        const timestamp = day + second * 1_000;
        await finish({ toolName: "counted_span", timestamp, duration: 10 });
      }
      for (const since of times)
        for (const until of times.filter((time) => time >= since)) {
          const asked = { since: day + since * 1_000, until: day + until * 1_000 };
          const minute = (time: number) => time - (time % 60_000);
          const whole = { since: minute(asked.since), until: minute(asked.until) + 59_999 };
          const expected = times.filter(
            (time) => day + time * 1_000 >= whole.since && day + time * 1_000 <= whole.until,
          ).length;
          for (const tool of ["counted_span", "counted_s*n", undefined]) {
            const found = await store.calls.statistics({ ...asked, ...(tool && { tool }) });
            const counted = [found, ...found.tools].map(({ calls }) => calls);
            const sliced = found.buckets.reduce((sum, { calls }) => sum + calls, 0);
            expect([since, until, ...counted, sliced]).toEqual([since, until, expected, expected, expected]);
          }
        }
    });

    test("count a call whose process died as one that failed, of unknown duration, until its end is found", async () => {
      const own = await place.make();
      const dying = await place.open(own);
      const at = Date.now();
      dying.calls.started(makeStart(makeRecord({ callId: "lost", timestamp: at, toolName: "lost" })));
      await expect.poll(() => dying.calls.get("lost")).toBeDefined();
      await dying.calls.finished(
        makeRecord({ timestamp: at, duration: 7, toolName: "lost" }),
        textResult("x"),
      );
      await place.run(own, "update calls set instance = 'dead' where call_id = 'lost'");
      expect(await dying.calls.settleInterrupted()).toBe(1);
      const { tools } = await dying.calls.statistics({ since: at - 1_000, until: at + 1_000 });
      expect(tools).toEqual([
        { toolName: "lost", calls: 2, errors: 1, cancelled: 0, p50: about(7), p95: about(7) },
      ]);
    });
  });

  describe("a call under way", () => {
    test("is listed as running until it ends", async () => {
      const other = await place.open(options);
      const record = makeRecord({ sessionID: "running" });
      store.calls.started(makeStart(record));
      await expect.poll(() => other.calls.get(record.callId)).toBeDefined();
      const { items } = await other.calls.list({ session: "running", status: "running" });
      expect(items).toMatchObject([{ callId: record.callId, status: "running", outcome: "running" }]);
      await store.calls.finished(record, textResult("done"));
      expect(await other.calls.get(record.callId)).toMatchObject({
        outcome: "completed",
        result: { content: "done" },
      });
      expect((await other.calls.list({ session: "running" })).items).toHaveLength(1);
    });

    test("is not settled while its process lives, and is once it has ended", async () => {
      const mortal = await place.open(options);
      const record = makeRecord({ sessionID: "mortal" });
      mortal.calls.started(makeStart(record));
      await expect.poll(() => store.calls.get(record.callId)).toBeDefined();
      expect(await store.calls.settleInterrupted()).toBe(0);
      expect(await mortal.calls.settleInterrupted()).toBe(0);
      await mortal.close();
      expect(await store.calls.settleInterrupted()).toBe(1);
      expect(await store.calls.get(record.callId)).toMatchObject({
        status: "error",
        outcome: "interrupted",
        result: { type: "error", content: expect.stringContaining("not known") },
        error: { code: "outcome_unknown" },
      });
      expect((await store.calls.list({ session: "mortal", status: "interrupted" })).items).toHaveLength(1);
      expect(await store.calls.settleInterrupted()).toBe(0);
    });

    test("of another node is settled when its heartbeat has stopped, unless it ends after all", async (context) => {
      if (options.url === undefined) return context.skip("SQLite is not shared between nodes");
      const { directory } = await place.make();
      const distant = await place.open({ ...options, directory });
      const record = makeRecord({ sessionID: "distant" });
      distant.calls.started(makeStart(record));
      await expect.poll(() => store.calls.get(record.callId)).toBeDefined();
      expect(await store.calls.settleInterrupted()).toBe(0);
      const settle = async () => {
        await place.run(options, "update instances set heartbeat_at = heartbeat_at - 61000");
        return store.calls.settleInterrupted();
      };
      // A node that has just connected again takes nobody for dead for some seconds.
      await expect.poll(settle, { timeout: 60_000, interval: 500 }).toBe(1);
      expect((await store.calls.get(record.callId))?.outcome).toBe("interrupted");
      await distant.calls.finished(record, textResult("done after all"));
      expect(await store.calls.get(record.callId)).toMatchObject({
        outcome: "completed",
        result: { content: "done after all" },
      });
      expect((await store.calls.list({ session: "distant" })).items).toHaveLength(1);
    });

    test("is written when the store closes before it ended", async () => {
      const brief = await place.open(options);
      const begun = makeRecord();
      const ended = makeRecord();
      brief.calls.started(makeStart(begun));
      const written = brief.calls.finished(ended, textResult("b".repeat(100_000)));
      await brief.close();
      await written;
      expect((await store.calls.get(begun.callId))?.outcome).toBe("running");
      expect((await store.calls.readResult(ended.callId, 99_999, 5))?.text).toBe("b");
    });
  });

  describe("a lost connection", () => {
    test("loses no record that was handed over meanwhile", async () => {
      const own = await place.make();
      const shaken = await place.open(own);
      const records = Array.from({ length: 300 }, () => makeRecord());
      const written = records.map(async (record, n) => {
        await delay(n);
        shaken.calls.started(makeStart(record));
        await delay(n % 20);
        await shaken.calls.finished(record, textResult("x"));
      });
      for (let times = 0; times < 4; times++) {
        await delay(60);
        await place.cutConnections(own);
      }
      await Promise.all(written);
      const { items } = await shaken.calls.list({ limit: 500 });
      expect(items.map(({ callId, outcome }) => `${callId} ${outcome}`).sort()).toEqual(
        records.map(({ callId }) => `${callId} completed`).sort(),
      );
    });
  });

  describe("retention", () => {
    test("deletes by age and by size, oldest first, and blobs that nothing refers to", async () => {
      const own = await place.make();
      const small = await place.open(own);
      const now = Date.now();
      const add = async (callId: string, age: number, content: string) => {
        await small.calls.finished(makeRecord({ callId, timestamp: now - age }), textResult(content));
      };
      await add("ancient", 100_000, "a".repeat(100_000));
      await add("shared", 90_000, "s".repeat(100_000));
      for (let n = 0; n < 600; n++) void add(`filler${n}`, 80_000 + n, "x");
      await add("old", 50_000, "o".repeat(1_000));
      await add("young", 1_000, "s".repeat(100_000));
      small.calls.started(makeStart(makeRecord({ callId: "running", timestamp: now - 200_000 })));
      await expect.poll(() => small.calls.get("running")).toBeDefined();
      const left = async () => (await small.calls.list({ limit: 500 })).items.map(({ callId }) => callId);

      await small.prune({ maxAge: 70_000 });
      expect(await left()).toEqual(["young", "old", "running"]);
      // Too young to tell whether a record is about to refer to them.
      expect(await blobNames(small)).toHaveLength(2);
      for (const file of blobFiles(own.directory)) utimesSync(file, 1, 1);
      await place.run(own, "update blobs set used_at = 1");
      await small.prune({});
      expect(await blobNames(small)).toHaveLength(1);
      expect((await small.calls.readResult("young", 0, 3))?.text).toBe("sss");

      await small.prune({ maxBytes: 117_000 });
      expect(await left()).toEqual(["young", "running"]);
      await small.prune({ maxBytes: 0 });
      expect(await left()).toEqual(["running"]);
    });
  });

  async function readAll(query: CallQuery): Promise<string[]> {
    const seen: string[] = [];
    for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const page = await store.calls.list({ ...query, ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...page.items.map(({ callId }) => callId));
      cursor = page.next;
    }
    return seen;
  }
}

/** Statistics come from histograms. */
function about(duration: number): unknown {
  return {
    asymmetricMatch: (found: unknown) => typeof found === "number" && Math.abs(found / duration - 1) < 0.2,
    toString: () => `about ${duration}`,
  };
}

async function blobNames(store: Store): Promise<string[]> {
  const found: string[] = [];
  await store.blobs.collect(async (names) => {
    found.push(...names);
    return new Set(names);
  });
  return found;
}

/** With SQLite, blobs are files. */
function blobFiles(directory: string): string[] {
  if (!existsSync(join(directory, "blobs"))) return [];
  return readdirSync(join(directory, "blobs"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
