import { sameJson } from "../schema/json.ts";
import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  listOf,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./format-notes.ts";

/** Keywords that constrain nothing. */
export const annotationKeywords =
  "title description default examples deprecated readOnly writeOnly $comment".split(" ");
/** Keywords that hold or name other schemas; they do not affect what a schema accepts. */
const containerKeywords = ["$defs", "definitions", "$id", "$anchor", "$dynamicAnchor"];
const lowerLimits = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];
const upperLimits = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];

/** How many levels of references and `allOf` parts are followed. */
export const maxDepth = 24;

/** Thrown and caught in `mergeSchemas` when no single schema can express what two schemas demand together. */
const conflict = new Error("The schemas do not merge.");

/**
 * Merges schemas into one that accepts the values that all of them accept; undefined when that is impossible.
 * Where only annotations such as descriptions differ, the earlier schema wins.
 */
export function mergeSchemas(
  schemas: readonly JsonSchema[],
  root: JsonSchemaObject,
): JsonSchemaObject | undefined {
  try {
    return merge(schemas, 0);
  } catch (error) {
    if (error === conflict) return undefined;
    throw error;
  }

  function merge(parts: readonly JsonSchema[], depth: number): JsonSchemaObject {
    if (depth > maxDepth || parts.includes(false)) throw conflict;
    const objects = parts.filter(isRecord);
    const expanded = parts.length === 1 ? objects : objects.map((part) => expand(part, depth));
    return expanded.length === 0 ? {} : expanded.reduce((a, b) => mergePair(a, b, depth));
  }

  /** Merges the schema's own `$ref` and `allOf` into it. */
  function expand(schema: JsonSchemaObject, depth: number): JsonSchemaObject {
    const { $ref, allOf, ...rest } = schema;
    const parts = schemasIn(allOf);
    if (typeof $ref === "string") parts.unshift(resolveReference(root, $ref) ?? false);
    return parts.length === 0 ? schema : merge([rest, ...parts], depth + 1);
  }

  function mergePair(a: JsonSchemaObject, b: JsonSchemaObject, depth: number): JsonSchemaObject {
    const objects = mergeObjectKeywords(a, b, depth);
    const merged: Record<string, unknown> = { ...a };
    for (const [keyword, value] of Object.entries(b)) {
      if (!(keyword in a)) merged[keyword] = value;
      else if (keyword in objects || sameJson(a[keyword], value)) continue;
      else if (![...annotationKeywords, ...containerKeywords].includes(keyword))
        merged[keyword] = mergeKeyword(keyword, a, b, depth);
    }
    return { ...merged, ...objects };
  }

  function mergeKeyword(keyword: string, a: JsonSchemaObject, b: JsonSchemaObject, depth: number): unknown {
    const [left, right] = [a[keyword], b[keyword]];
    if (lowerLimits.includes(keyword)) return Math.max(Number(left), Number(right));
    if (upperLimits.includes(keyword)) return Math.min(Number(left), Number(right));
    if (keyword === "uniqueItems") return left === true || right === true;
    if (keyword === "items") return merge([schemaFrom(left), schemaFrom(right)], depth + 1);
    if (keyword !== "type" && keyword !== "enum") throw conflict;
    const common =
      keyword === "type"
        ? commonTypes(typesOf(a) ?? [], typesOf(b) ?? [])
        : listOf(left).filter((value) => listOf(right).includes(value));
    if (common.length === 0) throw conflict;
    return keyword === "type" && common.length === 1 ? common[0] : common;
  }

  /** `properties`, `required` and `additionalProperties` depend on each other, so they are merged as one. */
  function mergeObjectKeywords(a: JsonSchemaObject, b: JsonSchemaObject, depth: number): JsonSchemaObject {
    const left = propertiesOf(a);
    const right = propertiesOf(b);
    // A property of one side must also satisfy the other side's rule for further properties.
    if (!covers(a, right) || !covers(b, left)) throw conflict;
    const properties = [...new Set([...Object.keys(left), ...Object.keys(right)])].map((key) => {
      const [x, y] = [left[key], right[key]];
      const isOne = x === undefined || y === undefined || sameJson(x, y);
      return [key, isOne ? (x ?? y ?? true) : merge([x, y], depth + 1)];
    });
    const required = [...new Set([...requiredOf(a), ...requiredOf(b)])];
    const further = mergeFurther(a.additionalProperties, b.additionalProperties);
    return {
      ...(properties.length > 0 && { properties: Object.fromEntries(properties) }),
      ...(required.length > 0 && { required }),
      ...(further !== undefined && { additionalProperties: further }),
    };
  }
}

function commonTypes(a: readonly JsonType[], b: readonly JsonType[]): JsonType[] {
  const common = a.flatMap((type): JsonType[] => {
    if (b.includes(type)) return [type];
    const isWhole = type === "integer" ? b.includes("number") : type === "number" && b.includes("integer");
    return isWhole ? ["integer"] : [];
  });
  return [...new Set(common)];
}

function covers(schema: JsonSchemaObject, others: Readonly<Record<string, JsonSchema>>): boolean {
  const further = schema.additionalProperties;
  const own = propertiesOf(schema);
  return (further ?? true) === true || Object.keys(others).every((key) => Object.hasOwn(own, key));
}

function mergeFurther(a: unknown, b: unknown): unknown {
  if (a === undefined || a === true) return b ?? a;
  if (b === undefined || b === true || sameJson(a, b)) return a;
  if (a === false || b === false) return false;
  throw conflict;
}

/** Merges the `allOf` parts into the schema; a part that does not merge goes into the description. */
export function mergeAllOf(
  whole: JsonSchemaObject,
  parts: readonly JsonSchema[],
  root: JsonSchemaObject,
  path: string,
  note: TakeNote,
): JsonSchemaObject {
  const remarks: string[] = [];
  let merged = whole;
  for (const part of parts) {
    const both = mergeSchemas([merged, part], root);
    const remark = both === undefined ? describeConstraint("allOf", part) : undefined;
    if (both !== undefined) merged = both;
    else note(path, "allOf", remark ? "described" : "dropped", "A part does not merge with the others.");
    if (remark !== undefined) remarks.push(remark);
  }
  note(path, "allOf", "rewritten", "Its parts stand as one schema.");
  return remarks.length === 0 ? merged : { ...merged, description: withRemarks(merged.description, remarks) };
}
