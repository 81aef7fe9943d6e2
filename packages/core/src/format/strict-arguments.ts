import {
  describingSchemas,
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  propertiesOf,
  resolveReference,
  typeOfValue,
  typesOf,
} from "../schema/visit.ts";
import { acceptsNull, parseObject } from "./references.ts";
import type { ToolDefinition } from "./tools.ts";

/**
 * Converts arguments of a strict call to the tool's own schema: removes a `null` that means "not given", and keeps one
 * that the tool's schema allows. Returns text that is not a JSON object unchanged.
 */
export function fromStrictArguments(args: unknown, definition: Pick<ToolDefinition, "inputSchema">): unknown {
  const parsed = typeof args === "string" ? (parseObject(args) ?? args) : args;
  return restore(parsed, [definition.inputSchema], definition.inputSchema);
}

/** `schemas`: everything that may describe the value. */
function restore(value: unknown, schemas: readonly JsonSchema[], root: JsonSchemaObject): unknown {
  if (typeof value !== "object" || value === null) return value;
  const possible = schemas
    .flatMap((schema) => describingSchemas(schema, root))
    .filter((schema) => fits(value, schema, root));
  if (Array.isArray(value)) {
    return value.map((item, index) =>
      restore(
        item,
        possible.flatMap((schema) => itemSchemas(schema, index)),
        root,
      ),
    );
  }
  const entries = Object.entries(value).flatMap(([key, member]): [string, unknown][] => {
    const described = possible.filter(
      (schema) => isRecord(schema.properties) && Object.hasOwn(schema.properties, key),
    );
    const members = described.map((schema) => propertiesOf(schema)[key]!);
    if (member !== null) return [[key, restore(member, members, root)]];
    const isMeant = members.length === 0 || members.some((schema) => acceptsNull(schema, root));
    const isOptional = described.some(
      (schema) => !(Array.isArray(schema.required) && schema.required.includes(key)),
    );
    return !isMeant && isOptional ? [] : [[key, null]];
  });
  return Object.fromEntries(entries);
}

/** Whether the schema may describe the value, by its type and by constants. */
function fits(value: object, schema: JsonSchemaObject, root: JsonSchemaObject): boolean {
  const types = typesOf(schema);
  if (types !== undefined && !types.includes(typeOfValue(value))) return false;
  if (!isRecord(value) || !isRecord(schema.properties)) return true;
  return Object.entries(schema.properties).every(([key, property]) => {
    const member = value[key];
    if (member === undefined || member === null || typeof member === "object") return true;
    return allows(property, member, root, []);
  });
}

/** Whether `const` and `enum`, also behind references and branches, allow the value. */
function allows(schema: unknown, value: unknown, root: JsonSchemaObject, seen: readonly string[]): boolean {
  if (!isRecord(schema)) return true;
  if (schema.const !== undefined && schema.const !== value) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return false;
  const reference = schema.$ref;
  if (typeof reference === "string" && !seen.includes(reference)) {
    if (!allows(resolveReference(root, reference), value, root, [...seen, reference])) return false;
  }
  const branches = schema.anyOf ?? schema.oneOf;
  return !Array.isArray(branches) || branches.some((branch) => allows(branch, value, root, seen));
}

function itemSchemas(schema: JsonSchemaObject, index: number): JsonSchema[] {
  // Before 2020-12, a list under `items` was a tuple.
  const places = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : undefined);
  const place: unknown = Array.isArray(places) ? places[index] : undefined;
  const item = place ?? (Array.isArray(schema.items) ? schema.additionalItems : schema.items);
  return isRecord(item) ? [item] : [];
}
