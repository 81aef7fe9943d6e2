import { compileSchema, type JsonSchemaObject, type ToolInfo } from "@toolrack/core";
import { isRecord } from "../../helpers/values.ts";

/** A property of a schema, as the command line sees it. */
export interface Property {
  readonly name: string;
  readonly schema: JsonSchemaObject;
  readonly required: boolean;
}

/** The JSON Schema of a tool's parameters; empty when its library cannot write one. */
export function parametersOf(info: ToolInfo): JsonSchemaObject {
  try {
    return compileSchema(info.parameters).jsonSchema();
  } catch {
    return {};
  }
}

/** What a subschema stands for: local references followed. */
export function follow(schema: unknown, root: JsonSchemaObject): JsonSchemaObject {
  let at = isRecord(schema) ? schema : {};
  // A reference may lead to a reference; one that leads back to itself says nothing.
  for (let hops = 0; hops < 16 && typeof at.$ref === "string"; hops++) {
    const { $ref, ...beside } = at;
    const target = pointer(root, $ref as string);
    at = isRecord(target) ? { ...target, ...beside } : beside;
  }
  return at;
}

/** The properties of an object schema, those of its `allOf` parts too. */
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

/** The schemas of which a value may fit any: the schema itself, or each of its alternatives with what holds for all. */
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

/** The types that a value may have; empty when nothing is said about it. */
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

function pointer(root: JsonSchemaObject, reference: string): unknown {
  if (!reference.startsWith("#")) return undefined;
  const keys = decodeURIComponent(reference.slice(1)).split("/").slice(1);
  let at: unknown = root;
  for (const key of keys) {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}

function listOf(value: unknown): unknown[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

function objectOr(value: unknown): JsonSchemaObject {
  return isRecord(value) ? value : {};
}
