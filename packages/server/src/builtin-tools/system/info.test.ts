import os from "node:os";
import { expect, test } from "vitest";
import { openTestWorkspace } from "../testing/tool-rig.ts";
import info from "./info.ts";

test("describes the machine and the disk of the workspace", async () => {
  await using workspace = await openTestWorkspace();
  const result = await workspace.call(info, {});
  expect(result.structured).toMatchObject({
    os: { platform: os.platform(), kernel: os.release(), arch: os.arch() },
    cpu: { count: os.cpus().length },
    memory: { total: os.totalmem() },
    node: process.version,
    workspace: workspace.directory,
  });
  const { disk, load } = result.structured as { disk: { total: number; free: number }; load: number[] };
  expect(disk.total).toBeGreaterThan(disk.free);
  expect(disk.free).toBeGreaterThan(0);
  expect(load).toHaveLength(3);
  expect(result.content).toContain(`Node: ${process.version}`);
});

test("tells nothing of the environment", async () => {
  process.env.SECRET_TOKEN_FOR_INFO = "hush-hush";
  await using workspace = await openTestWorkspace();
  const result = await workspace.call(info, {});
  delete process.env.SECRET_TOKEN_FOR_INFO;
  expect(JSON.stringify(result)).not.toContain("hush-hush");
});
