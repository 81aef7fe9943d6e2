import { toPattern } from "./pattern.ts";
import { SchemaError } from "./types.ts";
import { arrangementOf, isRecord, type JsonSchemaObject, mapSchemas, typeOfValue } from "./visit.ts";

/** Keywords that do not hold schemas, by the form of their value. */
const keywordsOfForm = {
  number: "minimum maximum multipleOf",
  count: "minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties",
  string: "pattern format $ref $id $schema $anchor $dynamicAnchor $dynamicRef $recursiveRef",
  boolean: "uniqueItems",
  names: "required",
  types: "type",
  values: "enum",
  object: "dependentRequired",
  // In draft 4, exclusive limits are booleans; `renameLimit` translates them before the schema is compiled.
  any: `exclusiveMinimum exclusiveMaximum const default title description examples example deprecated readOnly
    writeOnly nullable discriminator contentEncoding contentMediaType $comment $vocabulary $recursiveAnchor`,
};

/** The form of each keyword that does not hold schemas. */
export const plainKeywords: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(keywordsOfForm).flatMap(([form, names]) => names.split(/\s+/).map((name) => [name, form])),
);

export function isKnownKeyword(key: string): boolean {
  return arrangementOf(key) !== undefined || Object.hasOwn(plainKeywords, key);
}

/** Whether the key is a known keyword or a custom one (`$…` or `x-…`). */
export function isKeyword(key: string): boolean {
  return isKnownKeyword(key) || /^(\$|x-)/.test(key);
}

/** The supported dialects, named as in `$schema`. */
export type Dialect = "2020-12" | "2019-09" | "draft-07";

/** 2020-12 unless `$schema` names another; drafts 3 to 6 are read as draft 7. */
export function dialectOf(schema: JsonSchemaObject): Dialect {
  const declared = typeof schema.$schema === "string" ? schema.$schema : "";
  if (declared.includes("2019-09")) return "2019-09";
  return /draft-0[3-7]/.test(declared) ? "draft-07" : "2020-12";
}

/** Whether a reference names a metaschema. Metaschemas ship with every validator, so no network is needed. */
export function isMetaschema(reference: string): boolean {
  return /^https?:\/\/json-schema\.org\/(draft\/20(19-09|20-12)\/|draft-07\/)?schema\b/.test(reference);
}

/**
 * The schema as plain JSON, with `type: "object"` at its root if it describes an object. Returns the same object if
 * nothing changes. Throws `SchemaError` when it cannot be written as JSON.
 */
export function plainJsonSchema(schema: JsonSchemaObject): JsonSchemaObject {
  const plain = isJson(schema, 0) ? schema : throughJson(schema);
  if (plain.type !== undefined || !describesObject(plain)) return plain;
  return { type: "object", ...plain };
}

function describesObject(schema: JsonSchemaObject): boolean {
  if (schema.properties !== undefined || schema.required !== undefined) return true;
  // Authors write "no arguments" as an empty schema; providers want an object.
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
 * Copies a schema in the form that the validation engine accepts. Authors mix drafts and OpenAPI: keywords
 * with one obvious meaning are translated, others dropped. `mark`: a keyword that is added to the schema and
 * to every schema inside it.
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
  // `id` is draft 4's `$id`; `$async` would make the engine return a promise, which counts as true.
  for (const ignored of ["$schema", "id", "$async"]) delete prepared[ignored];
  if (prepared.type === undefined) delete prepared.nullable;
  if (dialect === "2020-12") renameTuple(prepared);
  renameLimit(prepared, "exclusiveMinimum", "minimum");
  renameLimit(prepared, "exclusiveMaximum", "maximum");
  for (const keyword of Object.keys(prepared)) if (prepared[keyword] === undefined) delete prepared[keyword];
  if ("default" in prepared && !acceptsDefault(prepared)) delete prepared.default;
  return prepared;
}

/**
 * Translates a tuple of drafts before 2020-12: a list in `items` with `additionalItems`. Returns false when
 * the schema has none.
 */
export function renameTuple(schema: Record<string, unknown>): boolean {
  if (!Array.isArray(schema.items)) return false;
  schema.prefixItems = schema.items;
  delete schema.items;
  if (schema.additionalItems !== undefined) schema.items = schema.additionalItems;
  delete schema.additionalItems;
  return true;
}

/** Translates `exclusiveMinimum: true` of draft 4. Returns false when the schema has no such limit. */
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
 * Whether a default fits its own schema, by the simple keywords. Many tools declare `{ "type": "string", "default":
 * null }`; filling that in would refuse every call without the key.
 */
function acceptsDefault(schema: JsonSchemaObject): boolean {
  const { default: value, enum: choices, type, pattern } = schema;
  const own = typeOfValue(value);
  if (schema.nullable === true && value === null) return true;
  const isScalar = typeof value !== "object" || value === null;
  if (Array.isArray(choices) && isScalar && !choices.includes(value)) return false;
  if (typeof value === "string") {
    if (!isBetween([...value].length, schema.minLength, schema.maxLength)) return false;
    if (typeof pattern === "string" && !toPattern(pattern).test(value)) return false;
  }
  if (typeof value === "number") {
    if (!isBetween(value, schema.minimum, schema.maximum)) return false;
    if (value <= Number(schema.exclusiveMinimum ?? -Infinity)) return false;
    if (value >= Number(schema.exclusiveMaximum ?? Infinity)) return false;
  }
  return (
    type === undefined || [type].flat().some((one) => one === own || (one === "number" && own === "integer"))
  );
}

function isBetween(number: number, least: unknown, most: unknown): boolean {
  return number >= Number(least ?? -Infinity) && number <= Number(most ?? Infinity);
}
