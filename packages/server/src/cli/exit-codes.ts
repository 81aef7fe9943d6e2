import type { ToolErrorCode } from "@toolrack/core";

/** What the command line ends with. Scripts rely on these: they never change their meaning. */
export const exitCodes = {
  ok: 0,
  /** Toolrack could not do what was asked. */
  failure: 1,
  /** The command line itself, or the arguments for a tool, are wrong. */
  usage: 2,
  /** The tool ran, and returned an error. */
  toolError: 3,
  noSuchTool: 4,
  /** A person, a policy or a missing permission kept the tool from running. */
  denied: 5,
  timedOut: 6,
  /** Ctrl-C. */
  interrupted: 130,
} as const;

const byErrorCode: Record<ToolErrorCode, number> = {
  tool_not_found: exitCodes.noSuchTool,
  tool_disabled: exitCodes.denied,
  invalid_arguments: exitCodes.usage,
  permission_denied: exitCodes.denied,
  loop_blocked: exitCodes.denied,
  approval_denied: exitCodes.denied,
  timed_out: exitCodes.timedOut,
  cancelled: exitCodes.toolError,
  business_error: exitCodes.toolError,
  execution_failed: exitCodes.toolError,
  outcome_unknown: exitCodes.toolError,
};

export function exitCodeOf(code: ToolErrorCode): number {
  return byErrorCode[code];
}
