import { BusinessError, InvalidArgumentError, type ToolError, ToolExecutionError } from "@toolrack/core";
import type { StackMapper } from "../loader/stack-mapper.ts";
import type { BusinessMatch, ThrownData } from "./messages.ts";

/** What a tool threw, as the error of its call: one that its author foresaw carries the author's advice. */
export function thrownError(
  thrown: ThrownData,
  business: BusinessMatch | undefined,
  stacks: StackMapper,
): ToolError {
  const original = stacks.apply(rebuild(thrown));
  const cause = thrown.code === undefined ? {} : { causeCode: thrown.code };
  const error =
    business === undefined
      ? new ToolExecutionError(thrown.message, { cause: original, data: cause })
      : new BusinessError(businessMessage(thrown, business), {
          cause: original,
          data: { ...business, ...cause },
        });
  if (original.stack !== undefined) error.stack = original.stack;
  return error;
}

/** The tool's own `validate` said no. */
export function refusedArguments(tool: string, reasons: readonly string[]): ToolError {
  const issues = reasons.map((message) => ({ path: "", expected: "", received: "", message }));
  return new InvalidArgumentError(
    `The tool "${tool}" refused the arguments, and did not run. Correct these and call again:\n${reasons.map((reason) => `- ${reason}`).join("\n")}`,
    { data: { issues } },
  );
}

export function rebuild({ name, message, code, stack }: ThrownData): Error {
  const error = Object.assign(new Error(message), { name, ...(code === undefined ? {} : { code }) });
  error.stack = stack ?? `${name}: ${message}`;
  return error;
}

function businessMessage({ message }: ThrownData, { code, description, solution }: BusinessMatch): string {
  const what = description === undefined ? message : `${description} (${message})`;
  return [`${code}: ${what}`, solution].filter((part) => part !== undefined).join("\n");
}
