import { compileSchema, type JsonSchemaObject, type ToolInfo } from "@toolrack/core";
import { resolveReference } from "@toolrack/core/internal/schema";
import { isRecord, shellQuote } from "../helpers/index.ts";

export interface Property {
  readonly name: string;
  readonly schema: JsonSchemaObject;
  readonly required: boolean;
}

/** The JSON Schema of a tool's parameters; empty when its library cannot produce one. */
export function parametersOf(info: ToolInfo): JsonSchemaObject {
  try {
    return compileSchema(info.parameters).jsonSchema();
  } catch {
    return {};
  }
}

/** Follows the local references of a subschema. */
export function follow(schema: unknown, root: JsonSchemaObject): JsonSchemaObject {
  let at = isRecord(schema) ? schema : {};
  // References may be chained; one that leads back to itself ends as an empty schema.
  for (let hops = 0; hops < 16 && typeof at.$ref === "string"; hops++) {
    const { $ref, ...beside } = at;
    const target = resolveReference(root, String($ref));
    at = isRecord(target) ? { ...target, ...beside } : beside;
  }
  return at;
}

/** The properties of an object schema, including those of `allOf`. */
export function propertiesOf(schema: JsonSchemaObject, root: JsonSchemaObject): Property[] {
  const parts = [schema, ...listOf(schema.allOf).map((part) => follow(part, root))];
  const required = new Set(parts.flatMap((part) => listOf(part.required)));
  return parts.flatMap((part) =>
    Object.entries(objectOr(part.properties)).map(([name, value]) => ({
      name,
      schema: follow(value, root),
      required: required.has(name),
    })),
  );
}

/** The alternatives of a schema: the schema itself, or each branch merged with the common part. */
export function alternativesOf(
  schema: JsonSchemaObject,
  root: JsonSchemaObject,
  depth = 0,
): JsonSchemaObject[] {
  const { anyOf, oneOf, ...common } = schema;
  const choices = [...listOf(anyOf), ...listOf(oneOf)];
  // A schema may contain itself.
  if (choices.length === 0 || depth > 4) return [common];
  return choices.flatMap((choice) => alternativesOf(both(common, follow(choice, root)), root, depth + 1));
}

function both(common: JsonSchemaObject, choice: JsonSchemaObject): JsonSchemaObject {
  const properties = { ...objectOr(common.properties), ...objectOr(choice.properties) };
  return {
    ...common,
    ...choice,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    required: [...listOf(common.required), ...listOf(choice.required)],
  };
}

/** The types that a value may have; empty when the schema names none. */
export function typesOf(schema: JsonSchemaObject, root: JsonSchemaObject): Set<string> {
  return new Set(
    alternativesOf(schema, root).flatMap((one) => {
      const named = listOf(one.type).filter((type) => typeof type === "string");
      if (named.length > 0) return named;
      return valuesOf(one).map((value) =>
        value === null ? "null" : Array.isArray(value) ? "array" : typeof value,
      );
    }),
  );
}

/** The values that an `enum` or `const` allows; empty when there is neither. */
export function valuesOf(schema: JsonSchemaObject): unknown[] {
  return Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : [];
}

function listOf(value: unknown): unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

function objectOr(value: unknown): JsonSchemaObject {
  return isRecord(value) ? value : {};
}

const LONGEST = 60;

/** A schema in a few words: `integer ≥ 1`, `"json" | "text"`, `array of string`. */
export function describeType(schema: JsonSchemaObject, root: JsonSchemaObject, depth = 0): string {
  const described = alternativesOf(schema, root).map((one) => describeOne(one, root, depth));
  const words = [...new Set(described)].join(" | ");
  return words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
}

function describeOne(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): string {
  const values = valuesOf(schema);
  if (values.length > 0) return values.map((value) => JSON.stringify(value)).join(" | ");
  const described = [...typesOf(schema, root)].map((type) => {
    if (type === "array") {
      // A schema may contain itself, so it is described a few levels deep only.
      return schema.items === undefined || depth > 2
        ? "array"
        : `array of ${describeType(follow(schema.items, root), root, depth + 1)}`;
    }
    if (type === "string") {
      const pattern = typeof schema.pattern === "string" ? `/${schema.pattern}/` : schema.format;
      const length = bounds(schema.minLength || undefined, schema.maxLength, " characters");
      return [type, pattern, length].filter(Boolean).join(" ");
    }
    if (type !== "number" && type !== "integer") return type;
    return [type, bounds(schema.minimum, schema.maximum, "")].filter(Boolean).join(" ");
  });
  return described.length === 0 ? "any" : described.join(" | ");
}

function bounds(least: unknown, most: unknown, unit: string): string {
  const hasLeast = typeof least === "number";
  if (hasLeast && typeof most === "number") return `${least}–${most}${unit}`;
  if (hasLeast) return `≥ ${least}${unit}`;
  return typeof most === "number" ? `≤ ${most}${unit}` : "";
}

/** `call NAME key=value…` with a value for everything that the tool requires. */
export function exampleCall(info: ToolInfo): string {
  return ["call", info.name, ...examplePairs(info)].map(shellQuote).join(" ");
}

/** Words in the form that `parsePairs` takes. */
export function examplePairs(info: ToolInfo): string[] {
  const root = parametersOf(info);
  const example = Object.entries(exampleObject(follow(root, root), root, 0));
  return example.map(([name, value]) =>
    typeof value === "object" && value !== null
      ? `${name}:=${JSON.stringify(value)}`
      : `${name}=${String(value)}`,
  );
}

function exampleObject(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): object {
  const required = propertiesOf(schema, root).filter((property) => property.required);
  return Object.fromEntries(required.map(({ name, schema: own }) => [name, exampleOf(own, root, depth)]));
}

function exampleOf(schema: JsonSchemaObject, root: JsonSchemaObject, depth: number): unknown {
  const [one = schema] = alternativesOf(schema, root);
  const known = listOf(one.examples)[0] ?? one.default ?? valuesOf(one)[0];
  if (known !== undefined) return known;
  switch ([...typesOf(one, root)][0]) {
    case "integer":
    case "number":
      return typeof one.minimum === "number" ? one.minimum : 1;
    case "boolean":
      return true;
    case "null":
      return null;
    case "array":
      return depth > 2 ? [] : [exampleOf(follow(one.items, root), root, depth + 1)];
    case "object":
      return depth > 2 ? {} : exampleObject(one, root, depth + 1);
    default:
      return "…";
  }
}
