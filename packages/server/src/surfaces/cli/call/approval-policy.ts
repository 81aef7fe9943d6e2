import type { ApprovalPolicy } from "@toolrack/core";
import type { Cli } from "../cli.ts";

/** Who consents to dangerous tools: `--yes`, or the person at the terminal, or else nobody. */
export function approvalPolicy(cli: Cli, yes: boolean): ApprovalPolicy {
  if (yes) return { ask: async () => ({ decision: "allow", reason: "--yes" }) };
  if (!cli.interactive) {
    const reason = "nobody can be asked without a terminal; add --yes to approve it";
    return { ask: async () => ({ decision: "deny", reason }) };
  }
  return {
    async ask(request, signal) {
      cli.status.clear();
      const { askApproval } = await import("./ask-approval.ts");
      return askApproval(cli, request, signal);
    },
  };
}
