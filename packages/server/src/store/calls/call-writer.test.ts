import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { makeRecord, textResult } from "../testing/records.fixture.ts";
import { CallJournal } from "./call-journal.ts";
import { prepareFinished, toFinishedRow } from "./call-row.ts";
import { CallWriter } from "./call-writer.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "toolrack-writer-"));
  vi.useFakeTimers();
});

afterEach(async () => {
  vi.useRealTimers();
  await rm(directory, { recursive: true, force: true });
});

const makeRow = () => toFinishedRow(prepareFinished(makeRecord(), textResult("done"), "instance"));

function openWriter() {
  /** How many rows each transaction had. */
  const written: number[] = [];
  const sink = {
    write: async (rows: readonly object[]) => void written.push(rows.length),
    writeAlone: async () => true,
  };
  const journal = new CallJournal(join(directory, "journal.jsonl"), (error) => {
    throw error;
  });
  return { writer: new CallWriter(sink, { journal }), written };
}

test("calls that come one by one are safe at once, and share a transaction a moment later", async () => {
  const { writer, written } = openWriter();
  for (let call = 0; call < 4; call++) {
    const safe = writer.finished(makeRow());
    await vi.advanceTimersByTimeAsync(5);
    await safe;
  }
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(100);
  expect(written).toEqual([4]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(written).toEqual([4]);
});

test("a call that takes long has its beginning written soon, together with what waits", async () => {
  const { writer, written } = openWriter();
  const safe = writer.finished(makeRow());
  await vi.advanceTimersByTimeAsync(1);
  await safe;
  const row = { ...makeRow(), call_id: "long", state: "running" } as const;
  writer.started("long", () => row);
  await vi.advanceTimersByTimeAsync(11);
  expect(written).toEqual([2]);
});

test("many that wait are not held back", async () => {
  const { writer, written } = openWriter();
  for (let call = 0; call < 500; call++) {
    void writer.finished(makeRow());
    await vi.advanceTimersByTimeAsync(0);
  }
  expect(written.reduce((sum, rows) => sum + rows, 0)).toBe(500);
});
