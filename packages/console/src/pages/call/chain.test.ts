import { expect, it } from "vitest";
import type { CallFacts } from "../../api/index.ts";
import { callIdsOf, parentIn, treeOf, waterfall } from "./chain.ts";

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

it("shows calls that were made in the same millisecond in the order in which they were made", () => {
  const made = (callId: string): CallFacts => ({ ...call(callId, 1_000, 0, 0), parentCallId: "root" });
  // As the server lists them: newest first.
  const tree = treeOf(call("root", 1_000, 1, 1), [made("third"), made("second"), made("first")]);
  const shown = waterfall(tree, 5_000).map((row) => row.call.callId);
  expect(shown).toEqual(["root", "first", "second", "third"]);
});

it("lets the bar of a call under way grow until now", () => {
  const running: CallFacts = { callId: "r", toolName: "t", status: "running", timestamp: 0 };
  expect(waterfall({ call: running, children: [] }, 500)[0]).toMatchObject({ start: 0, width: 1, waited: 0 });
});

it("shows the time of one call alone, and cuts off what lies beyond it", () => {
  const root = {
    call: call("root", 1_000, 100, 50),
    children: [
      { call: call("early", 1_000, 20, 20), children: [] },
      {
        call: call("middle", 1_040, 40, 20),
        children: [{ call: call("deep", 1_050, 10, 10), children: [] }],
      },
      { call: call("over", 1_070, 30, 30), children: [] },
    ],
  };
  const rows = waterfall(root, 5_000, "middle");
  expect(rows.map((row) => [row.call.callId, row.isOutside, row.start, row.width, row.waited])).toEqual([
    ["root", false, 0, 1, 0.25],
    ["early", true, 0, 0, 0],
    ["middle", false, 0, 1, 0.5],
    ["deep", false, 0.25, 0.25, 0],
    ["over", false, 0.75, 0.25, 0],
  ]);
  expect(waterfall(root, 5_000, "nowhere")).toEqual(waterfall(root, 5_000));
  expect(["deep", "middle", "root", "nowhere"].map((id) => parentIn(root, id))).toEqual([
    "middle",
    "root",
    undefined,
    undefined,
  ]);
});

function call(callId: string, timestamp: number, duration: number, runDuration: number): CallFacts {
  return { callId, toolName: "t", status: "completed", timestamp, duration, runDuration };
}
