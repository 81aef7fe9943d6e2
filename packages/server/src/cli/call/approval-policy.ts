import type { ApprovalPolicy } from "@toolrack/core";
import { verdictByRules } from "../../calls/approvals/rules.ts";
import type { ApprovalRule } from "../../store/approvals.ts";
import type { Cli } from "../cli.ts";

/**
 * Who consents to dangerous tools: a rule of the workspace, or else `--yes`, or the person at the terminal, or nobody.
 * What a rule denies is not run here either.
 */
export function approvalPolicy(
  cli: Cli,
  yes: boolean,
  rules: () => readonly ApprovalRule[] = () => [],
): ApprovalPolicy {
  return {
    decide: (request, tool) => verdictByRules(rules(), tool, request, request.caller),
    ask: askerOf(cli, yes),
  };
}

function askerOf(cli: Cli, yes: boolean): NonNullable<ApprovalPolicy["ask"]> {
  if (yes) return async () => ({ decision: "allow", reason: "--yes" });
  if (!cli.interactive) {
    const reason = "nobody can be asked without a terminal; add --yes to approve it";
    return async () => ({ decision: "deny", reason });
  }
  return async (request, signal) => {
    cli.status.clear();
    const { askApproval } = await import("./ask-approval.ts");
    return askApproval(cli, request, signal);
  };
}
