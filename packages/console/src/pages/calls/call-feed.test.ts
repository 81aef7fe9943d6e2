// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { CallSummary } from "../../api/index.ts";
import { foldRepeats, type KeptFeed, keepFeed, keptFeed, mergeHead, rowOf, withEnd } from "./call-feed.ts";

it("puts new calls first, replaces those that changed and drops those that are gone", () => {
  const known = [call("b", 20, { status: "running" }), call("gone", 15), call("a", 10)];
  const head = [call("c", 30), call("b", 20), call("a2", 12)];
  expect(
    mergeHead(known, { items: head, next: "more" }).map(({ callId, status }) => `${callId} ${status}`),
  ).toEqual(["c completed", "b completed", "a2 completed", "a completed"]);
});

it("folds calls that only repeat the one before", () => {
  const calls = [
    call("5", 5),
    call("4", 4),
    call("3", 3, { status: "error" }),
    call("2", 2),
    call("1", 1, { parametersHash: "other" }),
  ];
  const folded = foldRepeats(calls, new Set());
  expect(folded.map(({ call: { callId }, repeats }) => [callId, repeats.length])).toEqual([
    ["5", 2],
    ["3", 1],
    ["2", 1],
    ["1", 1],
  ]);
  expect(foldRepeats(calls, new Set(["5", "4"]))).toHaveLength(5);
});

it("takes a page without a next one for all there is", () => {
  const known = [call("b", 20, { status: "running" }), call("a", 10, { status: "running" })];
  expect(mergeHead(known, { items: [] })).toEqual([]);
  expect(mergeHead(known, { items: [known[1]!] })).toEqual([known[1]]);
});

it("ends a call however far down it is, and drops it where only running ones are wanted", () => {
  const calls = [call("b", 20), call("a", 10, { status: "running" })];
  const ended = { type: "call.completed", data: { callId: "a", duration: 7 } };
  expect(withEnd(calls, ended, undefined)[1]).toMatchObject({
    callId: "a",
    status: "completed",
    duration: 7,
  });
  expect(withEnd(calls, ended, "running")).toEqual([calls[0]]);
  const cancelled = {
    type: "call.cancelled",
    data: { callId: "a", error: { code: "cancelled", message: "" } },
  };
  expect(withEnd(calls, cancelled, undefined)[1]).toMatchObject({
    status: "cancelled",
    error: { code: "cancelled" },
  });
  expect(withEnd(calls, { type: "call.completed", data: { callId: "b" } }, "running")).toBe(calls);
  expect(withEnd(calls, { type: "call.completed", data: { callId: "other" } }, undefined)).toBe(calls);
});

it("keeps what was unfolded open when it is repeated once more, and says that it can be folded", () => {
  const calls = [call("3", 3), call("2", 2), call("1", 1)];
  const rows = foldRepeats(calls, new Set(["2", "1"]));
  expect(rows.map(({ call: { callId }, foldable }) => [callId, foldable])).toEqual([
    ["3", 3],
    ["2", 1],
    ["1", 1],
  ]);
  expect(foldRepeats(calls, new Set())[0]).toMatchObject({ foldable: 1 });
  expect(rowOf(foldRepeats(calls, new Set()), "1")).toBe(0);
  expect(rowOf(rows, "1")).toBe(2);
});

function call(callId: string, timestamp: number, more: Partial<CallSummary> = {}): CallSummary {
  return {
    callId,
    timestamp,
    toolName: "poll",
    parametersHash: "same",
    caller: "me",
    status: "completed",
    ...more,
  };
}

const stepBack = { back: null, forward: "/calls/a" };
const feed = (top: number): KeptFeed => ({
  calls: [],
  next: "page 2",
  selected: "a",
  unfolded: new Set(),
  top,
});

it("gives the feed of a query back to who returns to it, and only to them", () => {
  keepFeed({ tool: "x" }, feed(700));
  expect(keptFeed({ tool: "x" }, stepBack)).toEqual(feed(700));
  expect(keptFeed({ tool: "x" }, { back: "/calls/a", forward: null })).toEqual(feed(700));
  expect(keptFeed({ tool: "y" }, stepBack)).toBeUndefined();
  expect(keptFeed({ tool: "x" }, { back: "/tools", forward: null })).toBeUndefined();
  expect(keptFeed({ tool: "x" }, null)).toBeUndefined();
});

it("keeps those that were left last", () => {
  for (let number = 0; number < 12; number++) keepFeed({ number }, feed(number));
  const known = Array.from({ length: 12 }, (_, number) => keptFeed({ number }, stepBack)?.top);
  expect(known).toEqual([undefined, undefined, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});
