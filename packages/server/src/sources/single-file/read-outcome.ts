import type { StackMapper } from "../loader/stack-mapper.ts";
import type { BusinessMatch, ThrownData } from "./messages.ts";
import { refusedArguments, thrownError } from "./thrown-error.ts";

/** What a worker says how a call ended, as the result of the call or as its error. The worker is not trusted. */
export function readOutcome(outcome: unknown, tool: string, stacks: StackMapper): unknown {
  const { type, value, base64, reasons, error, business } = asRecord(outcome);
  switch (type) {
    case "value":
      return value;
    case "bytes":
      return Buffer.from(String(base64), "base64");
    case "invalid":
      throw refusedArguments(tool, Array.isArray(reasons) ? reasons.map(String) : []);
    case "error":
      throw thrownError(toThrown(error), business === undefined ? undefined : toMatch(business), stacks);
    default:
      throw new Error(`The worker of "${tool}" answered with something that is no answer.`);
  }
}

function toThrown(given: unknown): ThrownData {
  const { name, message, code, stack } = asRecord(given);
  return {
    name: text(name) ?? "Error",
    message: text(message) ?? "The tool failed without saying why.",
    ...optional({ code: text(code), stack: text(stack) }),
  };
}

function toMatch(given: unknown): BusinessMatch {
  const { code, description, solution, retryable } = asRecord(given);
  return {
    code: text(code) ?? "BUSINESS_ERROR",
    ...optional({ description: text(description), solution: text(solution) }),
    retryable: retryable === true,
  };
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function optional<Key extends string>(
  members: Record<Key, string | undefined>,
): Partial<Record<Key, string>> {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as Partial<Record<Key, string>>; // Only the keys that have a text.
}
