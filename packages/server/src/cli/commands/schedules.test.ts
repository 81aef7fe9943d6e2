import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../store/store.ts";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";
import { runCli } from "../testing/run-cli.ts";

let workspace: TemporaryWorkspace;
beforeAll(async () => {
  workspace = await TemporaryWorkspace.create({ "tools/readme.txt": "" });
  const store = await openStore({ directory: join(workspace.directory, ".toolrack") });
  await store.schedules.add({
    id: "s1",
    toolName: "report",
    arguments: { day: "Monday" },
    caller: "http",
    timing: { kind: "every", interval: 300_000 },
    missed: "skip",
    nextRunAt: Date.UTC(2200, 0),
  });
  await store.close();
});
afterAll(() => workspace[Symbol.asyncDispose]());

const schedules = (...words: string[]) => runCli(["schedules", ...words], { cwd: workspace.directory });

describe("toolrack schedules", { timeout: 180_000 }, () => {
  it("lists what is to run later, and cancels one once", async () => {
    const listed = await schedules();
    expect(listed.stdout).toContain("2200-01-01T00:00:00Z");
    expect(listed.stdout).toContain("every@5m");
    expect(listed.stdout).toContain('report {"day":"Monday"}');
    expect((await schedules("cancel")).code).toBe(2);
    const cancelled = await schedules("cancel", "s1", "--json");
    expect(JSON.parse(cancelled.stdout)).toMatchObject({ schedule: { id: "s1", state: "cancelled" } });
    const again = await schedules("cancel", "s1");
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("cancelled already")]);
    expect((await schedules("cancel", "nothing")).stderr).toContain("There is no schedule");
    expect((await schedules()).stderr).toContain("Nothing is scheduled.");
    expect(JSON.parse((await schedules("--all", "--json")).stdout).schedules).toHaveLength(1);
  });
});
