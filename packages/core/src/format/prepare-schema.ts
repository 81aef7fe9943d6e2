import type { JsonSchemaObject } from "../schema/types.ts";
import { flattenRoot } from "./flatten-root.ts";
import type { TakeNote } from "./format-note.ts";
import { keepReferences } from "./keep-references.ts";
import { toModernSchema } from "./modern-schema.ts";

/**
 * The schema as every provider needs it: in the words of 2020-12, one object at its root, every reference
 * pointing to something. Nothing else is changed. Throws when the arguments are not an object or not JSON.
 */
export function prepareSchema(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const modern = toModernSchema(schema, note);
  const isFlat = ["$ref", "allOf", "anyOf", "oneOf"].every((keyword) => modern[keyword] === undefined);
  // A root that is about to be rewritten must not be pointed into.
  const isSafe = (reference: string) => isFlat || /^#(\/?$|\/\$defs\/|\/definitions\/)/.test(reference);
  return flattenRoot(keepReferences(modern, schema, note, isSafe), note);
}
