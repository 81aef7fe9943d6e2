import type { StoredApproval } from "../store/approvals/approval-store.ts";
import type { Store } from "../store/store.ts";

/** Who made the first call of the chain that asks, by what is on record of calls in other processes. */
export async function firstCallerOf(
  { caller, parentCallId }: StoredApproval,
  calls: Pick<Store["calls"], "get">,
): Promise<string> {
  const seen = new Set<string>();
  let first = caller;
  for (let at = parentCallId; at !== undefined && !seen.has(at); ) {
    seen.add(at);
    const call = await calls.get(at);
    first = call?.caller ?? first;
    at = call?.parentCallId;
  }
  return first;
}
