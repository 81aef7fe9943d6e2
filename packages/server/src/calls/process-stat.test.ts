import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { processIds, processStat } from "../helpers/processes.ts";

const isLinux = process.platform === "linux";

it.skipIf(!isLinux)("a process is seen with its parent and group, whatever its name is", async () => {
  // The name of this one has a bracket, a space and digits in it, like the fields that follow.
  const script = `process.title = "a) R 1 2"; console.log("here"); setInterval(() => {}, 1000)`;
  const child = spawn(process.execPath, ["-e", script], { detached: true });
  await once(child.stdout, "data");
  const id = child.pid ?? 0;
  const seen = processStat(id);
  expect(seen).toMatchObject({ id, parent: process.pid, group: id, isOver: false });
  expect(seen?.cpuSeconds).toBeGreaterThanOrEqual(0);
  expect(processIds()).toContain(id);
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
  expect(processStat(id)).toBeUndefined();
});

it.skipIf(!isLinux)("the time at which it was started stays what it is", () => {
  const { startedAt } = processStat(process.pid) ?? {};
  expect(startedAt).toMatch(/^\d+$/);
  expect(processStat(process.pid)?.startedAt).toBe(startedAt);
});

it("a process that is not there is not seen", () => {
  expect(processStat(2 ** 30)).toBeUndefined();
});
