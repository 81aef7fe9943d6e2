import { expect, it } from "vitest";
import type { CallSummary } from "../../api/types.ts";
import { foldRepeats, mergeHead } from "./call-feed.ts";

it("puts new calls first, replaces those that changed and drops those that are gone", () => {
  const known = [call("b", 20, { status: "running" }), call("gone", 15), call("a", 10)];
  const head = [call("c", 30), call("b", 20), call("a2", 12)];
  expect(mergeHead(known, head).map(({ callId, status }) => `${callId} ${status}`)).toEqual([
    "c completed",
    "b completed",
    "a2 completed",
    "a completed",
  ]);
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
