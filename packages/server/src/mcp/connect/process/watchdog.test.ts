import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { processesWith } from "../testing/upstream-rack.fixture.ts";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

it.skipIf(process.platform !== "linux")(
  "a rack that is killed without warning leaves no process of its servers behind",
  { timeout: 60_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "toolrack-watchdog-"));
    const value = crypto.randomUUID();
    const seconds = `${100_000 + Math.floor(Math.random() * 1e6)}.75`;
    const sleepers = () =>
      execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
        .split("\n")
        .filter((line) => line === `sleep ${seconds}`);
    // It ignores the end of its input and SIGTERM, and has children that left its group, one without any environment.
    const entry = {
      command: process.execPath,
      args: [at("../testing/odd-server.fixture.mjs"), "deaf", "daemon", "orphan"],
      env: { ODD_TEST: value, ODD_SLEEP: seconds },
    };
    const rack = spawn(
      process.execPath,
      [
        "--conditions=toolrack-source",
        at("../testing/rack-process.fixture.ts"),
        folder,
        JSON.stringify(entry),
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    try {
      await new Promise((resolve, reject) => {
        rack.stdout.once("data", resolve);
        rack.once("exit", () => reject(new Error("The rack ended before it was ready.")));
      });
      // Who starts the one without an environment may be there a moment longer.
      await expect.poll(() => processesWith(`ODD_TEST=${value}`)).toHaveLength(2);
      expect(sleepers()).toHaveLength(1);
      rack.kill("SIGKILL");
      const deadline = Date.now() + 30_000;
      while ((await processesWith(`ODD_TEST=${value}`)).length > 0 && Date.now() < deadline) await delay(50);
      expect(await processesWith(`ODD_TEST=${value}`)).toEqual([]);
      while (sleepers().length > 0 && Date.now() < deadline) await delay(50);
      expect(sleepers()).toEqual([]);
    } finally {
      rack.kill("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    }
  },
);
