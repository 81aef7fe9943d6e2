import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "./open-store.ts";
import type { Store } from "./store.ts";

const program = fileURLToPath(import.meta.resolve("./testing/crash-writer.fixture.ts"));

describe("a process that is killed while it writes", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-crash-"));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  test("loses nothing that was acknowledged, and what it left running is settled", {
    timeout: 60_000,
  }, async () => {
    for (let round = 0; round < 5; round++) {
      const prefix = `round${round}`;
      const acknowledged = await writeUntilKilled(directory, prefix, 200 + round * 377);
      expect(acknowledged.length).toBeGreaterThanOrEqual(200);

      const store = await openStore({ directory });
      await store.calls.settleInterrupted();
      for (const n of acknowledged) {
        expect(await store.calls.get(`${prefix}-${n}`)).toMatchObject({ outcome: "completed" });
        expect((await store.calls.readResult(`${prefix}-${n}`, 0, 20))?.text).toMatch(new RegExp(`^${n}:`));
      }
      expect((await store.calls.get(`${prefix}-endless`))?.outcome).toBe("interrupted");
      expect((await store.calls.list({ status: "running" })).items).toEqual([]);
      await store.close();
      expect(integrityOf(join(directory, "toolrack.db"))).toBe("ok");
    }
  });

  test("is told from one that lives, and from one that lives and is busy", { timeout: 30_000 }, async () => {
    const child = startWriter(directory, "living");
    const lines = createInterface(child.stdout);
    await once(lines, "line");
    const store: Store = await openStore({ directory });
    await expect.poll(async () => (await store.calls.get("living-endless"))?.outcome).toBe("running");
    expect(await store.calls.settleInterrupted()).toBe(0);
    expect((await store.calls.get("living-endless"))?.outcome).toBe("running");
    // A process that is stopped answers nothing, but has not ended.
    child.kill("SIGSTOP");
    expect(await store.calls.settleInterrupted()).toBe(0);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(await store.calls.settleInterrupted()).toBeGreaterThan(0);
    expect((await store.calls.get("living-endless"))?.outcome).toBe("interrupted");
    await store.close();
  });
});

/** The numbers that the writer said were written, of which there are at least as many as asked for. */
async function writeUntilKilled(directory: string, prefix: string, count: number): Promise<number[]> {
  const child = startWriter(directory, prefix);
  const ended = once(child, "exit");
  const acknowledged: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    acknowledged.push(Number(line));
    if (acknowledged.length === count) child.kill("SIGKILL");
  }
  expect(await ended).toEqual([null, "SIGKILL"]);
  return acknowledged;
}

function startWriter(directory: string, prefix: string) {
  const flags = ["--conditions=toolrack-source", program, directory, prefix];
  return spawn(process.execPath, flags, { stdio: ["ignore", "pipe", "inherit"] });
}

function integrityOf(file: string): unknown {
  const database = new DatabaseSync(file);
  try {
    return database.prepare("PRAGMA integrity_check").get()?.integrity_check;
  } finally {
    database.close();
  }
}
