import { distinctJson, sameJson } from "../schema/json.ts";
import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  type JsonType,
  propertiesOf,
  requiredOf,
  resolveReference,
  schemaFrom,
  schemasIn,
  typesOf,
} from "../schema/visit.ts";
import { toModernSchema } from "./modern-schema.ts";
import { describeConstraint, type TakeNote, withRemarks } from "./notes.ts";
import { keepReferences } from "./references.ts";

/**
 * Prepares a schema for any provider: the keywords of 2020-12, one object at its root, every reference resolvable.
 * Changes nothing else. Throws when the arguments are not an object or not JSON.
 */
export function prepareSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const modern = toModernSchema(schema, note);
  const isFlat = ["$ref", "allOf", "anyOf", "oneOf"].every((keyword) => modern[keyword] === undefined);
  // References must not point into a root that is about to be rewritten.
  const isSafe = (reference: string) => isFlat || /^#(\/?$|\/\$defs\/|\/definitions\/)/.test(reference);
  return flattenRoot(keepReferences(modern, schema, note, isSafe), note);
}

/** Keywords that constrain nothing. */
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

/** Keywords that hold or name other schemas; they do not affect what a schema accepts. */
const containerKeywords = ["$defs", "definitions", "$id", "$anchor", "$dynamicAnchor"];

/**
 * Merges schemas into one that accepts what all of them accept; undefined when that is impossible. Earlier schemas win
 * where only wording differs.
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

/** Merges the schema's own `$ref` and `allOf` into it. */
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
  // A property of one side must also satisfy the other side's rule for further properties.
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

const maxDepth = 24;

/** Keywords that the providers refuse at the top of a tool's schema, though not below it. */
const describedAtRoot = ["not", "enum", "const"];

/**
 * Rewrites the root as one object: no `$ref`, no `allOf`, no alternatives. Alternatives become one object with the
 * properties of all; the description says which go together. Throws when the arguments are not an object.
 */
export function flattenRoot(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const { $defs, definitions, ...rest } = flattenObject(schema, schema, note, 0);
  const remarks: string[] = [];
  const root: Record<string, unknown> = { ...rest };
  for (const keyword of describedAtRoot) {
    if (!(keyword in root)) continue;
    const remark = describeConstraint(keyword, root[keyword]);
    delete root[keyword];
    if (remark !== undefined) remarks.push(remark);
    note("", keyword, remark === undefined ? "dropped" : "described", "Not accepted at the top of a schema.");
  }
  const types = typesOf(root) ?? ["object"];
  if (!types.includes("object"))
    throw new TypeError(`arguments must be an object, not ${types.join(" or ")}`);
  const description = withRemarks(root.description, remarks);
  return {
    ...root,
    type: "object",
    ...(description !== undefined && { description }),
    properties: root.properties ?? {},
    ...((schema.$defs ?? $defs) !== undefined && { $defs: schema.$defs ?? $defs }),
    ...((schema.definitions ?? definitions) !== undefined && {
      definitions: schema.definitions ?? definitions,
    }),
  };
}

function flattenObject(
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  note: TakeNote,
  depth: number,
): JsonSchemaObject {
  if (depth > maxDepth) throw new TypeError("the arguments refer to themselves without end");
  const { $ref, allOf, anyOf, oneOf, ...base } = schema;
  if (typeof $ref === "string") {
    const target = resolveReference(root, $ref);
    if (target === undefined) throw new TypeError(`nothing is found at ${$ref}`);
    note("", "$ref", "rewritten", "What it refers to stands in its place.");
    const parts = [target, ...schemasIn(allOf)];
    return flattenObject({ ...schema, $ref: undefined, allOf: parts }, root, note, depth + 1);
  }
  if (allOf !== undefined) {
    const parts = schemasIn(allOf).map((part) =>
      isRecord(part) ? flattenObject(part, root, note, depth + 1) : part,
    );
    const whole = { ...base, ...(anyOf !== undefined && { anyOf }), ...(oneOf !== undefined && { oneOf }) };
    return flattenObject(mergeAllOf(whole, parts, root, "", note), root, note, depth + 1);
  }
  if (anyOf !== undefined) {
    const rest = { ...base, ...(oneOf !== undefined && { oneOf }) };
    return flattenObject(unite(rest, schemasIn(anyOf), root, note, depth, "anyOf"), root, note, depth + 1);
  }
  if (oneOf !== undefined) return unite(base, schemasIn(oneOf), root, note, depth, "oneOf");
  return base;
}

const introductions = {
  anyOf: "at least one of these sets of arguments is needed",
  oneOf: "exactly one of these sets of arguments is needed",
};

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

/** Makes one object with the properties of all branches. */
function unite(
  base: JsonSchemaObject,
  branches: readonly JsonSchema[],
  root: JsonSchemaObject,
  note: TakeNote,
  depth: number,
  keyword: keyof typeof introductions,
): JsonSchemaObject {
  const objects = branches
    .filter(isRecord)
    .map((branch) => flattenObject(branch, root, note, depth + 1))
    .filter((branch) => typesOf(branch)?.includes("object") ?? true);
  if (objects.length === 0) return base;
  const remark = `${introductions[keyword]}: ${objects.map(summary).join("; ")}`;
  note("", keyword, "rewritten", "Its branches stand as one object; the description says which go together.");
  const complete = objects.map((object) => mergeSchemas([base, object], root) ?? object);
  const maps = [base, ...complete].map(propertiesOf);
  const properties = [...new Set(maps.flatMap((map) => Object.keys(map)))].map(
    (key): [string, JsonSchema] => {
      const inBranches = maps.slice(1).flatMap((map) => (Object.hasOwn(map, key) ? [map[key]!] : []));
      return [key, inBranches.length > 0 ? alternatives(inBranches) : maps[0]![key]!];
    },
  );
  const required = [...new Set([...requiredOf(base), ...commonTo(objects.map(requiredOf))])];
  const isClosed = objects.every((object) => object.additionalProperties === false);
  return {
    ...base,
    type: "object",
    description: withRemarks(base.description, [remark]),
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
    ...(isClosed && { additionalProperties: false }),
  };
}

/** Summarizes a branch: its required keys, and the values that distinguish it. */
function summary(branch: JsonSchemaObject): string {
  const properties = propertiesOf(branch);
  const needs = requiredOf(branch).map((key) => {
    const property = properties[key];
    return isRecord(property) && "const" in property ? `${key}=${JSON.stringify(property.const)}` : key;
  });
  const title = typeof branch.title === "string" ? `${branch.title} ` : "";
  return `${title}{${needs.join(", ")}}`;
}

function alternatives(schemas: readonly JsonSchema[]): JsonSchema {
  const distinct = distinctJson(schemas);
  if (distinct.length === 1) return distinct[0]!;
  if (distinct.includes(true)) return true;
  return fixedValues(distinct) ?? { anyOf: distinct };
}

/** One `enum` for schemas that are only values and share their wording. */
function fixedValues(schemas: readonly JsonSchema[]): JsonSchemaObject | undefined {
  const values: unknown[] = [];
  const frames: JsonSchemaObject[] = [];
  for (const schema of schemas) {
    if (!isRecord(schema) || (schema.enum === undefined && schema.const === undefined)) return undefined;
    const { const: value, enum: list, ...frame } = schema;
    values.push(...(Array.isArray(list) ? list : [value]));
    frames.push(frame);
  }
  const [frame] = distinctJson(frames);
  const isPlain = Object.keys(frame ?? {}).every((key) => ["type", "title", "description"].includes(key));
  return isPlain && frames.every((other) => sameJson(other, frame))
    ? { ...frame, enum: distinctJson(values) }
    : undefined;
}

function commonTo(lists: readonly (readonly string[])[]): string[] {
  const [first = [], ...others] = lists;
  return first.filter((key) => others.every((list) => list.includes(key)));
}
