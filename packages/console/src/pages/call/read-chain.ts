import { ApiError } from "../../api/api-error.ts";
import { readCall } from "../../api/read-call.ts";
import { request } from "../../api/request.ts";
import type { Call, CallFacts, CallPage } from "../../api/types.ts";
import { type TreeCall, treeOf } from "./call-tree.ts";

/** A chain that is longer is shown as far as this. */
const MOST_CALLS = 2_000;
const HIGHEST = 50;

export interface Chain {
  readonly call: Call;
  readonly root: TreeCall;
  readonly isCut: boolean;
}

/** A call with the whole chain that it is part of. */
export async function readChain(callId: string, signal: AbortSignal): Promise<Chain> {
  const call = await readCall(callId, signal);
  const top = await topOf(call, signal);
  const calls: CallFacts[] = [];
  let cursor: string | undefined;
  do {
    const page = await request<CallPage>("/api/calls", {
      query: { root: top.callId, limit: 500, cursor },
      signal,
    });
    calls.push(...page.items);
    cursor = page.next;
  } while (cursor !== undefined && calls.length < MOST_CALLS);
  return { call, root: treeOf(top, calls), isCut: cursor !== undefined };
}

async function topOf(call: CallFacts, signal: AbortSignal): Promise<CallFacts> {
  let top = call;
  for (let height = 0; top.parentCallId !== undefined && height < HIGHEST; height++) {
    const parent = await readCall(top.parentCallId, signal).catch((thrown) => {
      // Old records are deleted, and a parent may be somebody else's: the chain begins where it can be seen.
      if (thrown instanceof ApiError && thrown.status === 404) return undefined;
      throw thrown;
    });
    if (parent === undefined) break;
    top = parent;
  }
  return top;
}
