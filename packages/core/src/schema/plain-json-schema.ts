import { SchemaError } from "./schema-error.ts";
import type { JsonSchemaObject } from "./types.ts";

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
