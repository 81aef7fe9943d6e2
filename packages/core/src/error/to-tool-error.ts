import { isToolError, type ToolError, ToolExecutionError } from "./tool-error.ts";

/**
 * The only place where something thrown becomes a `ToolError`. Keeps the stack and the cause. A `ToolError`
 * that the tool threw for itself stays; one that came out of a child call becomes the cause of this call's
 * failure, so that the record says which of the two failed how. Never throws.
 */
export function toToolError(thrown: unknown, toolName: string, input: unknown): ToolError {
  if (isToolError(thrown)) {
    if (thrown.toolName === toolName) return thrown;
    if (thrown.toolName === "") return adopt(thrown, toolName, input);
    return new ToolExecutionError(
      `Tool "${thrown.toolName}", called by "${toolName}", failed: ${thrown.message}`,
      {
        toolName,
        input,
        cause: thrown,
        data: { causeCode: thrown.code },
      },
    );
  }
  const error = new ToolExecutionError(messageOf(thrown), { toolName, input, cause: thrown });
  const stack = stackOf(thrown);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** An author may throw `new BusinessError("…")` without naming the tool; the pipeline knows it. */
function adopt(error: ToolError, toolName: string, input: unknown): ToolError {
  Object.defineProperty(error, "toolName", { value: toolName, enumerable: true });
  Object.defineProperty(error, "input", { value: input, enumerable: true });
  return error;
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
