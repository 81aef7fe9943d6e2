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

it("a run that waits for a person gives its worker back, and is run again when somebody answers", {
  timeout: 60_000,
}, async () => {
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
  const running = calls.service.run({ name: runToolName, input: { code: paying }, grant: masterGrant });
  await expect
    .poll(async () => (await approvals.list({ state: "pending" })).items.length, { timeout: 20_000 })
    .toBe(1);
  const box = await sandbox();
  await expect.poll(() => box.stats().busy, { timeout: 20_000 }).toBe(0);
  const [asked] = (await approvals.list({ state: "pending" })).items;
  await approvals.answer(asked!.id, { decision: "allow" }, { name: "tester", grant: masterGrant });
  const { result } = await running;
  expect(result.structured).toMatchObject({ paid: { n: 4 }, other: { n: 5 } });
  const ran = await readFile(join(workspace.directory, "ran.txt"), "utf8");
  expect(ran.trim().split("\n").toSorted()).toEqual([
    "note 1",
    "note 1",
    "note 2",
    "note 3",
    "note 5",
    "pay 4",
  ]);
});
