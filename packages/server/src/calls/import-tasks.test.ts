import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { importTasks } from "./schedule-tool.ts";

const HOUR = 3_600_000;
let workspace: TemporaryWorkspace;
let store: Store;
let messages: string[];

beforeEach(async () => {
  workspace = await TemporaryWorkspace.create();
  store = await openStore({ directory: join(workspace.directory, ".toolrack") });
  messages = [];
});
afterEach(async () => {
  await store.close();
  await workspace[Symbol.asyncDispose]();
});

async function run(tasks: unknown): Promise<number> {
  await workspace.write(
    "json/scheduled_tasks.json",
    typeof tasks === "string" ? tasks : JSON.stringify(tasks),
  );
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({ name: "note_tool", aliases: ["note"], parameters: { type: "object" }, execute: () => "" }),
  );
  const say = (value: unknown) => void messages.push(String(value));
  const logger = { debug: say, info: say, warn: say, error: say };
  return importTasks({ directory: workspace.directory, registry, store, logger });
}

const task = (id: string, more: object) => ({ id, toolName: "note", toolArgs: { text: id }, ...more });
const iso = (at: number) => new Date(at).toISOString();

it("takes over what is still to come, as the toolbox had it", async () => {
  const now = Date.now();
  const tasks = [
    task("later", { type: "once_absolute", time: iso(now + HOUR), executed: false }),
    task("over", { type: "once_absolute", time: iso(now - HOUR), executed: false }),
    task("soon", {
      type: "once_relative",
      delaySeconds: 7_200,
      creationTime: iso(now - HOUR),
      executed: false,
    }),
    task("done", { type: "once_relative", delaySeconds: 7_200, creationTime: iso(now), executed: true }),
    task("again", { type: "recurring", interval: "every@5m", lastExecutionTime: iso(now - 60_000) }),
    task("from", { type: "recurring", interval: "every@1d", startTime: iso(now + HOUR), toolArgs: null }),
  ];
  expect(await run(tasks)).toBe(4);
  const kept = await store.schedules.list();
  const facts = kept.map(({ id, nextRunAt, timing, toolName }) => [
    id,
    toolName,
    timing.kind,
    Math.round((nextRunAt! - now) / 60_000),
  ]);
  expect(facts.sort()).toEqual([
    ["again", "note_tool", "every", 4],
    ["from", "note_tool", "every", 60],
    ["later", "note_tool", "once", 60],
    ["soon", "note_tool", "once", 60],
  ]);
  expect(kept.find(({ id }) => id === "later")?.arguments).toEqual({ text: "later" });
});

it("does so once: what was cancelled here does not come back", async () => {
  const tasks = [task("again", { type: "recurring", interval: "every@5m" })];
  expect(await run(tasks)).toBe(1);
  await store.schedules.cancel("again");
  await store.prune({ maxAge: -1_000 });
  expect(await run(tasks)).toBe(0);
  expect(await store.schedules.list()).toEqual([]);
});

it("says which tasks it cannot take over, and takes the others", async () => {
  const tasks = [
    task("odd", { type: "sometimes" }),
    task("when", { type: "once_absolute", time: "soon" }),
    task("never", { type: "recurring", interval: "every@0m" }),
    { ...task("good", { type: "recurring", interval: "every@1h" }), toolName: "gone" },
    null,
  ];
  expect(await run(tasks)).toBe(1);
  expect((await store.schedules.list()).map(({ toolName }) => toolName)).toEqual(["gone"]);
  expect(messages.filter((line) => line.includes("is not taken over"))).toHaveLength(4);
  expect(messages).toContainEqual(expect.stringContaining("not on the rack"));
});

it("is not troubled by a file that is empty or damaged, and reads it again when it is mended", async () => {
  expect(await run("[]\n")).toBe(0);
  expect(await run("[{")).toBe(0);
  expect(messages).toContainEqual(expect.stringContaining("json/scheduled_tasks.json is not taken over"));
  expect(await run([task("a", { type: "recurring", interval: "every@1h" })])).toBe(1);
});
