import type { ApprovalRequest, ApprovalVerdict } from "@toolrack/core";
import type { RackItem } from "../auth/upstream-origin.ts";
import type { ApprovalRule } from "../store/approvals/approval-store.ts";
import { type FormerNameOf, ruleFor } from "./rule-for.ts";

/** What the rules say to a call of the tool. Where none speaks of it, dangerous tools and questions during a run are asked about. */
export function verdictByRules(
  rules: readonly ApprovalRule[],
  tool: RackItem,
  request: ApprovalRequest,
  origin: string | undefined,
  formerNameOf?: FormerNameOf,
): ApprovalVerdict {
  const rule = ruleFor(rules, tool, request, origin, formerNameOf);
  if (rule === undefined) return request.dangerous || request.stage === "during" ? "ask" : "allow";
  if (rule.decision !== "deny") return rule.decision;
  return { decision: "deny", reason: `the approval rule ${rule.id} denies ${rule.tool}` };
}
