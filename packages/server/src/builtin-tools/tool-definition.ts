import type { JsonSchemaObject, ToolMetadata } from "@toolrack/core";
import type { InternalTool, InternalToolContext } from "../calls/index.ts";
import { amount } from "../helpers/index.ts";

export { amount };

/** One argument of a tool, or one member of its result: its schema and type. */
export interface Field<Value> {
  readonly schema: JsonSchemaObject;
  /** False for an optional field, and for one with a default. */
  readonly isRequired: boolean;
  /** Never set: it only carries the type. */
  readonly value?: Value;
}

type Fields = Readonly<Record<string, Field<unknown>>>;

/** The arguments of a handler, validated and with defaults filled in. */
export type Values<Given extends Fields> = {
  readonly [Name in keyof Given]: Given[Name] extends Field<infer Value> ? Value : never;
};

interface ToolDeclaration<Input extends Fields> {
  /** The action only; the folder gives the group. */
  readonly name: string;
  readonly description: string;
  readonly input: Input;
  /** Arguments that are not among `input` are refused. */
  readonly isClosed?: true;
  readonly output?: Fields;
  handler(args: Values<Input>, context: InternalToolContext): unknown;
  readonly metadata: ToolMetadata;
}

/** Defines a built-in tool in contract 1. The types of its arguments follow from `input`. */
export function defineTool<const Input extends Fields>(declaration: ToolDeclaration<Input>): InternalTool {
  const { input, isClosed, output, ...tool } = declaration;
  return {
    ...tool,
    inputSchema: { ...objectSchema(input), ...(isClosed && { additionalProperties: false }) },
    ...(output && { outputSchema: objectSchema(output) }),
  };
}

function objectSchema(fields: Fields): JsonSchemaObject {
  const entries = Object.entries(fields);
  const required = entries.filter(([, { isRequired }]) => isRequired).map(([name]) => name);
  return {
    type: "object",
    properties: Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    ...(required.length > 0 && { required }),
  };
}

/** Keywords of JSON Schema beside the type, in the order in which they are shown. */
interface Rules<Value> {
  readonly enum?: readonly Value[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: Value;
}

/** A field with any schema, for types that the functions below lack. */
export function field<Value>(schema: JsonSchemaObject): Field<Value> {
  return { schema, isRequired: !("default" in schema) };
}

function typed<Value>(type: string | readonly string[], description?: string, rules: object = {}) {
  return field<Value>({ type, ...rules, ...(description !== undefined && { description }) });
}

export function text(description?: string, rules?: Rules<string>): Field<string> {
  return typed("string", description, rules);
}

export function whole(description?: string, rules?: Rules<number>): Field<number> {
  return typed("integer", description, rules);
}

export function flag(description?: string, rules?: Rules<boolean>): Field<boolean> {
  return typed("boolean", description, rules);
}

/** Any of these types: `either(["integer", "null"], "Null when …")`. */
export function either(types: readonly string[], description?: string): Field<unknown> {
  return typed(types, description);
}

export function list<Item>(
  items: Field<Item>,
  description?: string,
  rules?: Rules<readonly Item[]>,
): Field<readonly Item[]> {
  return typed("array", description, { items: items.schema, ...rules });
}

/** An object whose keys are free and whose values are texts. */
export function textMap(description?: string): Field<Readonly<Record<string, string>>> {
  return typed("object", description, { additionalProperties: { type: "string" } });
}

export function object<const Members extends Fields>(members: Members): Field<Values<Members>> {
  return field(objectSchema(members));
}

export function optional<Value>({ schema }: Field<Value>): Field<Value | undefined> {
  return { schema, isRequired: false };
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
