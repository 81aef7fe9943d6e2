import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/store.ts";

import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { ToolSwitches } from "./tool-switches.ts";

let workspace: TemporaryWorkspace;
let store: Store;
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const file = (answer: string, name = "greet") =>
  `export const schema = { name: "${name}", description: "", type: "object", properties: {} };
   export default async () => "${answer}";`;

beforeEach(async () => {
  workspace = await TemporaryWorkspace.create({ "tools/greet.ts": file("one") });
  store = await openStore({ directory: join(workspace.directory, ".toolrack") });
});
afterEach(async () => {
  await store.close();
  await workspace[Symbol.asyncDispose]();
});

it("keeps a tool switched off over reloads, removal and a restart, until it is switched on", async () => {
  const { registry, files } = await workspace.open();
  const switches = await ToolSwitches.open({ registry, store, logger });
  await switches.set("greet", false, "Ann");
  const code = async () => (await registry.execute("greet", {})).error?.code;
  expect(await code()).toBe("tool_disabled");

  await workspace.write("tools/greet.ts", file("two"));
  await files.load();
  expect(await code()).toBe("tool_disabled");
  await workspace.remove("tools/greet.ts");
  await files.load();
  expect(await code()).toBe("tool_not_found");
  await workspace.write("tools/other.ts", file("three"));
  await files.load();
  expect(await code()).toBe("tool_disabled");
  switches.close();

  const later = await workspace.open();
  const reopened = await ToolSwitches.open({ registry: later.registry, store, logger });
  expect((await later.registry.execute("greet", {})).error?.code).toBe("tool_disabled");
  expect(reopened.get("Greet")).toMatchObject({ enabled: false, by: "Ann", at: expect.any(Number) });
  await reopened.set("greet", true, "Bob");
  expect((await later.registry.execute("greet", {})).content).toBe("three");
  reopened.close();
});

it("never lets a call through between a tool's arrival and its switch", async () => {
  const registry = new ToolRegistry();
  const switches = await ToolSwitches.open({ registry, store, logger });
  await switches.set("late", false, "Ann");
  registry.register(tool("late"));
  expect(registry.get("late")?.disabled).toBe(true);
  switches.close();
});

it("switches on what its author switched off, and leaves an alias of another tool alone", async () => {
  const registry = new ToolRegistry();
  const switches = await ToolSwitches.open({ registry, store, logger });
  await switches.set("off", true, "Ann");
  await switches.set("nickname", false, "Ann");
  registry.register({ ...tool("off"), disabled: true });
  registry.register(tool("real", ["nickname"]));
  expect([registry.get("off")?.disabled, registry.get("real")?.disabled]).toEqual([false, false]);
  switches.close();
});

it("learns what another node decided", async () => {
  const [here, there] = [new ToolRegistry(), new ToolRegistry()];
  for (const registry of [here, there]) registry.register(tool("shared"));
  const own = await ToolSwitches.open({ registry: here, store, logger });
  const other = await ToolSwitches.open({ registry: there, store, logger });
  await other.set("shared", false, "Bob");
  expect(here.get("shared")?.disabled).toBe(false);
  await own.refresh();
  expect(here.get("shared")?.disabled).toBe(true);
  own.close();
  other.close();
});

it("keeps what is decided here while an older look is on its way", async () => {
  const registry = new ToolRegistry();
  registry.register(tool("late"));
  const reads: { readonly arrive: () => void }[] = [];
  let isHeld = false;
  const toolSwitches: Store["toolSwitches"] = {
    set: (decided) => store.toolSwitches.set(decided),
    async list() {
      const read = await store.toolSwitches.list();
      if (isHeld) await new Promise<void>((arrive) => reads.push({ arrive }));
      return read;
    },
  };
  const switches = await ToolSwitches.open({ registry, store: { ...store, toolSwitches }, logger });
  isHeld = true;
  const looked = switches.refresh();
  await vi.waitUntil(() => reads.length === 1);
  isHeld = false;
  await switches.set("late", false, "Ann");
  const told: boolean[] = [];
  switches.subscribe(({ enabled }) => told.push(enabled));
  reads[0]!.arrive();
  await looked;
  expect([switches.get("late")?.enabled, registry.get("late")?.disabled, told]).toEqual([false, true, []]);

  isHeld = true;
  const older = switches.refresh();
  await vi.waitUntil(() => reads.length === 2);
  isHeld = false;
  // Another node decides.
  await store.toolSwitches.set({ toolName: "late", enabled: true, by: "Bob", at: Date.now() + 1 });
  await switches.refresh();
  reads[1]!.arrive();
  await older;
  expect([switches.get("late")?.enabled, registry.get("late")?.disabled]).toEqual([true, false]);
  switches.close();
});

function tool(name: string, aliases: string[] = []) {
  return Tool.define({ name, aliases, description: "", parameters: { type: "object" }, execute: () => "" });
}

it("switches thousands at once, and tells of each", async () => {
  const registry = new ToolRegistry();
  const names = Array.from({ length: 5_000 }, (_, index) => `tool_${index}`);
  for (const name of names) {
    registry.register(Tool.define({ name, parameters: { type: "object" }, execute: () => "fine" }));
  }
  const switches = await ToolSwitches.open({ registry, store, logger });
  const told: string[] = [];
  switches.subscribe(({ toolName, enabled }) => told.push(`${toolName} ${enabled}`));
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  await switches.setAll(names, false, "Ann");
  clearInterval(counting);
  // Others are served meanwhile.
  expect(turns).toBeGreaterThan(names.length / 200);
  expect(registry.getAll().every(({ disabled }) => disabled)).toBe(true);
  expect(told).toEqual(names.map((name) => `${name} false`));
  switches.close();
  for (const name of names) registry.update(name, { disabled: false });
  const reopened = await ToolSwitches.open({ registry, store, logger });
  expect(registry.getAll().every(({ disabled }) => disabled)).toBe(true);
  reopened.close();
}, 60_000);

it("switches nothing on that is kept off for a reason of its own", async () => {
  const registry = new ToolRegistry();
  const switches = await ToolSwitches.open({ registry, store, logger });
  await switches.set("kept", true, "Ann");
  const tool = Tool.define({ name: "kept", parameters: {}, execute: () => "done" });
  const metadata = { ...tool.metadata, disabledReason: "Its server is switched off." };
  registry.register({ ...tool, disabled: true, metadata });
  expect(registry.get("kept")?.disabled).toBe(true);
  registry.update("kept", { metadata: tool.metadata });
  expect(registry.get("kept")?.disabled).toBe(false);
  switches.close();
});

it("keeps off what has another name because its own was given up", async () => {
  const registry = new ToolRegistry();
  const names = { successorsOf: (name: string) => (name === "shared" ? ["shared_1", "shared_2"] : []) };
  const switches = await ToolSwitches.open({ registry, store, logger, names });
  await switches.set("shared", false, "Ann");
  await switches.set("shared_2", true, "Ann");
  for (const name of ["shared_1", "shared_2"]) {
    registry.register(Tool.define({ name, parameters: {}, execute: () => "done" }));
  }
  expect(registry.list().map(({ name }) => name)).toEqual(["shared_2"]);
  switches.close();
});
