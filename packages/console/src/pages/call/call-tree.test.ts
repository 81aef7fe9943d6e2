import { expect, it } from "vitest";
import type { CallFacts } from "../../api/types.ts";
import { callIdsOf, treeOf, waterfall } from "./call-tree.ts";

it("places each call on the common line of time, under the call that made it", () => {
  const root = {
    call: call("root", 1_000, 100, 80),
    children: [
      { call: call("late", 1_060, 40, 40), children: [] },
      { call: call("early", 1_020, 20, 20), children: [{ call: call("deep", 1_025, 5, 5), children: [] }] },
    ],
  };
  expect(
    waterfall(root, 5_000).map(({ call: { callId }, level, start, width, waited }) => [
      callId,
      level,
      start,
      width,
      waited,
    ]),
  ).toEqual([
    ["root", 0, 0, 1, 0.2],
    ["early", 1, 0.2, 0.2, 0],
    ["deep", 2, 0.25, 0.05, 0],
    ["late", 1, 0.6, 0.4, 0],
  ]);
});

it("makes a tree of a list of calls, and comes to an end when the records go in circles", () => {
  const made = (callId: string, parentCallId: string): CallFacts => ({
    ...call(callId, 0, 1, 1),
    parentCallId,
  });
  const calls = [made("c", "b"), made("b", "a"), made("other", "elsewhere"), made("a", "c")];
  expect(callIdsOf(treeOf(call("a", 0, 1, 1), calls))).toEqual(["a", "b", "c"]);
});

it("lets the bar of a call under way grow until now", () => {
  const running: CallFacts = { callId: "r", toolName: "t", status: "running", timestamp: 0 };
  expect(waterfall({ call: running, children: [] }, 500)[0]).toMatchObject({ start: 0, width: 1, waited: 0 });
});

function call(callId: string, timestamp: number, duration: number, runDuration: number): CallFacts {
  return { callId, toolName: "t", status: "completed", timestamp, duration, runDuration };
}
