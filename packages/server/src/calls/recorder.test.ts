import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Tool, type ToolContext, ToolRegistry } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { masterGrant } from "../access/grants.ts";
import type { CallStore } from "../store/index.ts";
import { openStore, type Store } from "../store/store.ts";
import { CallBook, type RecordedCall } from "./call-book.ts";
import { CallRecorder } from "./recorder.ts";

let directory: string;
let store: Store;
let registry: ToolRegistry;
let book: CallBook;
let recorder: CallRecorder;
let release: () => void;
let errors: unknown[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-recorder-"));
  store = await openStore({ directory });
  registry = new ToolRegistry();
  errors = [];
  const logger = { debug() {}, info() {}, warn() {}, error: (text: unknown) => errors.push(text) };
  book = new CallBook(registry);
  recorder = new CallRecorder(book, store.calls, logger);
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const parameters = { type: "object", properties: { text: { type: "string" } } };
  registry.register(
    Tool.define({
      name: "inner",
      displayName: "Innermost",
      aliases: ["within"],
      description: "Waits.",
      parameters,
      execute: () => held.then(() => "done"),
    }),
  );
  registry.register(
    Tool.define({
      name: "outer",
      description: "Calls.",
      parameters,
      execute: async ({ call }) => (await call("within", { text: "a" })).content,
    }),
  );
});
afterEach(async () => {
  await recorder.close();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const running = async () => (await store.calls.list({ status: "running" })).items;

it("notes calls that nobody announced when they begin, with who made them, and settles them at the end", async () => {
  const call = registry.execute("outer", {}, { callId: "root", caller: "schedule_tool_7", sessionID: "s" });
  await expect.poll(running).toHaveLength(2);
  const noted = new Map((await running()).map((one) => [one.toolName, one]));
  expect(noted.get("outer")).toMatchObject({ callId: "root", caller: "schedule_tool_7", sessionID: "s" });
  expect(noted.get("inner")).toMatchObject({
    parentCallId: "root",
    displayName: "Innermost",
    caller: "outer_root",
    parameters: { text: "a" },
  });
  release();
  await call;
  await recorder.flush();
  expect(await running()).toEqual([]);
  const { items } = await store.calls.list({});
  expect(items.map(({ toolName, outcome }) => `${toolName} ${outcome}`).sort()).toEqual([
    "inner completed",
    "outer completed",
  ]);
});

it("keeps a call that is refused at once, once", async () => {
  release();
  await registry.execute("inner", {}, { callId: "taken" });
  await registry.execute("inner", {}, { callId: "taken" });
  await registry.execute("unknown", {});
  await recorder.flush();
  expect((await store.calls.list({})).items).toHaveLength(3);
  expect(await running()).toEqual([]);
});

it("counts and tells of a record that is safe in the journal and that the database refuses", {
  timeout: 30_000,
}, async () => {
  release();
  const database = new DatabaseSync(join(directory, "toolrack.db"));
  database.exec("create trigger refuse before insert on calls begin select raise(abort, 'not now'); end");
  const common = { toolName: "inner", displayName: "inner", sessionID: "", caller: "test", timestamp: 1 };
  const recorded = (callId: string) =>
    new Promise<RecordedCall>((settle) => {
      book.enter({ ...common, callId }, { grant: masterGrant }).settle = settle;
    });
  const recording = recorded("kept");
  await registry.execute("inner", {}, { callId: "kept" });
  expect((await recording).recorded).toBe(true);
  await expect.poll(() => recorder.failures, { timeout: 10_000 }).toBe(1);
  expect(errors).toEqual([expect.stringContaining("refuses the record of call kept: not now")]);
  const refused = recorded("lost");
  await registry.execute("inner", {}, { callId: "lost" });
  expect((await refused).recorded).toBe(false);
  expect(recorder.failures).toBe(2);
  database.exec("drop trigger refuse");
  database.close();
  await expect.poll(() => store.calls.get("kept"), { timeout: 10_000 }).toBeDefined();
  expect(recorder.failures).toBe(2);
});

it("answers for a call that a worker has recorded when the calls that it made here are on record too", async () => {
  await recorder.close();
  const written = Promise.withResolvers<void>();
  const finished: CallStore["finished"] = (...given) =>
    written.promise.then(() => store.calls.finished(...given));
  recorder = new CallRecorder(book, Object.create(store.calls, { finished: { value: finished } }), console);
  const call = { callId: "performed", toolName: "outer", displayName: "", sessionID: "", caller: "test" };
  const live = book.enter({ ...call, timestamp: 1 }, { grant: masterGrant });
  live.isRecorded = true;
  let isTold = false;
  live.settle = () => {
    isTold = true;
  };
  release();
  await registry.execute("outer", {}, { callId: "performed" });
  await new Promise(setImmediate);
  expect(isTold).toBe(false);
  written.resolve();
  await expect.poll(() => isTold).toBe(true);
  expect((await store.calls.list({})).items.map(({ toolName }) => toolName)).toEqual(["inner"]);
});

it("names the first call of its chain with every call that another one made", async () => {
  const deep = async ({ call }: ToolContext) => (await call("outer")).content;
  registry.register(Tool.define({ name: "deep", parameters: { type: "object" }, execute: deep }));
  const call = registry.execute("deep", {}, { callId: "root" });
  await expect.poll(running).toHaveLength(3);
  const roots = () => {
    const database = new DatabaseSync(join(directory, "toolrack.db"), { readOnly: true });
    const rows = database.prepare("select tool_name, root_call_id from calls order by tool_name").all();
    database.close();
    return rows.map((row) => Object.values(row));
  };
  const expected = [
    ["deep", null],
    ["inner", "root"],
    ["outer", "root"],
  ];
  await expect.poll(roots).toEqual(expected);
  release();
  await call;
  await recorder.flush();
  // Calls of the same millisecond are listed in any order.
  const listed = (await store.calls.list({ root: "root" })).items.map(({ toolName }) => toolName);
  expect(listed.sort()).toEqual(["deep", "inner", "outer"]);
  expect(roots()).toEqual(expected);
});
