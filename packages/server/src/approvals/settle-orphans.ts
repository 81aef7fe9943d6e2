import type { StoredApproval } from "../store/approvals/approval-store.ts";
import type { Store } from "../store/store.ts";

/** Closes the questions whose call died with its process: an answer to them could change nothing any more. */
export async function settleOrphans(
  { approvals, calls }: Pick<Store, "approvals" | "calls">,
  by: string,
): Promise<void> {
  await approvals.expire(Date.now());
  const refusal = { decision: "deny", reason: "the server stopped before anybody answered" } as const;
  let cursor: string | undefined;
  do {
    const page = await approvals.list({
      state: "pending",
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    });
    for (const approval of page.items) {
      if (!(await isAlive(approval, calls))) await approvals.decide(approval.id, refusal, by);
    }
    cursor = page.next;
  } while (cursor !== undefined);
}

/** Other processes that work on the same store have questions too. A call that a tool made is known by its parent. */
async function isAlive({ callId, parentCallId }: StoredApproval, calls: Store["calls"]): Promise<boolean> {
  const call = await calls.get(callId);
  if (call !== undefined) return call.outcome === "running";
  if (parentCallId === undefined) return false;
  return (await calls.get(parentCallId))?.outcome === "running";
}
