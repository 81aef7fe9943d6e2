import { SchemaError } from "./schema-error.ts";
import type { JsonSchemaObject } from "./types.ts";

/** A JSON Schema that a library or a converter made, as plain JSON without the dialect it is in anyway. */
export function finishLibrarySchema(made: Record<string, unknown>): JsonSchemaObject {
  const { $schema: _, ...schema }: Record<string, unknown> = toJson(made);
  if (schema.type !== undefined || schema.properties === undefined) return schema;
  return { type: "object", ...schema };
}

function toJson(made: Record<string, unknown>): Record<string, unknown> {
  try {
    return JSON.parse(JSON.stringify(made, bigIntAsNumber));
  } catch (error) {
    throw new SchemaError(
      "The schema's JSON Schema holds a value that JSON cannot express, such as a circular default. Remove that value.",
      { cause: error },
    );
  }
}

function bigIntAsNumber(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value;
}
