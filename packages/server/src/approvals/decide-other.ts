import type { ApprovalDecision } from "@toolrack/core";
import type { ApprovalStore } from "../store/approvals/approval-store.ts";
import type { Answer, Answered } from "./answer.ts";
import { decisionForOther } from "./decision-for-other.ts";
import { type AnswerReading, decisionOf } from "./decision-of.ts";

export interface DecideOtherParts {
  readonly approvals: ApprovalStore;
  readonly reading: AnswerReading;
  /** Whether this process can make a call anew. */
  readonly canResume: boolean;
}

export interface DecidedOther extends Answered {
  /** With `accepted`, when the process of the call is gone: what is left for this one to do. */
  readonly left?: ApprovalDecision;
}

/**
 * Decides a question whose call does not wait in this process: the process where it waits takes the answer, or, when that
 * is gone, this one. Throws `UnfitAnswer`. Undefined when there is no such question.
 */
export async function decideOther(
  id: string,
  answer: Answer,
  by: string,
  { approvals, reading, canResume }: DecideOtherParts,
): Promise<DecidedOther | undefined> {
  const approval = await approvals.get(id);
  if (approval === undefined) return undefined;
  if (approval.state !== "pending") return { outcome: "decided", approval };
  const isLeft = canResume && (await approvals.isOrphan(id));
  const decision = await (isLeft ? decisionOf : decisionForOther)(answer, approval, reading);
  const decided = isLeft
    ? await approvals.decide(id, decision, by, answer.rule)
    : await approvals.decideElsewhere(id, decision, by, answer.rule);
  if (decided === undefined) return undefined;
  if (decided.isAccepted) {
    return { outcome: "accepted", approval: decided.approval, ...(isLeft ? { left: decision } : {}) };
  }
  const outcome = decided.approval.state === "pending" ? "elsewhere" : "decided";
  return { outcome, approval: decided.approval };
}
