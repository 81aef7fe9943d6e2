import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import type { StoredApproval } from "../store/approvals/approval-store.ts";
import { restoreMasked } from "./restore-masked.ts";

/** What another process decided, for the call that waits here: what was left masked is what it was. */
export function decisionByOther(
  { state, reason, arguments: edited, input }: StoredApproval,
  request: ApprovalRequest,
): ApprovalDecision {
  const said = reason === undefined ? {} : { reason };
  if (state !== "allowed") return { decision: "deny", ...said };
  if (edited === undefined) return { decision: "allow", ...said };
  // An object stays one.
  const restored = restoreMasked(edited, input, request.input) as Readonly<Record<string, unknown>>;
  return { decision: "allow", ...said, arguments: restored };
}
