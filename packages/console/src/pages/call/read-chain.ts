import { ApiError } from "../../api/api-error.ts";
import { request } from "../../api/request.ts";
import { readCall } from "../../api/run-call.ts";
import type { Call, CallFacts, CallPage } from "../../api/types.ts";
import type { TreeCall } from "./call-tree.ts";

/** A chain that is longer is shown as far as this. */
const MOST_CALLS = 1_000;
const DEEPEST = 20;

export interface Chain {
  readonly call: Call;
  readonly root: TreeCall;
  readonly isCut: boolean;
}

/** A call with the whole chain that it is part of. */
export async function readChain(callId: string, signal: AbortSignal): Promise<Chain> {
  const call = await readCall(callId, signal);
  let top: CallFacts = call;
  for (let height = 0; top.parentCallId !== undefined && height < DEEPEST; height++) {
    const parent = await readCall(top.parentCallId, signal).catch((thrown) => {
      // Old records are deleted, and a parent may be somebody else's: the chain begins where it can be seen.
      if (thrown instanceof ApiError && thrown.status === 404) return undefined;
      throw thrown;
    });
    if (parent === undefined) break;
    top = parent;
  }
  const budget = { left: MOST_CALLS };
  const root = await withChildren(top, 0, budget, signal);
  return { call, root, isCut: budget.left <= 0 };
}

async function withChildren(
  call: CallFacts,
  depth: number,
  budget: { left: number },
  signal: AbortSignal,
): Promise<TreeCall> {
  if (depth >= DEEPEST || budget.left <= 0) return { call, children: [] };
  const { items } = await request<CallPage>("/api/calls", {
    query: { parent: call.callId, limit: 500 },
    signal,
  });
  budget.left -= items.length;
  const children = await Promise.all(items.map((child) => withChildren(child, depth + 1, budget, signal)));
  return { call, children };
}
