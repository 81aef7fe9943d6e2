import type { JsonSchemaObject } from "../schema/types.ts";
import { isRecord } from "./json-value.ts";
import { resolveReference } from "./resolve-reference.ts";

/** The provider's documented limits of a strict schema. */
const limits = {
  properties: 5_000,
  depth: 10,
  enumValues: 1_000,
  textLength: 120_000,
  largeEnum: 250,
  largeEnumLength: 15_000,
};

/** What a strict schema exceeds, in words, or nothing. */
export function checkStrictLimits(root: JsonSchemaObject): string | undefined {
  let properties = 0;
  let enumValues = 0;
  let textLength = 0;
  let problem: string | undefined;
  visit(root, 0, []);
  const definitions = isRecord(root.$defs) ? root.$defs : {};
  for (const [name, definition] of Object.entries(definitions)) {
    textLength += name.length;
    // Depth is counted along the references above; here only the sizes are.
    if (isRecord(definition)) visit(definition, 0, undefined);
  }
  if (properties > limits.properties) problem ??= `more than ${limits.properties} properties`;
  if (enumValues > limits.enumValues) problem ??= `more than ${limits.enumValues} values in enums`;
  if (textLength > limits.textLength)
    problem ??= `more than ${limits.textLength} characters of names and values`;
  return problem;

  /** With `references`, measures depth along `$ref`; without, counts sizes. The root counts for both. */
  function visit(schema: JsonSchemaObject, depth: number, references: readonly string[] | undefined): void {
    if (depth > limits.depth) problem ??= `more than ${limits.depth} levels of nesting`;
    if (problem !== undefined) return;
    const isCounted = references === undefined || references.length === 0;
    if (isCounted && Array.isArray(schema.enum)) countValues(schema.enum);
    if (references !== undefined && typeof schema.$ref === "string" && !references.includes(schema.$ref)) {
      const target = resolveReference(root, schema.$ref);
      if (isRecord(target) && references.length < limits.depth)
        visit(target, depth, [...references, schema.$ref]);
    }
    if (Array.isArray(schema.anyOf)) for (const branch of schema.anyOf) visit(branch, depth, references);
    if (isRecord(schema.items)) visit(schema.items, depth + 1, references);
    for (const [name, property] of Object.entries(isRecord(schema.properties) ? schema.properties : {})) {
      if (isCounted) properties++;
      if (isCounted) textLength += name.length;
      if (isRecord(property)) visit(property, depth + 1, references);
    }
  }

  function countValues(values: readonly unknown[]): void {
    enumValues += values.length;
    const length = values.reduce<number>((sum, value) => sum + String(value).length, 0);
    textLength += length;
    if (values.length > limits.largeEnum && length > limits.largeEnumLength) {
      problem ??= `an enum of more than ${limits.largeEnum} values and ${limits.largeEnumLength} characters`;
    }
  }
}
