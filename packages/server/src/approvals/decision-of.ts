import type { ApprovalDecision, ApprovalRequest } from "@toolrack/core";
import type { Answer } from "./answer.ts";
import type { InboxParts } from "./inbox-parts.ts";
import type { QuestionMask } from "./question-mask.ts";
import { UnfitAnswer } from "./unfit-answer.ts";

export interface AnswerReading extends Pick<InboxParts, "check"> {
  readonly mask: QuestionMask;
}

/** What an answer means for the call. Throws `UnfitAnswer` for arguments that the tool could not run with. */
export async function decisionOf(
  answer: Answer,
  { input, stage, toolName }: ApprovalRequest,
  { mask, check }: AnswerReading,
): Promise<ApprovalDecision> {
  const said = answer.reason === undefined ? {} : { reason: answer.reason };
  if (answer.decision === "deny") return { decision: "deny", ...said };
  if (answer.arguments === undefined) return { decision: "allow", ...said };
  if (stage === "during") {
    throw new UnfitAnswer(`"${toolName}" is running and only asks whether it may go on: its arguments stay.`);
  }
  const edited = mask.restore(answer.arguments, input);
  const issues = (await check?.(toolName, edited)) ?? [];
  if (issues.length > 0) {
    throw new UnfitAnswer(`The edited arguments do not fit the schema of "${toolName}".`, issues);
  }
  return { decision: "allow", ...said, arguments: edited };
}
