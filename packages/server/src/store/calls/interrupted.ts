import type { ToolErrorResponse } from "@toolrack/core";

/** What is recorded of a call whose process died. */
export const interruptedError: ToolErrorResponse = {
  name: "OutcomeUnknownError",
  code: "outcome_unknown",
  message:
    "The process that ran this call ended before the call did. What the tool did until then is not known: look before calling it again.",
  recoverable: true,
};
