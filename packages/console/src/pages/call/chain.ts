import { ApiError, type CallFacts, isUnderWay, readCall, readPages } from "../../api/index.ts";

/** After this many calls, no further page of a chain is read. */
const MOST_CALLS = 2_000;
const HIGHEST = 50;

/** A call and its chain, which begins at the topmost call that the token may see. */
export async function readChain(callId: string, signal: AbortSignal) {
  const call = await readCall(callId, signal);
  const top = await topOf(call, signal);
  const query = { root: top.callId, limit: 500 };
  const { items, hasMore } = await readPages("GET /api/calls", { query, signal }, MOST_CALLS);
  return { call, root: treeOf(top, items), isCut: hasMore };
}

/** The code that a call has run. Undefined for calls of other tools. The first call of a chain has its arguments. */
export function codeOf({
  toolName,
  parameters,
}: CallFacts & { readonly parameters?: Readonly<Record<string, unknown>> }): string | undefined {
  const code = toolName === "toolrack_run" ? parameters?.code : undefined;
  return typeof code === "string" ? code : undefined;
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

export interface TreeCall {
  readonly call: CallFacts;
  readonly children: readonly TreeCall[];
}

/** The chain as rows, with the time of each call relative to the whole chain or to the call `span`. */
export function waterfall(root: TreeCall, now: number, span?: string) {
  const calls = flatten(root, 0).map(({ call, level }) => {
    const begin = call.timestamp ?? now;
    const length = isUnderWay(call) ? Math.max(0, now - begin) : (call.duration ?? 0);
    return { call, level, begin, length, end: begin + length };
  });
  const chosen = calls.filter(({ call }) => call.callId === span);
  const spanned = chosen.length === 0 ? calls : chosen;
  const first = Math.min(...spanned.map(({ begin }) => begin));
  const whole = Math.max(1, Math.max(...spanned.map(({ end }) => end)) - first);
  const within = (moment: number) => Math.min(first + whole, Math.max(first, moment));
  return calls.map(({ call, level, begin, length, end }) => {
    const before = isUnderWay(call) ? 0 : Math.max(0, length - (call.runDuration ?? length));
    const shown = within(end) - within(begin);
    return {
      call,
      level,
      /** How long the call took, or has taken so far, in milliseconds. */
      length,
      // `start` and `width` of the bar are shares of the whole width. `waited`, the time before the tool ran,
      // is a share of the bar.
      start: (within(begin) - first) / whole,
      width: shown / whole,
      waited: shown === 0 ? 0 : (within(begin + before) - within(begin)) / shown,
      isOutside: end < first || begin > first + whole,
    };
  });
}

/**
 * Builds the tree of a chain from its calls, which are sorted newest first. Children are sorted oldest first.
 * Calls without a known parent are left out.
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

function flatten(tree: TreeCall, level: number): { call: CallFacts; level: number }[] {
  const children = tree.children.toSorted(
    (left, right) => (left.call.timestamp ?? 0) - (right.call.timestamp ?? 0),
  );
  return [{ call: tree.call, level }, ...children.flatMap((child) => flatten(child, level + 1))];
}
