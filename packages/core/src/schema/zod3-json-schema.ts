import { finishLibrarySchema } from "./finish-library-schema.ts";
import { SchemaDefinitions } from "./schema-definitions.ts";
import type { JsonSchemaObject } from "./types.ts";
import { isZod3, type Zod3Definition, type Zod3Schema } from "./zod-types.ts";
import { zod3ArrayChecks, zod3NumberChecks, zod3StringChecks } from "./zod3-checks.ts";

type Json = Record<string, unknown>;
type Convert = (schema: unknown) => Json;

/**
 * The JSON Schema of what a Zod 3 schema takes in. What JSON Schema cannot express is left open. A callback that
 * comes first takes anything: a model is shown what follows it, but for the question which keys are taken it is
 * left open too.
 */
export function zod3JsonSchema(root: Zod3Schema, purpose: "model" | "keys" = "model"): JsonSchemaObject {
  const definitions = new SchemaDefinitions(root);
  const convert: Convert = (schema) => {
    if (!isZod3(schema) || (purpose === "keys" && isPreprocess(schema))) return {};
    return definitions.convert(schema, () =>
      withDescription(schema, convertDefinition(schema._def, convert)),
    );
  };
  return finishLibrarySchema(definitions.finish(convert(root)));
}

/** Whether a callback of the author's sees the value before the schema does. */
export function isPreprocess({ _def: { effect } }: Zod3Schema): boolean {
  return typeof effect === "object" && effect !== null && "type" in effect && effect.type === "preprocess";
}

function withDescription(schema: Zod3Schema, json: Json): Json {
  return typeof schema.description === "string" ? { ...json, description: schema.description } : json;
}

function convertDefinition(definition: Zod3Definition, convert: Convert): Json {
  switch (definition.typeName) {
    case "ZodString":
      return zod3StringChecks(definition.checks);
    case "ZodNumber":
      return zod3NumberChecks(definition.checks);
    case "ZodBigInt":
      return { type: "integer" };
    case "ZodBoolean":
      return { type: "boolean" };
    case "ZodDate":
      return { type: "string", format: "date-time" };
    case "ZodNull":
      return { type: "null" };
    case "ZodNever":
    case "ZodUndefined":
    case "ZodVoid":
      return { not: {} };
    case "ZodLiteral":
      return { const: definition.value };
    case "ZodEnum":
      return { type: "string", enum: definition.values };
    case "ZodNativeEnum":
      return { enum: nativeEnumValues(definition.values) };
    case "ZodObject":
      return convertObject(definition, convert);
    case "ZodArray":
      return { type: "array", items: convert(definition.type), ...zod3ArrayChecks(definition) };
    case "ZodTuple":
      return convertTuple(definition, convert);
    case "ZodSet":
      return { type: "array", uniqueItems: true, items: convert(definition.valueType) };
    case "ZodMap":
      return {
        type: "array",
        items: {
          type: "array",
          prefixItems: [convert(definition.keyType), convert(definition.valueType)],
          minItems: 2,
          maxItems: 2,
        },
      };
    case "ZodRecord":
      return convertRecord(definition, convert);
    case "ZodUnion":
    case "ZodDiscriminatedUnion":
      return { anyOf: optionsOf(definition.options).map(convert) };
    case "ZodIntersection":
      return { allOf: [convert(definition.left), convert(definition.right)] };
    case "ZodNullable":
      return { anyOf: [convert(definition.innerType), { type: "null" }] };
    case "ZodDefault":
      return { ...convert(definition.innerType), ...defaultOf(definition) };
    case "ZodOptional":
    case "ZodCatch":
    case "ZodReadonly":
      return convert(definition.innerType);
    case "ZodEffects":
      return convert(definition.schema);
    case "ZodBranded":
    case "ZodPromise":
      return convert(definition.type);
    case "ZodPipeline":
      return convert(definition.in);
    case "ZodLazy":
      return typeof definition.getter === "function" ? convert(definition.getter()) : {};
    default:
      return {};
  }
}

function convertObject(definition: Zod3Definition, convert: Convert): Json {
  const shape: unknown = typeof definition.shape === "function" ? definition.shape() : {};
  const properties: Json = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(shape as Json)) {
    properties[name] = convert(field);
    if (!takesUndefined(field, 0)) required.push(name);
  }
  const json: Json = { type: "object", properties };
  if (required.length > 0) json.required = required;
  const catchall = definition.catchall;
  if (definition.unknownKeys === "strict") json.additionalProperties = false;
  else if (isZod3(catchall) && catchall._def.typeName !== "ZodNever")
    json.additionalProperties = convert(catchall);
  else if (definition.unknownKeys === "passthrough") json.additionalProperties = true;
  return json;
}

/** Whether a key may be left out. Asked of the definition, since parsing would run the author's callbacks. */
function takesUndefined(schema: unknown, depth: number): boolean {
  if (!isZod3(schema) || depth > 20) return false;
  const definition = schema._def;
  switch (definition.typeName) {
    case "ZodOptional":
    case "ZodDefault":
    case "ZodCatch":
    case "ZodAny":
    case "ZodUnknown":
    case "ZodUndefined":
    case "ZodVoid":
      return true;
    case "ZodNullable":
    case "ZodReadonly":
      return takesUndefined(definition.innerType, depth + 1);
    case "ZodEffects":
      return takesUndefined(definition.schema, depth + 1);
    case "ZodBranded":
      return takesUndefined(definition.type, depth + 1);
    case "ZodPipeline":
      return takesUndefined(definition.in, depth + 1);
    case "ZodLazy":
      return typeof definition.getter === "function" && takesUndefined(definition.getter(), depth + 1);
    case "ZodUnion":
      return optionsOf(definition.options).some((option) => takesUndefined(option, depth + 1));
    case "ZodIntersection":
      return takesUndefined(definition.left, depth + 1) && takesUndefined(definition.right, depth + 1);
    case "ZodLiteral":
      return definition.value === undefined;
    default:
      return false;
  }
}

function convertTuple(definition: Zod3Definition, convert: Convert): Json {
  const items = optionsOf(definition.items);
  const rest = isZod3(definition.rest) ? convert(definition.rest) : false;
  return { type: "array", prefixItems: items.map(convert), items: rest, minItems: items.length };
}

function convertRecord(definition: Zod3Definition, convert: Convert): Json {
  const json: Json = { type: "object", additionalProperties: convert(definition.valueType) };
  const names = convert(definition.keyType);
  const isAnyString = names.type === "string" && Object.keys(names).length === 1;
  return isAnyString || Object.keys(names).length === 0 ? json : { ...json, propertyNames: names };
}

/** A numeric TypeScript enum also maps its numbers back to names; those entries are no values. */
function nativeEnumValues(values: unknown): unknown[] {
  const entries = Object.entries(values as Json); // Zod takes only objects of strings and numbers here.
  const numbers = new Set(entries.map(([, value]) => value).filter((value) => typeof value === "number"));
  return entries.filter(([name]) => !numbers.has(Number(name))).map(([, value]) => value);
}

function defaultOf(definition: Zod3Definition): Json {
  if (typeof definition.defaultValue !== "function") return {};
  try {
    return { default: definition.defaultValue() };
  } catch {
    // The author's default needs something that is not there yet; the schema is right without it.
    return {};
  }
}

/** Unions hold a list, discriminated unions a list or, in older versions, a map. */
function optionsOf(options: unknown): unknown[] {
  if (Array.isArray(options)) return options;
  return options instanceof Map ? [...options.values()] : [];
}
