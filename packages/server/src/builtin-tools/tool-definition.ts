import type { ToolMetadata } from "@toolrack/core";
import type { InternalTool, InternalToolContext } from "../calls/index.ts";
import { amount } from "../helpers/index.ts";
import { closed, object, type Shape, type Values } from "../helpers/schema.ts";

export { amount };

interface ToolDeclaration<Input extends Shape> {
  /** The action only; the folder gives the group. */
  readonly name: string;
  readonly description: string;
  readonly input: Input;
  /** Arguments that are not among `input` are refused. */
  readonly isClosed?: true;
  readonly output?: Shape;
  handler(args: Values<Input>, context: InternalToolContext): unknown;
  readonly metadata: ToolMetadata;
}

/** Defines a built-in tool in contract 1. The types of its arguments follow from `input`. */
export function defineTool<const Input extends Shape>(declaration: ToolDeclaration<Input>): InternalTool {
  const { input, isClosed, output, ...tool } = declaration;
  return {
    ...tool,
    inputSchema: isClosed ? closed(input) : object(input),
    ...(output && { outputSchema: object(output) }),
  };
}

/** The result of a tool: a text for models, and the same as data. */
export function answer(text: string, structuredContent: object) {
  return { content: [{ type: "text", text }], structuredContent };
}

const units = ["KB", "MB", "GB", "TB"] as const;

/** A number of bytes for people: `812 bytes`, `1.2 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return amount(bytes, "byte");
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, "")} ${units[unit]}`;
}
