import type { CallFacts } from "../../api/types.ts";

export interface TreeCall<Facts extends CallFacts = CallFacts> {
  readonly call: Facts;
  readonly children: readonly TreeCall<Facts>[];
}

export interface WaterfallRow<Facts extends CallFacts = CallFacts> {
  readonly call: Facts;
  readonly level: number;
  /** Shares of the whole width: where the bar begins, how long it is, and the part before the tool itself ran. */
  readonly start: number;
  readonly width: number;
  readonly waited: number;
}

/** The chain as rows, each call under the one that made it, with its place on the common line of time. */
export function waterfall<Facts extends CallFacts>(
  root: TreeCall<Facts>,
  now: number,
): WaterfallRow<Facts>[] {
  const calls = flatten(root, 0);
  const begins = calls.map(({ call }) => call.timestamp ?? now);
  const ends = calls.map(({ call }, index) => begins[index]! + lengthOf(call, begins[index]!, now));
  const first = Math.min(...begins);
  const whole = Math.max(1, Math.max(...ends) - first);
  return calls.map(({ call, level }, index) => {
    const length = ends[index]! - begins[index]!;
    const before = isEnded(call) ? Math.max(0, length - (call.runDuration ?? length)) : 0;
    return {
      call,
      level,
      start: (begins[index]! - first) / whole,
      width: length / whole,
      waited: length === 0 ? 0 : before / length,
    };
  });
}

/** Puts each call under the one that made it. What was made by nobody who is there is left out. */
export function treeOf(root: CallFacts, calls: readonly CallFacts[]): TreeCall {
  const byParent = Map.groupBy(calls, ({ parentCallId }) => parentCallId);
  // Nobody is put into the tree twice, whatever the records say.
  const placed = new Set([root.callId]);
  const grow = (call: CallFacts): TreeCall => {
    const children = (byParent.get(call.callId) ?? []).filter(({ callId }) => !placed.has(callId));
    for (const { callId } of children) placed.add(callId);
    return { call, children: children.map(grow) };
  };
  return grow(root);
}

/** Every call of the chain. */
export function callIdsOf(tree: TreeCall): string[] {
  return [tree.call.callId, ...tree.children.flatMap(callIdsOf)];
}

function flatten<Facts extends CallFacts>(
  tree: TreeCall<Facts>,
  level: number,
): { call: Facts; level: number }[] {
  const children = tree.children.toSorted(
    (left, right) => (left.call.timestamp ?? 0) - (right.call.timestamp ?? 0),
  );
  return [{ call: tree.call, level }, ...children.flatMap((child) => flatten(child, level + 1))];
}

function lengthOf(call: CallFacts, begin: number, now: number): number {
  return isEnded(call) ? (call.duration ?? 0) : Math.max(0, now - begin);
}

function isEnded({ status }: CallFacts): boolean {
  return status !== "running" && status !== "pending";
}
