import type { AnsweredFor, ApprovalRule, StoredApproval } from "../store/approvals/approval-store.ts";

/** What a person says to a question. */
export interface Answer {
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  /** With `allow`: run with these arguments instead. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  /** Makes the answer a rule for calls to come. */
  readonly rule?: AnsweredFor;
}

export type NewRule = AnsweredFor & Pick<ApprovalRule, "caller" | "decision">;

export interface Answered {
  /** `elsewhere`: its call waits in another process, which could not be told before the question expires. */
  readonly outcome: "accepted" | "decided" | "elsewhere";
  readonly approval: StoredApproval;
}
