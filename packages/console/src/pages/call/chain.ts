import { ApiError, type Call, type CallFacts, isUnderWay, readCall, readPages } from "../../api/index.ts";

/** Longer chains are cut. */
const MOST_CALLS = 2_000;
const HIGHEST = 50;

export interface Chain {
  readonly call: Call;
  readonly root: TreeCall;
  readonly isCut: boolean;
}

export async function readChain(callId: string, signal: AbortSignal): Promise<Chain> {
  const call = await readCall(callId, signal);
  const top = await topOf(call, signal);
  const query = { root: top.callId, limit: 500 };
  const { items, hasMore } = await readPages("GET /api/calls", { query, signal }, MOST_CALLS);
  return { call, root: treeOf(top, items), isCut: hasMore };
}

async function topOf(call: CallFacts, signal: AbortSignal): Promise<CallFacts> {
  let top = call;
  for (let height = 0; top.parentCallId !== undefined && height < HIGHEST; height++) {
    const parent = await readCall(top.parentCallId, signal).catch((thrown) => {
      // The parent may be deleted or belong to somebody else: the chain begins at the first visible call.
      if (thrown instanceof ApiError && thrown.status === 404) return undefined;
      throw thrown;
    });
    if (parent === undefined) break;
    top = parent;
  }
  return top;
}

export interface TreeCall<Facts extends CallFacts = CallFacts> {
  readonly call: Facts;
  readonly children: readonly TreeCall<Facts>[];
}

export interface WaterfallRow<Facts extends CallFacts = CallFacts> {
  readonly call: Facts;
  readonly level: number;
  /** As shares of the whole width: start of the bar, its length, and the part before the tool ran. */
  readonly start: number;
  readonly width: number;
  readonly waited: number;
  readonly isOutside: boolean;
}

/** The chain as rows, with the time of each call relative to the whole chain or to the call `span`. */
export function waterfall<Facts extends CallFacts>(
  root: TreeCall<Facts>,
  now: number,
  span?: string,
): WaterfallRow<Facts>[] {
  const calls = flatten(root, 0);
  const begins = calls.map(({ call }) => call.timestamp ?? now);
  const ends = calls.map(({ call }, index) => begins[index]! + lengthOf(call, begins[index]!, now));
  const chosen = calls.findIndex(({ call }) => call.callId === span);
  const first = chosen < 0 ? Math.min(...begins) : begins[chosen]!;
  const last = chosen < 0 ? Math.max(...ends) : ends[chosen]!;
  const whole = Math.max(1, last - first);
  const within = (moment: number) => Math.min(first + whole, Math.max(first, moment));
  return calls.map(({ call, level }, index) => {
    const begin = begins[index]!;
    const end = ends[index]!;
    const before = !isUnderWay(call) ? Math.max(0, end - begin - (call.runDuration ?? end - begin)) : 0;
    const length = within(end) - within(begin);
    return {
      call,
      level,
      start: (within(begin) - first) / whole,
      width: length / whole,
      waited: length === 0 ? 0 : (within(begin + before) - within(begin)) / length,
      isOutside: end < first || begin > first + whole,
    };
  });
}

/**
 * Builds the tree of a chain from a list, newest first. Children are sorted oldest first. Calls without a known parent
 * are left out.
 */
export function treeOf(root: CallFacts, calls: readonly CallFacts[]): TreeCall {
  const byParent = Map.groupBy(calls.toReversed(), ({ parentCallId }) => parentCallId);
  // Each call is placed once, even if records are damaged.
  const placed = new Set([root.callId]);
  const grow = (call: CallFacts): TreeCall => {
    const children = (byParent.get(call.callId) ?? []).filter(({ callId }) => !placed.has(callId));
    for (const { callId } of children) placed.add(callId);
    return { call, children: children.map(grow) };
  };
  return grow(root);
}

/** The id of a call's parent in the chain; undefined for the root and for unknown calls. */
export function parentIn(tree: TreeCall, callId: string): string | undefined {
  if (tree.children.some(({ call }) => call.callId === callId)) return tree.call.callId;
  for (const child of tree.children) {
    const found = parentIn(child, callId);
    if (found !== undefined) return found;
  }
  return undefined;
}

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
  return isUnderWay(call) ? Math.max(0, now - begin) : (call.duration ?? 0);
}
