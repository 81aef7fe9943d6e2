import type { ToolErrorCode } from "@toolrack/core";
import type { EndedCall } from "../../../calls/call-desk.ts";
import { HttpError } from "../http-error.ts";
import type { HttpErrorCode } from "../http-error-codes.ts";

/** The codes with which the pipeline refuses a call before the tool runs. The rest is what came of a run. */
export const refusals = [
  "tool_not_found",
  "tool_disabled",
  "invalid_arguments",
  "permission_denied",
  "loop_blocked",
  "approval_denied",
] as const satisfies readonly (HttpErrorCode & ToolErrorCode)[];

/**
 * The refusal that a call ended with, if the tool never ran. A tool that ran and handed on the refusal of a call
 * that it made is no refusal: it happened.
 */
export function refusalOf({ callId, result, record }: EndedCall): HttpError | undefined {
  const error = result.error;
  const code = refusals.find((refusal) => refusal === error?.code);
  if (error === undefined || code === undefined || record.runDuration > 0) return undefined;
  const details = { callId, recoverable: error.recoverable, ...error.details };
  return new HttpError(code, error.message, { details });
}
