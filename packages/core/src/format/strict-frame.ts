import type { JsonSchemaObject } from "../schema/types.ts";
import { describeConstraint, withRemarks } from "./describe-constraint.ts";
import type { TakeNote } from "./format-note.ts";
import { distinctJson } from "./json-value.ts";
import { type JsonType, typeOfValue } from "./schema-types.ts";

/** Thrown where strict mode would change what a tool accepts. */
export class NotStrict extends Error {
  readonly path: string;
  readonly keyword: string;
  constructor(path: string, keyword: string, reason: string) {
    super(reason);
    this.path = path;
    this.keyword = keyword;
  }
}

/** What strict mode keeps, by type; everything else is said in the description. */
const keptKeywords: Readonly<Record<JsonType, readonly string[]>> = {
  string: ["pattern", "format", "enum"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"],
  array: ["minItems", "maxItems"],
  object: [],
  boolean: ["enum"],
  null: [],
};
const keptFormats = ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/** Keywords worked into the structure, and keywords that tell a model nothing. */
const handledKeywords = [
  ...["type", "title", "description", "const", "properties", "required", "additionalProperties", "items"],
  ...["prefixItems", "unevaluatedProperties", "unevaluatedItems", "$defs", "definitions", "$id", "$anchor"],
  ...["$dynamicAnchor", "$comment", "deprecated", "readOnly", "writeOnly"],
];

/** Keywords whose loss is no loss of meaning when they are too long to describe. */
const expendableKeywords = ["default", "examples"];

/** Type, title, description with remarks, and the keywords strict mode keeps for this type. */
export function strictFrame(
  node: JsonSchemaObject,
  type: JsonType,
  handled: readonly string[],
  path: string,
  note: TakeNote,
): Record<string, unknown> {
  const kept = keptKeywords[type].filter(
    (keyword) => keyword !== "enum" && node[keyword] !== undefined && isKept(keyword, node[keyword]),
  );
  const remarks = strictRemarks(node, [...kept, ...handled, "enum"], path, note);
  const description = withRemarks(node.description, remarks);
  return {
    type,
    ...(typeof node.title === "string" && { title: node.title }),
    ...(description !== undefined && { description }),
    ...Object.fromEntries(kept.map((keyword) => [keyword, node[keyword]])),
  };
}

export function strictRemarks(
  node: JsonSchemaObject,
  kept: readonly string[],
  path: string,
  note: TakeNote,
): string[] {
  const remarks: string[] = [];
  for (const [keyword, value] of Object.entries(node)) {
    if (kept.includes(keyword) || handledKeywords.includes(keyword)) continue;
    const remark = describeConstraint(keyword, value);
    if (remark !== undefined) remarks.push(remark);
    else if (!expendableKeywords.includes(keyword) && value !== false) {
      throw new NotStrict(path, keyword, "strict mode does not know it and it is too long to describe");
    }
    note(path, keyword, remark === undefined ? "dropped" : "described", "Not known to strict mode.");
  }
  return remarks;
}

export function strictValues(
  node: JsonSchemaObject,
  type: JsonType,
  path: string,
  note: TakeNote,
): { enum?: unknown[] } {
  if (type === "null") return {};
  if ("const" in node) {
    note(path, "const", "rewritten", "Sent as an `enum` of one value.");
    return { enum: [node.const] };
  }
  if (!Array.isArray(node.enum)) return {};
  const values = node.enum.filter((value) => value !== null);
  const odd = values.find((value) => !isOfType(value, type));
  if (odd !== undefined) throw new NotStrict(path, "enum", `${JSON.stringify(odd)} is not of type ${type}`);
  return { enum: values };
}

export function toNullable(schema: JsonSchemaObject): JsonSchemaObject {
  const nothing = { type: "null" };
  if (Array.isArray(schema.anyOf)) return { ...schema, anyOf: distinctJson([...schema.anyOf, nothing]) };
  if (schema.type === "null" || Array.isArray(schema.type)) return schema;
  if (typeof schema.$ref === "string" || schema.type === "object" || schema.type === "array") {
    const { title, description, ...rest } = schema;
    return {
      ...(title !== undefined && { title }),
      ...(description !== undefined && { description }),
      anyOf: [rest, nothing],
    };
  }
  return {
    ...schema,
    type: [schema.type, "null"],
    ...(Array.isArray(schema.enum) && { enum: [...schema.enum, null] }),
  };
}

function isKept(keyword: string, value: unknown): boolean {
  if (keyword === "format") return keptFormats.some((format) => format === value);
  // The grammar behind strict mode has no lookaround and no references back.
  if (keyword === "pattern") return typeof value === "string" && !/\(\?[=!<]|\\[1-9]|\\k</.test(value);
  return typeof value === "number";
}

export function isOfType(value: unknown, type: JsonType): boolean {
  const actual = typeOfValue(value);
  return actual === type || (actual === "integer" && type === "number");
}
