import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { pointer } from "./format-note.ts";
import { isRecord } from "./json-value.ts";

const mapKeywords = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const listKeywords = ["allOf", "anyOf", "oneOf", "prefixItems"];
const singleKeywords = [
  "items",
  "additionalItems",
  "additionalProperties",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contains",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
  "contentSchema",
];

/**
 * A copy of a schema with each schema directly inside it replaced. Values that merely look like schemas
 * (`default`, `enum`, `const`, `examples`) are left alone, and so is what is not a schema at all.
 */
export function mapSubschemas(
  schema: JsonSchemaObject,
  path: string,
  replace: (subschema: JsonSchema, path: string) => JsonSchema,
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...schema };
  for (const keyword of singleKeywords) {
    const value = schema[keyword];
    if (isSchema(value)) copy[keyword] = replace(value, pointer(path, keyword));
    // Before 2020-12, a list under `items` was a tuple.
    if (keyword === "items" && Array.isArray(value)) copy[keyword] = replaceList(value, keyword);
  }
  for (const keyword of listKeywords) {
    const value = schema[keyword];
    if (Array.isArray(value)) copy[keyword] = replaceList(value, keyword);
  }
  for (const keyword of mapKeywords) {
    const value = schema[keyword];
    if (!isRecord(value)) continue;
    copy[keyword] = Object.fromEntries(
      Object.entries(value).map(([key, subschema]) => [
        key,
        isSchema(subschema) ? replace(subschema, pointer(path, keyword, key)) : subschema,
      ]),
    );
  }
  return copy;

  function replaceList(list: readonly unknown[], keyword: string): unknown[] {
    return list.map((subschema, index) =>
      isSchema(subschema) ? replace(subschema, pointer(path, keyword, index)) : subschema,
    );
  }
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "boolean" || isRecord(value);
}
