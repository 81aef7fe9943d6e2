import type { JsonSchema, JsonSchemaObject } from "../schema/types.ts";
import { isRecord } from "./json-value.ts";
import { isSchema } from "./map-subschemas.ts";

/** The value as a schema; what is none accepts anything. */
export function schemaFrom(value: unknown): JsonSchema {
  return isSchema(value) ? value : true;
}

/** The schemas of a list keyword such as `anyOf`; none when there is no list. */
export function schemasIn(list: unknown): JsonSchema[] {
  return Array.isArray(list) ? list.map(schemaFrom) : [];
}

export function propertiesOf(schema: JsonSchemaObject): Readonly<Record<string, JsonSchema>> {
  if (!isRecord(schema.properties)) return {};
  return Object.fromEntries(
    Object.entries(schema.properties).map(([key, value]) => [key, schemaFrom(value)]),
  );
}

export function requiredOf(schema: JsonSchemaObject): readonly string[] {
  return Array.isArray(schema.required) ? schema.required : [];
}
