import { expect } from "vitest";
import type { Recorded } from "./recorded.ts";
import type { Exception } from "./sample-call.ts";
import type { SurfaceName } from "./surface.ts";

export const cancelled = (why: string): string => `The call to "wait" was cancelled: ${why}`;

/** The record of a cancelled call, which names the surface's own reason. */
export function cancelledBecause(reason: string): Partial<Recorded> {
  const message = cancelled(reason);
  const details = { reason, toolName: "wait", input: {} };
  return {
    text: message,
    size: message.length,
    error: { name: "ToolCancelledError", code: "cancelled", message, details, recoverable: false },
  };
}

export function leftBecause(reason: string): Exception {
  return {
    reason: "Going away is how this caller cancels, so that nobody is left to be answered or to say why.",
    answer: "none",
    record: cancelledBecause(reason),
  };
}

/** Applies one exception to all MCP surfaces. */
export function overMcp(exception: Exception): Partial<Record<SurfaceName, Exception>> {
  return { "MCP modern": exception, "MCP legacy": exception, "MCP stdio": exception };
}

/**
 * The exceptions for text in place of arguments: these surfaces take only an object, and refuse text before
 * there is a call.
 */
export function onlyObjects(problem: string): Partial<Record<SurfaceName, Exception>> {
  return {
    "command line": {
      reason: "Who writes a command line reads at once what is wrong with it.",
      answer: { text: `The text of --args is not JSON: ${problem}`, refusal: "usage" },
      record: "none",
    },
    ...overMcp({
      reason: "The protocol has arguments as an object: a request with text in their place is none.",
      answer: { text: expect.stringContaining("expected record, received string"), refusal: -32602 },
      record: "none",
    }),
  };
}
