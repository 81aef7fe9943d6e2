import { join } from "node:path";
import { Tool, ToolRegistry } from "@toolrack/core";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openStore, type Store } from "../store/index.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { Loops } from "./loops.ts";

let workspace: TemporaryWorkspace;
let stores: Store[];
const logger = { info() {}, warn() {} };

beforeEach(async () => {
  workspace = await TemporaryWorkspace.create({});
  const directory = join(workspace.directory, ".toolrack");
  stores = [await openStore({ directory }), await openStore({ directory })];
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await workspace[Symbol.asyncDispose]();
});

function stoppedRack() {
  const registry = new ToolRegistry();
  registry.register(
    Tool.define({ name: "look", parameters: { type: "object" }, execute: async () => "the same as ever" }),
  );
  const call = async () =>
    (await registry.execute("look", {}, { sessionID: "s", sessionCaller: "t1" })).error?.code;
  return { registry, call };
}

it("lets a session go on that is held by another process on the same store", async () => {
  const { registry, call } = stoppedRack();
  const here = new Loops({ registry, store: stores[0]!, logger });
  for (let turn = 0; turn < 6; turn++) await call();
  expect(await call()).toBe("loop_blocked");
  const elsewhere = new Loops({ registry: new ToolRegistry(), store: stores[1]!, logger });
  const release = await elsewhere.resume("s", "Ann");
  expect(release).toMatchObject({ sessionID: "s", by: "Ann" });
  await expect.poll(call, { timeout: 20_000, interval: 100 }).toBeUndefined();
  // A release that was read is not read again: what the session repeats afterwards counts.
  for (let turn = 0; turn < 3; turn++) await call();
  expect(await call()).toBe("loop_blocked");
  await Promise.all([here.close(), elsewhere.close()]);
});

it("lets a session go on that a process with a slower clock released", async () => {
  const { registry, call } = stoppedRack();
  const resume = vi.spyOn(registry, "resumeSession");
  const here = new Loops({ registry, store: stores[0]!, logger });
  await stores[1]!.loopReleases.add({ sessionID: "another", by: "Ann", at: Date.now() });
  await expect.poll(() => resume.mock.calls.flat(), { timeout: 20_000 }).toEqual(["another"]);
  for (let turn = 0; turn < 6; turn++) await call();
  expect(await call()).toBe("loop_blocked");
  await stores[1]!.loopReleases.add({ sessionID: "s", by: "Ann", at: Date.now() - 20_000 });
  await expect.poll(call, { timeout: 20_000, interval: 100 }).toBeUndefined();
  await here.close();
}, 40_000);

it("remembers who let a session go on, and when it was last done", async () => {
  const loops = new Loops({ registry: new ToolRegistry(), store: stores[0]!, logger });
  await loops.resume("s", "Ann");
  const { at } = await loops.resume("s", "Bob");
  await loops.resume("other", "Bob");
  expect((await stores[1]!.loopReleases.since(0)).map(({ sessionID, by }) => [sessionID, by])).toEqual([
    ["s", "Ann"],
    ["s", "Bob"],
    ["other", "Bob"],
  ]);
  expect(await stores[1]!.loopReleases.latest("s")).toBe(at);
  expect(await stores[1]!.loopReleases.latest("unknown")).toBeUndefined();
  await loops.close();
});
