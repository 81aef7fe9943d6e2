import { followed, isRecord, keysOf, listOf, namesIn, valuesOf } from "./json-schema-parts.ts";
import { type Pattern, toPattern } from "./pattern.ts";
import type { JsonSchemaObject } from "./types.ts";

/** The top-level keys a schema knows by name or by pattern. */
export interface KnownKeys {
  readonly names: ReadonlySet<string>;
  readonly patterns: readonly Pattern[];
}

/** Keywords that speak about keys in ways a list of names cannot answer for. */
const openKeywords = [
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "minProperties",
  "maxProperties",
  "not",
  "$dynamicRef",
  "$recursiveRef",
];
const singleBranches = ["if", "then", "else"];
const listBranches = ["allOf", "anyOf", "oneOf"];

/**
 * The keys that may be kept, the rest being unknown. `undefined` when the schema lists no properties, or says
 * anything about other keys: whatever is in doubt is kept.
 */
export function knownKeys(root: JsonSchemaObject): KnownKeys | undefined {
  const names = new Set<string>();
  const patterns: Pattern[] = [];
  const seen = new Set<unknown>();
  if (!listsProperties(root, root, new Set()) || !collect(root)) return undefined;
  return { names, patterns };

  /** Returns false when the question cannot be decided. */
  function collect(schema: unknown): boolean {
    if (!isRecord(schema) || seen.has(schema)) return true;
    seen.add(schema);
    if (openKeywords.some((keyword) => schema[keyword] !== undefined)) return false;
    for (const name of keysOf(schema.properties)) names.add(name);
    for (const pattern of keysOf(schema.patternProperties)) patterns.push(toPattern(pattern));
    for (const name of namesIn(schema.required)) names.add(name);
    for (const keyword of ["dependentRequired", "dependencies", "dependentSchemas"]) {
      for (const name of keysOf(schema[keyword])) names.add(name);
    }
    for (const needed of valuesOf(schema.dependentRequired))
      for (const name of namesIn(needed)) names.add(name);
    return branches(schema).every(collect);
  }

  function branches(schema: JsonSchemaObject): unknown[] {
    const found = singleBranches.map((keyword) => schema[keyword]);
    for (const keyword of listBranches) found.push(...listOf(schema[keyword]));
    found.push(...valuesOf(schema.dependentSchemas), ...valuesOf(schema.dependencies));
    // A reference that cannot be followed here makes `true`, which hides nothing, into an open question.
    if (typeof schema.$ref === "string") found.push(followed(root, schema.$ref) ?? { not: {} });
    return found;
  }
}

/** Whether every value of the schema goes through a list of properties. */
function listsProperties(root: JsonSchemaObject, schema: unknown, seen: Set<unknown>): boolean {
  if (!isRecord(schema) || seen.has(schema)) return false;
  seen.add(schema);
  if (isRecord(schema.properties)) return true;
  if (typeof schema.$ref === "string" && listsProperties(root, followed(root, schema.$ref), seen))
    return true;
  return listOf(schema.allOf).some((part) => listsProperties(root, part, seen));
}
