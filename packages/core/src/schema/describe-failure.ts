import { UnsafeValue } from "./copy-plain.ts";
import type { SchemaIssue } from "./types.ts";

/** The issue that stands for whatever was thrown while a value was looked at. */
export function describeFailure(error: unknown): SchemaIssue {
  if (error instanceof UnsafeValue) return error.issue;
  if (error instanceof RangeError) {
    return {
      path: "",
      expected: "a value that can be checked",
      received: "a value that is nested too deeply or too large",
      message: "The value is nested too deeply or too large to be checked; send a smaller one.",
    };
  }
  const reason = reasonOf(error);
  return {
    path: "",
    expected: "a value that can be checked",
    received: "a value on which the check failed",
    message: `The value could not be checked: ${reason}`,
  };
}

function reasonOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    // An object without a usable toString was thrown.
    return "the check threw.";
  }
}
