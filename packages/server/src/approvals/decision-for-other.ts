import { isDeepStrictEqual } from "node:util";
import type { ApprovalDecision } from "@toolrack/core";
import type { StoredApproval } from "../store/approvals/approval-store.ts";
import type { Answer } from "./answer.ts";
import { type AnswerReading, decisionOf } from "./decision-of.ts";
import { UnfitAnswer } from "./unfit-answer.ts";

/**
 * What an answer means for a call that waits in another process, which reads it from the store. Throws `UnfitAnswer` for
 * arguments that the tool could not run with, and for secrets, which the store does not keep.
 */
export async function decisionForOther(
  answer: Answer,
  approval: StoredApproval,
  { mask, check }: AnswerReading,
): Promise<ApprovalDecision> {
  // Only where the call waits is it known what a mask stands for: there the whole is validated before the tool runs.
  const isMasked = JSON.stringify(answer.arguments ?? {}).includes(MASK);
  const reading = { mask, ...(check === undefined || isMasked ? {} : { check }) };
  const decision = await decisionOf(answer, approval, reading);
  if (isDeepStrictEqual(mask.shownDecision(decision), decision)) return decision;
  throw new UnfitAnswer(
    `The call of "${approval.toolName}" waits in another process, and the edited arguments hold a secret, which is not stored on the way there. Leave that argument as it is shown, or answer on the node where the call waits.`,
  );
}

const MASK = "[redacted]";
