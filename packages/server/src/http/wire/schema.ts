import type { JsonSchemaObject } from "@toolrack/core";
import { list, object, type Schema, text } from "../../helpers/schema.ts";

/** The schemas of the API are written as all others, with what only `/openapi.json` has beside. */
export * from "../../helpers/schema.ts";

/** A reference to a named schema of `/openapi.json`. */
export function ref<Value = unknown>(name: string): Schema<Value> {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object with a list in `items`, the form of most lists in the API. */
export function items(schema: JsonSchemaObject): Schema {
  return object({ items: list(schema) });
}

/** One page of a longer list. */
export function page(schema: JsonSchemaObject): Schema {
  const next = text("The `cursor` of the next page; absent on the last.");
  return object({ items: list(schema), "next?": next });
}
