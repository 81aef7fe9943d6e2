import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { describeConstraint, withRemarks } from "./describe-constraint.ts";
import type { TakeNote } from "./format-note.ts";
import { distinctJson, isRecord, sameJson } from "./json-value.ts";
import { mergeSchemas } from "./merge-schemas.ts";
import { resolveReference } from "./resolve-reference.ts";
import { propertiesOf, requiredOf, schemasIn } from "./schema-parts.ts";
import { typesOf } from "./schema-types.ts";

const maxDepth = 24;

/** Keywords that the providers refuse at the top of a tool's schema, though not below it. */
const describedAtRoot = ["not", "enum", "const"];

/**
 * The schema as one object at its root: no `$ref`, no `allOf`, no alternatives. Alternatives become one object
 * with the properties of all of them, and the description says which go together. Throws when the arguments
 * are not an object.
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
    note("", "allOf", "rewritten", "Its parts stand as one schema.");
    return flattenObject(mergeGreedily(whole, parts, root, note), root, note, depth + 1);
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

/** The parts as one schema; a part that cannot be worked in is said in the description. */
function mergeGreedily(
  whole: JsonSchemaObject,
  parts: readonly JsonSchema[],
  root: JsonSchemaObject,
  note: TakeNote,
): JsonSchemaObject {
  const remarks: string[] = [];
  let merged = whole;
  for (const part of parts) {
    const both = mergeSchemas([merged, part], root);
    if (both !== undefined) {
      merged = both;
      continue;
    }
    const remark = describeConstraint("allOf", part);
    if (remark !== undefined) remarks.push(remark);
    note(
      "",
      "allOf",
      remark === undefined ? "dropped" : "described",
      "A part does not merge with the others.",
    );
  }
  return remarks.length === 0 ? merged : { ...merged, description: withRemarks(merged.description, remarks) };
}

/** One object that has room for every branch. */
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

/** A branch in a few words: what it needs, and the values by which it is told apart. */
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

/** One `enum` in place of schemas that are nothing but values and share their wording. */
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
