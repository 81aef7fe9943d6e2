import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openStore } from "../store/open-store.ts";
import type { Store } from "../store/store.ts";
import { CallRecorder } from "./call-recorder.ts";

let directory: string;
let store: Store;
let registry: ToolRegistry;
let recorder: CallRecorder;
let release: () => void;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-recorder-"));
  store = await openStore({ directory });
  registry = new ToolRegistry();
  const silent = { debug() {}, info() {}, warn() {}, error() {} };
  recorder = new CallRecorder(registry, store.calls, silent);
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
