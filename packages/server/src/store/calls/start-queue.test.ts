import { expect, test } from "vitest";
import type { CallRow } from "../schema.ts";
import { StartQueue } from "./call-writer.ts";

const rowOf = (call_id: string) => () => ({ call_id }) as CallRow; // The queue looks at nothing in it.
const idsOf = (rows: readonly CallRow[]) => rows.map(({ call_id }) => call_id);

test("gives rows in the order in which calls began, once they are due, and each once", () => {
  const queue = new StartQueue();
  for (const [id, due] of Object.entries({ a: 1, b: 2, c: 3 })) queue.set(id, { due, makeRow: rowOf(id) });
  expect(queue.entries.size).toBe(3);
  expect(idsOf(queue.take(0, 10))).toEqual([]);
  expect(idsOf(queue.take(2, 10))).toEqual(["a", "b"]);
  expect(idsOf(queue.take(9, 10))).toEqual(["c"]);
  expect(queue.entries.size).toBe(0);
  expect(idsOf(queue.take(9, 10))).toEqual([]);
});

test("never makes the row of a call that has ended", () => {
  const queue = new StartQueue();
  const makeRow = () => {
    throw new Error("nobody needs it");
  };
  queue.set("ended", { due: 1, makeRow });
  queue.set("running", { due: 1, makeRow: rowOf("running") });
  queue.entries.delete("ended");
  queue.entries.delete("unknown");
  expect(queue.entries.size).toBe(1);
  expect(idsOf(queue.take(1, 10))).toEqual(["running"]);
});

test("leaves out a call whose row cannot be made", () => {
  const queue = new StartQueue();
  const makeRow = () => {
    throw new TypeError("text.slice is not a function");
  };
  queue.set("bad", { due: 1, makeRow });
  queue.set("good", { due: 1, makeRow: rowOf("good") });
  expect(idsOf(queue.take(1, 10))).toEqual(["good"]);
  expect(queue.entries.size).toBe(0);
});

test("gives no more than is asked for, and the rest the next time, also when most have ended", () => {
  const queue = new StartQueue();
  for (let at = 0; at < 5_000; at++) {
    queue.set(String(at), { due: 0, makeRow: rowOf(String(at)) });
    if (at % 1_000 !== 0) queue.entries.delete(String(at));
  }
  expect(idsOf(queue.take(1, 2))).toEqual(["0", "1000"]);
  expect(idsOf(queue.take(1, 2))).toEqual(["2000", "3000"]);
  expect(idsOf(queue.take(1, 2))).toEqual(["4000"]);
  expect(queue.entries.size).toBe(0);
});

test("says whether a row has been held back long enough, whatever has ended before it", () => {
  const queue = new StartQueue();
  expect(queue.isDue(9)).toBe(false);
  queue.set("ended", { due: 1, makeRow: rowOf("ended") });
  queue.set("running", { due: 5, makeRow: rowOf("running") });
  queue.entries.delete("ended");
  expect(queue.isDue(4)).toBe(false);
  expect(queue.isDue(5)).toBe(true);
  expect(idsOf(queue.take(5, 10))).toEqual(["running"]);
  expect(queue.isDue(9)).toBe(false);
});
