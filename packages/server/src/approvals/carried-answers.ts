import { isDeepStrictEqual } from "node:util";
import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import type { StoredApproval } from "../store/approvals/approval-store.ts";

/** Answers to questions that outlived their calls, for the calls that are made in their place. */
export class CarriedAnswers {
  readonly #byCall = new Map<string, Set<StoredApproval>>();

  /** For what the call with this id makes itself. Returns how to take back what was not used. */
  add(approval: StoredApproval, callId: string): () => void {
    const carried = this.#byCall.get(callId) ?? new Set();
    this.#byCall.set(callId, carried.add(approval));
    return () => this.#drop(callId, approval);
  }

  /** The answer, once, if the same tool is called with the same arguments. */
  take({ parentCallId = "", toolName, input, stage }: ApprovalRequest): ApprovalDecision | undefined {
    if (stage !== "before") return undefined;
    const approval = [...(this.#byCall.get(parentCallId) ?? [])].find(
      (carried) => carried.toolName === toolName && isDeepStrictEqual(carried.input, input),
    );
    if (approval === undefined) return undefined;
    this.#drop(parentCallId, approval);
    return { decision: "allow", ...(approval.arguments && { arguments: approval.arguments }) };
  }

  #drop(callId: string, approval: StoredApproval): void {
    const carried = this.#byCall.get(callId);
    carried?.delete(approval);
    if (carried?.size === 0) this.#byCall.delete(callId);
  }
}
