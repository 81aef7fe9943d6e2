import { isToolError, ToolError, ToolExecutionError } from "./tool-error.ts";

/**
 * The only place where something thrown becomes a `ToolError`. Keeps the stack and the cause. A `ToolError`
 * that the tool threw for itself stays; one that came out of a child call becomes the cause of this call's
 * failure, so that the record says which of the two failed how. Never throws.
 */
export function toToolError(thrown: unknown, toolName: string, input: unknown): ToolError {
  if (isToolError(thrown)) {
    if (thrown.toolName === toolName) return thrown;
    // An author may throw `new BusinessError("…")` without naming the tool; the pipeline knows it.
    return thrown.toolName === "" ? copyFor(thrown, toolName, input) : childFailure(thrown, toolName, input);
  }
  const error = new ToolExecutionError(messageOf(thrown), { toolName, input, cause: thrown });
  const stack = stackOf(thrown);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** The same error as that of another call. A copy: the object may be shared, frozen, or thrown again. */
export function copyFor(error: ToolError, toolName: string, input: unknown): ToolError {
  const { code, message, data, recoverable, cause } = error;
  const copy = new ToolError(code, message, { toolName, input, data, recoverable, cause });
  const stack = stackOf(error);
  if (stack !== undefined) copy.stack = stack;
  return copy;
}

/** What a call fails with when a call that it made failed and it did not handle that. */
export function childFailure(child: ToolError, toolName: string, input: unknown): ToolError {
  return new ToolExecutionError(
    `Tool "${child.toolName}", called by "${toolName}", failed: ${child.message}`,
    {
      toolName,
      input,
      cause: child,
      data: { causeCode: child.code },
    },
  );
}

function messageOf(thrown: unknown): string {
  try {
    if (typeof thrown === "string") return thrown === "" ? "The tool threw an empty string." : thrown;
    if (typeof thrown === "object" && thrown !== null) {
      const { message } = thrown as { message?: unknown };
      if (typeof message === "string" && message !== "") return message;
      const text = JSON.stringify(thrown);
      return `The tool threw ${text === undefined || text === "{}" ? String(thrown) : text.slice(0, 500)}`;
    }
    return `The tool threw ${String(thrown)}.`;
  } catch {
    return "The tool threw something that cannot be printed.";
  }
}

function stackOf(thrown: unknown): string | undefined {
  try {
    const stack = (thrown as { stack?: unknown } | null | undefined)?.stack;
    return typeof stack === "string" ? stack : undefined;
  } catch {
    return undefined;
  }
}
