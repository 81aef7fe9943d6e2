import {
  closeSync,
  cpSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { problemsOf, type RepairReport, repairDatabase } from "./repair.ts";
import { openStore } from "./store.ts";
import { makeRecord, textResult } from "./testing/records.fixture.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const CALLS = 3_000;
const PAGE = 4096;
let whole: string;
let directory: string;
let file: string;
const said: string[] = [];
const logger = {
  warn: (text: unknown) => said.push(String(text)),
  error: (text: unknown) => said.push(String(text)),
};

beforeAll(async () => {
  whole = await mkdtemp(join(tmpdir(), "toolrack-whole-"));
  const store = await openStore({ directory: whole });
  for (let from = 0; from < CALLS; from += 500) {
    await Promise.all(
      Array.from({ length: 500 }, (_, n) =>
        store.calls.finished(
          makeRecord({ callId: `call-${from + n}` }),
          // Some are longer than a page and go on in others.
          textResult(`${from + n}:${"é".repeat((from + n) % 50 === 0 ? 20_000 : 200)}`),
        ),
      ),
    );
  }
  for (const name of ["revoked", "kept"]) {
    const token = { id: name, name, scopes: { tools: ["*"] }, createdAt: 1 };
    await store.tokens.add(token, `hash of ${name}`);
  }
  await store.tokens.remove("revoked");
  await store.close();
});
afterAll(() => rm(whole, { recursive: true, force: true }));
beforeEach(async () => {
  said.length = 0;
  directory = await mkdtemp(join(tmpdir(), "toolrack-repair-"));
  cpSync(whole, directory, { recursive: true });
  file = join(directory, "toolrack.db");
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Overwrites pages with noise, from the one with this number on. */
function damage(path: string, page: number, pages = 1, at = 0): void {
  const handle = openSync(path, "r+");
  const noise = Buffer.from(Array.from({ length: PAGE * pages }, (_, n) => (n * 7919 + 13) & 0xff));
  writeSync(handle, noise, 0, noise.length, at + (page - 1) * PAGE);
  closeSync(handle);
}

const callsOf = (report: RepairReport) => report.tables.find(({ name }) => name === "calls");

async function expectUsable(): Promise<void> {
  expect(problemsOf(file)).toEqual([]);
  const store = await openStore({ directory, logger });
  await store.calls.finished(makeRecord({ callId: "afterwards" }), textResult("ok"));
  expect((await store.calls.get("afterwards"))?.outcome).toBe("completed");
  expect((await store.tokens.list()).map(({ name }) => name)).toEqual(["kept"]);
  await store.close();
}

const roots = () => {
  const database = new DatabaseSync(join(whole, "toolrack.db"), { readOnly: true });
  try {
    return database.prepare("select name, rootpage from sqlite_schema where type = 'table'").all();
  } finally {
    database.close();
  }
};

describe("a database whose file is damaged", () => {
  test("is refused with what to do about it", async () => {
    damage(file, 1);
    await expect(openStore({ directory, logger })).rejects.toThrow(
      /Cannot open .*toolrack\.db: file is not a database\. The file is damaged\. Run `toolrack doctor --repair`/,
    );
  });

  test("somewhere in the middle loses no more than what was there", async () => {
    const pages = statSync(file).size / PAGE;
    damage(file, Math.floor(pages / 2), 3);
    const before = readFileSync(file);
    const report = await repairDatabase(directory);
    expect(report.problems.length).toBeGreaterThan(0);
    expect(readFileSync(join(report.backup!, "toolrack.db")).equals(before)).toBe(true);
    expect(callsOf(report)!.saved).toBeGreaterThan(CALLS - 100);
    expect(callsOf(report)!.saved).toBeLessThan(CALLS);
    expect(callsOf(report)!.lost).toBeGreaterThan(0);
    await expectUsable();
  });

  test("at the root of the calls still has them all", async () => {
    const root = Number(roots().find(({ name }) => name === "calls")!.rootpage);
    damage(file, root);
    const report = await repairDatabase(directory);
    expect(callsOf(report)!.saved).toBe(CALLS);
    await expectUsable();
  });

  test("in its first page, without which SQLite reads nothing, still has its calls, and nothing that was deleted", async () => {
    damage(file, 1);
    const report = await repairDatabase(directory);
    expect(callsOf(report)!.saved).toBe(CALLS);
    const store = await openStore({ directory, logger });
    expect((await store.calls.get("call-2950"))?.result.content).toBe(`2950:${"é".repeat(20_000)}`);
    await store.close();
    await expectUsable();
  });

  test("cut off at the end keeps what is before", async () => {
    truncateSync(file, Math.floor(statSync(file).size / 2));
    const report = await repairDatabase(directory);
    expect(callsOf(report)!.saved).toBeGreaterThan(CALLS / 4);
    await expectUsable();
  });

  test("all over gives an empty one that works, and the backup", async () => {
    damage(file, 1, statSync(file).size / PAGE);
    const report = await repairDatabase(directory);
    expect(callsOf(report)!.saved).toBe(0);
    expect(existsSync(join(report.backup!, "toolrack.db"))).toBe(true);
    expect(problemsOf(file)).toEqual([]);
  });
});

test("a database that is whole is left as it is", async () => {
  const before = readFileSync(file);
  expect(await repairDatabase(directory)).toEqual({ problems: [], tables: [] });
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(readdirSync(directory).filter((name) => /damaged|repair/.test(name))).toEqual([]);
});

test("a database that somebody has open is not touched", async () => {
  const store = await openStore({ directory, logger });
  await expect(repairDatabase(directory)).rejects.toThrow(/has the store open\. Stop it first/);
  await store.close();
});

describe("the log beside the database", () => {
  const wal = () => `${file}-wal`;
  /** Leaves changes that are only in the log, as a process that was killed does. */
  const leaveLog = () => {
    const copy = join(directory, "..", `${Date.now()}-copy.db`);
    const database = new DatabaseSync(file);
    database.exec(
      "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table if not exists noted (n)",
    );
    for (let n = 0; n < 40; n++) database.prepare("insert into noted values (?)").run("n".repeat(3_000));
    cpSync(wal(), copy);
    const main = readFileSync(file);
    database.close();
    writeFileSync(file, main);
    cpSync(copy, wal());
    return rm(copy);
  };
  const noted = () => {
    const database = new DatabaseSync(file);
    try {
      return Number(database.prepare("select count(*) as count from noted").get()!.count);
    } finally {
      database.close();
    }
  };

  test("is read as SQLite reads it, and nothing is said when it is whole", async () => {
    await leaveLog();
    await (await openStore({ directory, logger })).close();
    expect(said).toEqual([]);
    expect(noted()).toBe(40);
  });

  test("loses what is behind a damaged place, which is said, and a copy is kept", async () => {
    await leaveLog();
    damage(wal(), 1, 1, Math.floor(statSync(wal()).size / 2));
    const store = await openStore({ directory, logger });
    expect(said).toEqual([
      expect.stringMatching(/toolrack\.db-wal is damaged: \d+ of its pages could be read, .* left out/),
    ]);
    expect((await store.calls.get("call-7"))?.outcome).toBe("completed");
    await store.close();
    expect(noted()).toBeGreaterThan(5);
    expect(noted()).toBeLessThan(40);
    expect(readdirSync(directory).filter((name) => name.includes("-wal.damaged-"))).toHaveLength(1);
  });

  test("that is nothing but noise does not keep the store from opening, and is told of", async () => {
    writeFileSync(wal(), Buffer.from(Array.from({ length: 50_000 }, (_, n) => (n * 31) & 0xff)));
    const store = await openStore({ directory, logger });
    expect(said).toEqual([expect.stringContaining("is damaged: 0 of its pages could be read")]);
    expect((await store.calls.get("call-7"))?.outcome).toBe("completed");
    await store.close();
  });
});
