import { toPattern } from "./pattern.ts";
import { SchemaError } from "./types.ts";
import { arrangementOf, isRecord, type JsonSchemaObject, mapSchemas, typeOfValue } from "./visit.ts";

/** What a keyword's value must be when it is no schema. */
export const plainKeywords: Readonly<
  Record<string, "number" | "count" | "string" | "boolean" | "strings" | "any">
> = {
  minimum: "number",
  maximum: "number",
  multipleOf: "number",
  // Draft 4 wrote a boolean here; it is translated before it is compiled.
  exclusiveMinimum: "any",
  exclusiveMaximum: "any",
  minLength: "count",
  maxLength: "count",
  minItems: "count",
  maxItems: "count",
  minContains: "count",
  maxContains: "count",
  minProperties: "count",
  maxProperties: "count",
  pattern: "string",
  format: "string",
  $ref: "string",
  $id: "string",
  $schema: "string",
  $anchor: "string",
  $dynamicAnchor: "string",
  $dynamicRef: "string",
  $recursiveRef: "string",
  uniqueItems: "boolean",
  required: "strings",
  type: "any",
  enum: "any",
  const: "any",
  default: "any",
  dependentRequired: "any",
  title: "any",
  description: "any",
  examples: "any",
  example: "any",
  deprecated: "any",
  readOnly: "any",
  writeOnly: "any",
  nullable: "any",
  discriminator: "any",
  contentEncoding: "any",
  contentMediaType: "any",
  $comment: "any",
  $vocabulary: "any",
  $recursiveAnchor: "any",
};

export function isKnownKeyword(key: string): boolean {
  return arrangementOf(key) !== undefined || Object.hasOwn(plainKeywords, key);
}

/** Also those that are somebody's own. */
export function isKeyword(key: string): boolean {
  return isKnownKeyword(key) || /^(\$|x-)/.test(key);
}

/** The dialects that are understood, each with the part of `$schema` that names it. */
export type Dialect = "2020-12" | "2019-09" | "draft-07";

/** 2020-12 unless `$schema` names another; drafts 3 to 6 are read as draft 7. */
export function dialectOf(schema: JsonSchemaObject): Dialect {
  const declared = typeof schema.$schema === "string" ? schema.$schema : "";
  if (declared.includes("2019-09")) return "2019-09";
  return /draft-0[3-7]/.test(declared) ? "draft-07" : "2020-12";
}

/** A schema's own text that ships with every validator, so a reference to it needs no network. */
export function isMetaschema(reference: string): boolean {
  return /^https?:\/\/json-schema\.org\/(draft\/20(19-09|20-12)\/|draft-07\/)?schema\b/.test(reference);
}

/**
 * A schema as plain JSON, with `type: "object"` at its root where it describes an object. The schema itself when
 * it is that already. Throws `SchemaError` when it cannot be written as JSON.
 */
export function plainJsonSchema(schema: JsonSchemaObject): JsonSchemaObject {
  const plain = isJson(schema, 0) ? schema : throughJson(schema);
  if (plain.type !== undefined || !describesObject(plain)) return plain;
  return { type: "object", ...plain };
}

function describesObject(schema: JsonSchemaObject): boolean {
  if (schema.properties !== undefined || schema.required !== undefined) return true;
  // An empty schema is how authors write "no arguments"; every provider wants an object there.
  return Object.keys(schema).every((keyword) => annotations.has(keyword));
}

const annotations = new Set(["$schema", "$id", "$comment", "title", "description", "examples"]);

function throughJson(schema: JsonSchemaObject): JsonSchemaObject {
  try {
    return JSON.parse(JSON.stringify(schema), (key, value) => (key === "__proto__" ? undefined : value));
  } catch (error) {
    throw new SchemaError(
      "The JSON Schema holds a value that JSON cannot express. Use only strings, numbers, booleans, null, arrays and objects in it.",
      { cause: error },
    );
  }
}

function isJson(value: unknown, depth: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object") return typeof value === "string" || typeof value === "boolean";
  if (value === null) return true;
  if (depth > 1000) return false;
  if (Array.isArray(value)) return value.every((member) => isJson(member, depth + 1));
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  for (const key in value) {
    if (key === "__proto__") return false;
    if (!isJson((value as Record<string, unknown>)[key], depth + 1)) return false; // Objects are read by key.
  }
  return true;
}

/**
 * A copy of a schema in the form the engine takes. Authors mix drafts and OpenAPI habits, and a tool that
 * works elsewhere should work here: what has one obvious meaning is translated, what has none is left out. `mark` is a
 * keyword that every schema in it is given.
 */
export function prepareJsonSchema(
  schema: JsonSchemaObject,
  dialect: Dialect,
  mark?: string,
): JsonSchemaObject {
  const prepared = mapSchemas(schema, (part) =>
    isRecord(part) ? prepareJsonSchema(part, dialect, mark) : part,
  );
  if (mark !== undefined) prepared[mark] = true;
  // `id` is draft 4's `$id`; `$async` would turn the answer into a promise, which counts as true.
  for (const ignored of ["$schema", "id", "$async"]) delete prepared[ignored];
  if (prepared.type === undefined) delete prepared.nullable;
  if (dialect === "2020-12") renameTuple(prepared);
  renameLimit(prepared, "exclusiveMinimum", "minimum");
  renameLimit(prepared, "exclusiveMaximum", "maximum");
  for (const keyword of Object.keys(prepared)) if (prepared[keyword] === undefined) delete prepared[keyword];
  if ("default" in prepared && !acceptsDefault(prepared)) delete prepared.default;
  return prepared;
}

/** Until 2020-12, `items` could be a list and `additionalItems` took the rest. Says whether it was so here. */
export function renameTuple(schema: Record<string, unknown>): boolean {
  if (!Array.isArray(schema.items)) return false;
  schema.prefixItems = schema.items;
  delete schema.items;
  if (schema.additionalItems !== undefined) schema.items = schema.additionalItems;
  delete schema.additionalItems;
  return true;
}

/** In draft 4, `exclusiveMinimum: true` sharpened `minimum`. Says whether it did here. */
export function renameLimit(schema: Record<string, unknown>, exclusive: string, inclusive: string): boolean {
  if (typeof schema[exclusive] !== "boolean") return false;
  const isExclusive = schema[exclusive] && schema[inclusive] !== undefined;
  delete schema[exclusive];
  if (!isExclusive) return false;
  schema[exclusive] = schema[inclusive];
  delete schema[inclusive];
  return true;
}

/**
 * Whether a default fits its own schema, as far as the simple keywords tell. Many tools declare
 * `{ "type": "string", "default": null }`; filling that in would refuse every call that leaves the key out.
 */
function acceptsDefault(schema: JsonSchemaObject): boolean {
  const value = schema.default;
  if (schema.nullable === true && value === null) return true;
  if (Array.isArray(schema.enum) && isScalar(value) && !schema.enum.includes(value)) return false;
  if (typeof value === "string" && !acceptsString(schema, value)) return false;
  if (typeof value === "number" && !acceptsNumber(schema, value)) return false;
  if (schema.type === undefined) return true;
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const own = typeOfValue(value);
  return types.some((type) => type === own || (type === "number" && own === "integer"));
}

function acceptsString(schema: JsonSchemaObject, value: string): boolean {
  const length = [...value].length;
  if (length < Number(schema.minLength ?? 0) || length > Number(schema.maxLength ?? Infinity)) return false;
  return typeof schema.pattern !== "string" || toPattern(schema.pattern).test(value);
}

function acceptsNumber(schema: JsonSchemaObject, value: number): boolean {
  if (value < Number(schema.minimum ?? -Infinity) || value > Number(schema.maximum ?? Infinity)) return false;
  return (
    value > Number(schema.exclusiveMinimum ?? -Infinity) &&
    value < Number(schema.exclusiveMaximum ?? Infinity)
  );
}

function isScalar(value: unknown): boolean {
  return typeof value !== "object" || value === null;
}
