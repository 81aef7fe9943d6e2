import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { isRecord } from "./json-value.ts";
import { resolveReference } from "./resolve-reference.ts";

export type JsonType = "string" | "number" | "integer" | "boolean" | "null" | "object" | "array";

export const jsonTypes: readonly JsonType[] = [
  "string",
  "number",
  "integer",
  "boolean",
  "null",
  "object",
  "array",
];

/** Keywords that speak of one type only, from which an author's forgotten `type` can be told. */
const keywordsOfType: readonly [JsonType, readonly string[]][] = [
  ["object", ["properties", "patternProperties", "additionalProperties", "required", "propertyNames"]],
  ["array", ["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]],
  ["string", ["pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"]],
  ["number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]],
];

/** The types a schema names, or lets be told from its other keywords; nothing when it takes any value. */
export function typesOf(schema: JsonSchemaObject): JsonType[] | undefined {
  if (isJsonType(schema.type)) return [schema.type];
  if (Array.isArray(schema.type)) return schema.type.filter(isJsonType);
  if ("const" in schema) return [typeOfValue(schema.const)];
  if (Array.isArray(schema.enum)) return [...new Set(schema.enum.map(typeOfValue))];
  const found = keywordsOfType.find(([, keywords]) => keywords.some((keyword) => keyword in schema));
  return found && [found[0]];
}

export function typeOfValue(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "string") return "string";
  if (typeof value === "boolean") return "boolean";
  return "object";
}

export function isJsonType(value: unknown): value is JsonType {
  return jsonTypes.some((type) => type === value);
}

/** Whether `null` is a value its author meant to allow. */
export function acceptsNull(
  schema: JsonSchema | undefined,
  root: JsonSchemaObject,
  seen: readonly string[] = [],
): boolean {
  if (!isRecord(schema)) return schema !== false;
  if ("const" in schema && schema.const !== null) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(null)) return false;
  if (schema.nullable !== true && typesOf(schema)?.includes("null") === false) return false;
  if (typeof schema.$ref === "string" && !seen.includes(schema.$ref)) {
    if (!acceptsNull(resolveReference(root, schema.$ref), root, [...seen, schema.$ref])) return false;
  }
  const accepts = (branch: JsonSchema) => acceptsNull(branch, root, seen);
  if (Array.isArray(schema.allOf) && !schema.allOf.every(accepts)) return false;
  if (Array.isArray(schema.anyOf) && !schema.anyOf.some(accepts)) return false;
  return !Array.isArray(schema.oneOf) || schema.oneOf.some(accepts);
}
