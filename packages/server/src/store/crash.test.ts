import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { testDepth } from "../../../../scripts/test-depth.ts";
import { openStore, type Store } from "./store.ts";

const writer = fileURLToPath(import.meta.resolve("./testing/crash-writer.fixture.ts"));
const journalWriter = fileURLToPath(import.meta.resolve("./calls/testing/journal-writer.fixture.ts"));
const opener = fileURLToPath(import.meta.resolve("./calls/testing/opener.fixture.ts"));

describe("a process that is killed while it writes", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-crash-"));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  test("loses nothing that was acknowledged, and what it left running is settled", {
    timeout: 600_000,
  }, async () => {
    for (let round = 0; round < testDepth(10, 2); round++) {
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
    const child = start(writer, directory, "living");
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

describe("a process that is killed between the journal and the database", () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "toolrack-crash-"));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  test("leaves calls that the next one finds as they were told", { timeout: 30_000 }, async () => {
    await leaveJournal(directory, "lost", 10);
    expect(statesIn(directory)).toEqual({ "lost-endless": "running", "lost-noted": "running" });
    const store = await openStore({ directory });
    expect(await store.calls.settleInterrupted()).toBe(1);
    expect(journalsIn(directory)).toEqual([]);
    expect((await store.calls.get("lost-endless"))?.outcome).toBe("interrupted");
    expect(await store.calls.get("lost-noted")).toMatchObject({
      result: { content: "noted first" },
      log: [{ level: "warn", text: "said before" }],
    });
    expect(await store.calls.get("lost-long")).toMatchObject({
      replayOf: "the-original",
      result: { content: "a part" },
      resultSize: 30_007,
    });
    expect((await store.calls.readResult("lost-long", 29_999, 50))?.text).toBe("長the end");
    for (let n = 0; n < 10; n++) {
      expect((await store.calls.get(`lost-${n}`))?.result.content).toBe(`${n}:`);
    }
    const twins = (await store.calls.list({ session: "lost" })).items.filter(({ callId }) =>
      callId.startsWith("lost-twin"),
    );
    expect(twins.map(({ result }) => result.content).sort()).toEqual(["first", "second"]);
    await store.close();
  });

  test("leaves each call once, however many start at the same time", { timeout: 600_000 }, async () => {
    const ids = ["endless", "noted", "long", "twin"];
    for (let n = 0; n < 190; n++) ids.push(String(n));
    for (let round = 0; round < 2; round++) {
      const prefix = `round${round}`;
      await leaveJournal(directory, prefix, 190);
      const openers = Array.from({ length: 3 }, () => start(opener, directory));
      await Promise.all(openers.map(({ stdout }) => once(stdout, "data")));
      const ends = openers.map((child) => once(child, "exit"));
      for (const { stdin } of openers) stdin.write("go\n");
      expect(await Promise.all(ends)).toEqual(openers.map(() => [0, null]));
      const states = statesIn(directory, prefix);
      const twin = Object.keys(states).find((id) => id.includes("~"));
      expect(Object.keys(states).sort()).toEqual([...ids.map((id) => `${prefix}-${id}`), twin].sort());
      expect(Object.keys(states).filter((id) => states[id] !== "completed")).toEqual([`${prefix}-endless`]);
      expect(states[`${prefix}-endless`]).toBe("interrupted");
      expect(readdirSync(join(directory, "instances"))).toEqual([]);
    }
  });

  test("is told from one that lives, whose journal nobody touches", { timeout: 30_000 }, async () => {
    const child = start(journalWriter, directory, "living", "10");
    await once(child.stdout, "data");
    const before = journalsIn(directory);
    child.kill("SIGSTOP");
    const store = await openStore({ directory });
    expect(await store.calls.settleInterrupted()).toBe(0);
    expect(journalsIn(directory)).toEqual(before);
    expect(await store.calls.get("living-0")).toBeUndefined();
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(await store.calls.settleInterrupted()).toBe(1);
    expect((await store.calls.get("living-0"))?.outcome).toBe("completed");
    expect(journalsIn(directory)).toEqual([]);
    await store.close();
  });
});

/** Has a process write calls to its journal, and kills it before the database has them. */
async function leaveJournal(directory: string, prefix: string, count: number): Promise<void> {
  const child = start(journalWriter, directory, prefix, String(count));
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(journalsIn(directory)).toHaveLength(1);
}

function journalsIn(directory: string): string[] {
  return readdirSync(join(directory, "instances")).filter((name) => name.endsWith(".jsonl"));
}

/** Read behind the back of every store. */
function statesIn(directory: string, session = "%"): Record<string, unknown> {
  const database = new DatabaseSync(join(directory, "toolrack.db"));
  try {
    const rows = database.prepare("SELECT call_id, state FROM calls WHERE session_id LIKE ?").all(session);
    return Object.fromEntries(rows.map(({ call_id, state }) => [call_id, state]));
  } finally {
    database.close();
  }
}

/** The numbers that the writer said were written, of which there are at least as many as asked for. */
async function writeUntilKilled(directory: string, prefix: string, count: number): Promise<number[]> {
  const child = start(writer, directory, prefix);
  const ended = once(child, "exit");
  const acknowledged: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    acknowledged.push(Number(line));
    if (acknowledged.length === count) child.kill("SIGKILL");
  }
  expect(await ended).toEqual([null, "SIGKILL"]);
  return acknowledged;
}

function start(program: string, ...words: readonly string[]) {
  const flags = ["--conditions=toolrack-source", program, ...words];
  return spawn(process.execPath, flags, { stdio: ["pipe", "pipe", "inherit"] });
}

function integrityOf(file: string): unknown {
  const database = new DatabaseSync(file);
  try {
    return database.prepare("PRAGMA integrity_check").get()?.integrity_check;
  } finally {
    database.close();
  }
}
