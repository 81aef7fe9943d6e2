import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { masterGrant } from "../access/grants.ts";
import { runToolName } from "../calls/meta-tools.ts";
import { openRack } from "../rack/rack.ts";
import { TemporaryWorkspace } from "../testing/temporary-workspace.ts";
import { CodeRuns } from "./code-runs.ts";
import { files, paying } from "./noted-runs.fixture.ts";
import { runTool } from "./run-tool.ts";

const names = ["note 1", "note 1", "note 2", "note 3", "note 5", "pay 4"];

it("a run that waits for a person gives its worker back, and is run again when somebody answers", {
  timeout: 60_000,
}, async () => {
  const { result, ran } = await suspended(paying);
  expect(result.structured).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
  expect(ran.toSorted()).toEqual(names);
});

it("code that is run again sees the same times after each call and each search", {
  timeout: 60_000,
}, async () => {
  const { result, ran } = await suspended(`const times = [];
const now = () => times.push(Date.now() % 1e9) && times.at(-1);
await tools.rack.nap({ n: 1 });
await tools.rack.note({ n: now() });
await Promise.all([tools.rack.nap({ n: 2 }), tools.rack.note({ n: now() })]);
await search("note");
await tools.rack.note({ n: now() });
await tools.rack.pay({ n: 4 });
return times;`);
  expect(result.error).toBeUndefined();
  const noted = ran.filter((line) => line.startsWith("note ")).map((line) => Number(line.slice(5)));
  expect(noted).toEqual(result.structured);
  // The clock of the code follows the time that its calls take.
  expect(noted[2]! - noted[1]!).toBeGreaterThanOrEqual(25);
});

it("code that is run again gets the same random numbers and ids, in whatever way it asks", {
  timeout: 60_000,
}, async () => {
  const { result, ran } = await suspended(`const n = () => [
  Math.random(), parseInt(crypto.randomUUID().slice(0, 8), 16), crypto.getRandomValues(new Uint32Array(1))[0],
  performance.now(), globalThis.performance.now(),
].reduce((sum, one) => sum + one, 0);
await tools.rack.nap({ n: n() });
await tools.rack.note({ n: n() });
await tools.rack.pay({ n: 4 });
return "same";`);
  expect(result.content).toBe("same");
  expect(ran.map((line) => line.split(" ")[0])).toEqual(["nap", "note", "pay"]);
});

/** Runs code whose worker is ended while a person is asked, and agrees. */
async function suspended(code: string) {
  await using workspace = await TemporaryWorkspace.create(files);
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  await using opened = new AsyncDisposableStack();
  const { app, store, approvals, calls } = await openRack(
    workspace.directory,
    { logger, watch: false },
    opened,
  );
  opened.defer(() => calls.close(1_000));
  const { registry, book, sandbox } = app;
  const durable = { store, approvals, book, logger, calls: () => calls, expertOf: () => undefined };
  const runs = new CodeRuns(registry, { ...durable, suspendAfter: 50 });
  registry.apply({ remove: [runToolName], put: [runTool({ registry, sandbox, runs }, "always")] });
  const running = calls.service.run({ name: runToolName, input: { code }, grant: masterGrant });
  await expect
    .poll(async () => (await approvals.list({ state: "pending" })).items.length, { timeout: 20_000 })
    .toBe(1);
  const box = await sandbox();
  await expect.poll(() => box.stats().busy, { timeout: 20_000 }).toBe(0);
  const [asked] = (await approvals.list({ state: "pending" })).items;
  await approvals.answer(asked!.id, { decision: "allow" }, { name: "tester", grant: masterGrant });
  const { result } = await running;
  const ran = await readFile(join(workspace.directory, "ran.txt"), "utf8");
  return { result, ran: ran.trim().split("\n") };
}
