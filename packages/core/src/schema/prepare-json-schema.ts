import { type Dialect, schemaKeywords } from "./json-schema-keywords.ts";
import { toPattern } from "./pattern.ts";
import type { JsonSchemaObject } from "./types.ts";

/**
 * A copy of a schema in the form the engine takes. Authors mix drafts and OpenAPI habits, and a tool that
 * works elsewhere should work here: what has one obvious meaning is translated, what has none is left out.
 */
export function prepareJsonSchema(schema: JsonSchemaObject, dialect: Dialect): JsonSchemaObject {
  const prepared: Record<string, unknown> = {};
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword];
    if (value === undefined || ignoredKeywords.has(keyword)) continue;
    prepared[keyword] = prepareKeyword(keyword, value, dialect);
  }
  if (prepared.nullable !== undefined && prepared.type === undefined) delete prepared.nullable;
  if (dialect !== "draft-07") renameTupleKeywords(prepared, dialect);
  renameBooleanLimit(prepared, "exclusiveMinimum", "minimum");
  renameBooleanLimit(prepared, "exclusiveMaximum", "maximum");
  if ("default" in prepared && !acceptsDefault(prepared)) delete prepared.default;
  return prepared;
}

/** `id` is draft 4's `$id`; `$async` would turn the answer into a promise, which counts as true. */
const ignoredKeywords = new Set(["$schema", "id", "$async"]);

function prepareKeyword(keyword: string, value: unknown, dialect: Dialect): unknown {
  const prepare = (part: unknown) => (isRecord(part) ? prepareJsonSchema(part, dialect) : part);
  const arrangement = keyword === "dependencies" ? "map" : schemaKeywords[keyword];
  if (arrangement === undefined) return value;
  if (Array.isArray(value)) return value.map(prepare);
  if (arrangement !== "map" || !isRecord(value)) return prepare(value);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, prepare(part)]));
}

/** Until 2020-12, `items` could be a list and `additionalItems` took the rest. */
function renameTupleKeywords(schema: Record<string, unknown>, dialect: Dialect): void {
  if (dialect !== "2020-12" || !Array.isArray(schema.items)) return;
  schema.prefixItems = schema.items;
  delete schema.items;
  if (schema.additionalItems !== undefined) schema.items = schema.additionalItems;
  delete schema.additionalItems;
}

/** In draft 4, `exclusiveMinimum: true` sharpened `minimum`. */
function renameBooleanLimit(schema: Record<string, unknown>, exclusive: string, inclusive: string): void {
  if (typeof schema[exclusive] !== "boolean") return;
  const isExclusive = schema[exclusive];
  delete schema[exclusive];
  if (!isExclusive || schema[inclusive] === undefined) return;
  schema[exclusive] = schema[inclusive];
  delete schema[inclusive];
}

/**
 * Whether a default fits its own schema, as far as the simple keywords tell. Many tools declare
 * `{ "type": "string", "default": null }`; filling that in would refuse every call that leaves the key out.
 */
function acceptsDefault(schema: Readonly<Record<string, unknown>>): boolean {
  const value = schema.default;
  if (schema.nullable === true && value === null) return true;
  if (Array.isArray(schema.enum) && isScalar(value) && !schema.enum.includes(value)) return false;
  if (typeof value === "string" && !acceptsString(schema, value)) return false;
  if (typeof value === "number" && !acceptsNumber(schema, value)) return false;
  if (schema.type === undefined) return true;
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type];
  return types.some((type) => type === typeOf(value) || (type === "number" && typeOf(value) === "integer"));
}

function acceptsString(schema: Readonly<Record<string, unknown>>, value: string): boolean {
  const length = [...value].length;
  if (length < Number(schema.minLength ?? 0) || length > Number(schema.maxLength ?? Infinity)) return false;
  return typeof schema.pattern !== "string" || toPattern(schema.pattern).test(value);
}

function acceptsNumber(schema: Readonly<Record<string, unknown>>, value: number): boolean {
  if (value < Number(schema.minimum ?? -Infinity) || value > Number(schema.maximum ?? Infinity)) return false;
  return (
    value > Number(schema.exclusiveMinimum ?? -Infinity) &&
    value < Number(schema.exclusiveMaximum ?? Infinity)
  );
}

function isScalar(value: unknown): boolean {
  return typeof value !== "object" || value === null;
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}

function isRecord(value: unknown): value is JsonSchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
