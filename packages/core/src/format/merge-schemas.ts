import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { sameJson } from "./json-value.ts";
import { resolveReference } from "./resolve-reference.ts";
import { propertiesOf, requiredOf, schemaFrom, schemasIn } from "./schema-parts.ts";
import { type JsonType, typesOf } from "./schema-types.ts";

/** Keywords that tell a reader something and constrain nothing. */
export const annotationKeywords: readonly string[] = [
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$comment",
];

/** Keywords that hold or name other schemas; where one stands does not matter to what it accepts. */
const containerKeywords = ["$defs", "definitions", "$id", "$anchor", "$dynamicAnchor"];

/** A chain of references this long inside one merge is taken for a recursion. */
const maxDepth = 24;

/**
 * One schema that accepts what all of them accept, or nothing when that cannot be said in one. Earlier schemas
 * win where only wording is at stake.
 */
export function mergeSchemas(
  schemas: readonly JsonSchema[],
  root: JsonSchemaObject,
  depth = 0,
): JsonSchemaObject | undefined {
  if (depth > maxDepth) return undefined;
  let merged: Record<string, unknown> | undefined;
  for (const schema of schemas) {
    if (schema === true) continue;
    if (schema === false) return undefined;
    const expanded = merged === undefined && schemas.length === 1 ? schema : expand(schema, root, depth);
    if (expanded === undefined) return undefined;
    merged = merged === undefined ? { ...expanded } : mergePair(merged, expanded, root, depth);
    if (merged === undefined) return undefined;
  }
  return merged ?? {};
}

/** The schema with its own `$ref` and `allOf` worked in. */
function expand(
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): JsonSchemaObject | undefined {
  const { $ref, allOf, ...rest } = schema;
  const parts: JsonSchema[] = [];
  if (typeof $ref === "string") {
    const target = resolveReference(root, $ref);
    if (target === undefined) return undefined;
    parts.push(target);
  }
  parts.push(...schemasIn(allOf));
  return parts.length === 0 ? schema : mergeSchemas([rest, ...parts], root, depth + 1);
}

function mergePair(
  a: JsonSchemaObject,
  b: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): Record<string, unknown> | undefined {
  const objects = mergeObjectKeywords(a, b, root, depth);
  if (objects === undefined) return undefined;
  const merged: Record<string, unknown> = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    if (keyword in objects) continue;
    if (!(keyword in a) || sameJson(a[keyword], value)) {
      merged[keyword] = value;
      continue;
    }
    if (annotationKeywords.includes(keyword) || containerKeywords.includes(keyword)) continue;
    const both = mergeKeyword(keyword, a, b, root, depth);
    if (both === undefined) return undefined;
    merged[keyword] = both;
  }
  return { ...merged, ...objects };
}

function mergeKeyword(
  keyword: string,
  a: JsonSchemaObject,
  b: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): unknown {
  const [left, right] = [a[keyword], b[keyword]];
  switch (keyword) {
    case "type":
      return intersectTypes(typesOf(a) ?? [], typesOf(b) ?? []);
    case "enum": {
      const common =
        Array.isArray(left) && Array.isArray(right) ? left.filter((value) => right.includes(value)) : [];
      return common.length === 0 ? undefined : common;
    }
    case "minimum":
    case "exclusiveMinimum":
    case "minLength":
    case "minItems":
    case "minProperties":
      return Math.max(Number(left), Number(right));
    case "maximum":
    case "exclusiveMaximum":
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return Math.min(Number(left), Number(right));
    case "uniqueItems":
      return left === true || right === true;
    case "items":
      return mergeSchemas([schemaFrom(left), schemaFrom(right)], root, depth + 1);
    default:
      return undefined;
  }
}

function intersectTypes(a: readonly JsonType[], b: readonly JsonType[]): JsonType | JsonType[] | undefined {
  const common = new Set<JsonType>();
  for (const type of a) {
    if (b.includes(type)) common.add(type);
    else if (type === "integer" && b.includes("number")) common.add("integer");
    else if (type === "number" && b.includes("integer")) common.add("integer");
  }
  return common.size === 0 ? undefined : common.size === 1 ? [...common][0] : [...common];
}

/** `properties`, `required` and `additionalProperties` depend on each other, so they are merged as one. */
function mergeObjectKeywords(
  a: JsonSchemaObject,
  b: JsonSchemaObject,
  root: JsonSchemaObject,
  depth: number,
): Record<string, unknown> | undefined {
  const left = propertiesOf(a);
  const right = propertiesOf(b);
  // A property that only one side knows must also satisfy what the other side says of further properties.
  if (!covers(a, right) || !covers(b, left)) return undefined;
  const properties: [string, JsonSchema][] = [];
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const [x, y] = [left[key], right[key]];
    if (x === undefined || y === undefined || sameJson(x, y)) {
      properties.push([key, x ?? y ?? true]);
      continue;
    }
    const both = mergeSchemas([x, y], root, depth + 1);
    if (both === undefined) return undefined;
    properties.push([key, both]);
  }
  const required = [...new Set([...requiredOf(a), ...requiredOf(b)])];
  const further = mergeFurther(a.additionalProperties, b.additionalProperties);
  if (further === "conflict") return undefined;
  return {
    ...(properties.length > 0 && { properties: Object.fromEntries(properties) }),
    ...(required.length > 0 && { required }),
    ...(further !== undefined && { additionalProperties: further }),
  };
}

function covers(schema: JsonSchemaObject, others: Readonly<Record<string, JsonSchema>>): boolean {
  const further = schema.additionalProperties;
  if (further === undefined || further === true) return true;
  const own = propertiesOf(schema);
  return Object.keys(others).every((key) => Object.hasOwn(own, key));
}

function mergeFurther(a: unknown, b: unknown): unknown {
  if (a === undefined || a === true) return b ?? a;
  if (b === undefined || b === true || sameJson(a, b)) return a;
  return a === false || b === false ? false : "conflict";
}
