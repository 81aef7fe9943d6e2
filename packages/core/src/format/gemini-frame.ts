import type { JsonSchemaObject } from "../schema/types.ts";
import { describeConstraint, withRemarks } from "./describe-constraint.ts";
import type { TakeNote } from "./format-note.ts";
import type { JsonType } from "./schema-types.ts";

/** What Gemini's `Schema` has a field for, by type. Everything else is said in the description. */
const keptKeywords: Readonly<Record<JsonType, readonly string[]>> = {
  string: ["format", "pattern", "minLength", "maxLength"],
  number: ["format", "minimum", "maximum"],
  integer: ["format", "minimum", "maximum"],
  boolean: [],
  array: ["minItems", "maxItems"],
  object: ["minProperties", "maxProperties"],
  null: [],
};

/** The formats Gemini takes; any other is an error there. */
const keptFormats: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  string: ["date-time", "enum"],
  number: ["float", "double"],
  integer: ["int32", "int64"],
};

/** Keywords worked into the structure, and keywords that tell a model nothing. */
const handledKeywords = [
  ...[
    "type",
    "title",
    "description",
    "default",
    "example",
    "enum",
    "const",
    "properties",
    "required",
    "items",
  ],
  ...["prefixItems", "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$comment", "deprecated"],
  ...["readOnly", "writeOnly", "propertyOrdering"],
];

/** Type, title, description with remarks, and the fields Gemini has for this type. */
export function geminiFrame(
  node: JsonSchemaObject,
  type: JsonType,
  remarks: readonly string[],
  path: string,
  note: TakeNote,
): Record<string, unknown> {
  const { exclusiveMinimum, exclusiveMaximum, ...rest } = node;
  const bounds: Record<string, unknown> = { ...rest };
  // For whole numbers, an exclusive bound is the inclusive bound next to it.
  const isWhole = type === "integer";
  if (isWhole && Number.isInteger(exclusiveMinimum)) {
    bounds.minimum = Math.max(Number(exclusiveMinimum) + 1, Number(rest.minimum ?? Number.NEGATIVE_INFINITY));
  } else if (exclusiveMinimum !== undefined) bounds.exclusiveMinimum = exclusiveMinimum;
  if (isWhole && Number.isInteger(exclusiveMaximum)) {
    bounds.maximum = Math.min(Number(exclusiveMaximum) - 1, Number(rest.maximum ?? Number.POSITIVE_INFINITY));
  } else if (exclusiveMaximum !== undefined) bounds.exclusiveMaximum = exclusiveMaximum;

  const kept = keptKeywords[type].filter((keyword) => isKept(keyword, bounds[keyword], type));
  const words = geminiWords(bounds, path, note, kept, remarks);
  return { type, ...words, ...Object.fromEntries(kept.map((keyword) => [keyword, bounds[keyword]])) };
}

export function geminiWords(
  node: JsonSchemaObject,
  path: string,
  note: TakeNote,
  kept: readonly string[] = [],
  remarks: readonly string[] = [],
): Record<string, unknown> {
  const description = withRemarks(node.description, [...remarks, ...geminiRemarks(node, kept, path, note)]);
  return {
    ...(typeof node.title === "string" && { title: node.title }),
    ...(description !== undefined && { description }),
    ...(node.default !== undefined && { default: node.default }),
  };
}

export function geminiRemarks(
  node: JsonSchemaObject,
  kept: readonly string[],
  path: string,
  note: TakeNote,
): string[] {
  const remarks: string[] = [];
  for (const [keyword, value] of Object.entries(node)) {
    if (kept.includes(keyword) || handledKeywords.includes(keyword)) continue;
    // The rack drops or refuses further properties by itself; a model need not be told.
    const isSilent = value === false || keyword.startsWith("x-");
    const remark = isSilent ? undefined : describeConstraint(keyword, value);
    if (remark !== undefined) remarks.push(remark);
    note(path, keyword, remark === undefined ? "dropped" : "described", "Gemini has no field for it.");
  }
  return remarks;
}

function isKept(keyword: string, value: unknown, type: JsonType): boolean {
  if (keyword === "format") return keptFormats[type]?.some((format) => format === value) ?? false;
  return value !== undefined;
}
