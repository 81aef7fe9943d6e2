/** Every way in which a call can fail. The list is closed: anything thrown becomes one of these. */
export const toolErrorCodes = {
  tool_not_found: { name: "ToolNotFoundError", recoverable: true },
  tool_disabled: { name: "ToolDisabledError", recoverable: false },
  invalid_arguments: { name: "InvalidArgumentError", recoverable: true },
  permission_denied: { name: "PermissionDeniedError", recoverable: false },
  loop_blocked: { name: "LoopBlockedError", recoverable: true },
  approval_denied: { name: "ApprovalDeniedError", recoverable: false },
  timed_out: { name: "ToolTimeoutError", recoverable: true },
  cancelled: { name: "ToolCancelledError", recoverable: false },
  business_error: { name: "BusinessError", recoverable: true },
  execution_failed: { name: "ToolExecutionError", recoverable: true },
  code_diverged: { name: "CodeDivergedError", recoverable: true },
  outcome_unknown: { name: "OutcomeUnknownError", recoverable: true },
} as const;

/** The code of an error, by which programs tell errors apart. */
export type ToolErrorCode = keyof typeof toolErrorCodes;

/**
 * When an error of each code is thrown, and what its `details` hold. `docs/reference/errors.md` is generated from it, and a
 * test keeps the two equal. Apart from the codes, so that a program with a registry does not carry these sentences.
 */
export const toolErrorReference: Readonly<
  Record<ToolErrorCode, { readonly when: string; readonly details: string }>
> = {
  tool_not_found: {
    when: "No tool has this name or alias, or it was taken down while its call waited for a person.",
    details: "`suggestions`: the nearest names.",
  },
  tool_disabled: {
    when: "The tool exists but an operator switched it off.",
    details: "",
  },
  invalid_arguments: {
    when: "The arguments are not JSON, not an object, too large, or do not fit the schema. The tool did not run.",
    details: "`issues`: path, expected, received and message of each.",
  },
  permission_denied: {
    when: "The caller lacks a permission that the tool asks for, may not use the tool, or lost its token while the call waited for a person. The tool did not run.",
    details: "`missing`: the permissions that were not held, when it is about them.",
  },
  loop_blocked: {
    when: "The session repeats itself without progress. The tool did not run.",
    details: "`verdict`: signal, count, period and evidence.",
  },
  approval_denied: {
    when: "A person or a policy said no, nobody answered in time, or nobody can be asked. The tool did not run.",
    details: "`reason`: why, when one was given.",
  },
  timed_out: {
    when: "The tool ran longer than its limit, or was silent longer than its idle limit. Its signal was aborted.",
    details: "`limit` in milliseconds, `kind`: `total` or `idle`, `elapsed`.",
  },
  cancelled: {
    when: "The caller, or the call that made this one, cancelled it. Its signal was aborted.",
    details: "`reason`, when one was given.",
  },
  business_error: {
    when: "The tool met a failure that its author foresaw and described.",
    details: "`solution` and `retryable`, as the author wrote them.",
  },
  execution_failed: {
    when: "The tool threw, rejected, returned an error, or returned what its output schema forbids.",
    details:
      "`cause`: what the tool said. `thrown`: the kind of error that it threw, such as `TypeError`. A fault in the tool's code (`TypeError`, `ReferenceError`) is not `recoverable`.",
  },
  code_diverged: {
    when: "Code that was run again after an interruption took another way than before, so that it was stopped before it did anything new.",
    details: "`line`: where it left the way.",
  },
  outcome_unknown: {
    when: "The process that ran the tool ended before the call did. The tool may have done all, some or none of its work, and is not run again by itself.",
    details: "",
  },
};

/** The one form in which an error leaves the rack. Plain JSON. */
export interface ToolErrorResponse {
  readonly name: string;
  readonly code: ToolErrorCode;
  /** What happened, where, and what to do next. */
  readonly message: string;
  readonly details?: {
    readonly toolName: string;
    readonly input: Record<string, unknown>;
    readonly cause?: string;
    readonly [key: string]: unknown;
  };
  /** Whether the same caller can avoid this error by doing something differently. */
  readonly recoverable: boolean;
}
