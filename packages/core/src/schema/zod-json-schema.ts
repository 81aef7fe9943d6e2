import { finishLibrarySchema } from "./library-validator.ts";
import { SchemaError } from "./types.ts";
import { isRecord, type JsonSchemaObject, listOf, reasonOf } from "./visit.ts";
import {
  called,
  checksOf,
  definitionOf,
  isPreprocess,
  isZod4,
  otherKeys,
  type Zod4Schema,
  type ZodDefinition,
  type ZodSchema,
} from "./zod-definition.ts";

type Json = Record<string, unknown>;
type Convert = (schema: unknown) => Json;

/**
 * The JSON Schema of a Zod schema's input, made by Zod itself if it can. `convertZod` handles Zod 3, zod/mini and Zod
 * before 4.2.
 */
export function zodJsonSchema(schema: ZodSchema): JsonSchemaObject {
  try {
    return finishLibrarySchema(madeByZod(schema) ?? convertZod(schema));
  } catch (error) {
    if (SchemaError.is(error)) throw error;
    const reason = reasonOf(error);
    const advice = "Describe the part it names in another way.";
    throw new SchemaError(`The Zod schema has no JSON Schema: ${reason}. ${advice}`, { cause: error });
  }
}

/** A JSON Schema of the keys that parsing accepts. */
export function zodKeySchema(schema: ZodSchema): JsonSchemaObject {
  return finishLibrarySchema(convertZod(schema, "keys"));
}

function madeByZod(schema: ZodSchema): Json | undefined {
  if (!isZod4(schema)) return undefined;
  try {
    const converter = schema["~standard"].jsonSchema;
    if (converter !== undefined) return converter.input({ target: "draft-2020-12", libraryOptions });
    return schema.toJSONSchema?.({ io: "input", target: "draft-2020-12", ...libraryOptions });
  } catch {
    // For instance a classic object with a field of zod/mini, which Zod itself cannot convert.
    return undefined;
  }
}

const libraryOptions = {
  unrepresentable: "any",
  /**
   * Describes dates, big integers, sets and maps in the JSON forms that `convertRefused` accepts, because a
   * model has to be told them.
   */
  override({ zodSchema, jsonSchema }: { zodSchema: Zod4Schema; jsonSchema: Json }): void {
    const type = zodSchema._zod.def.type;
    if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
    if (type === "bigint") jsonSchema.type = "integer";
    if (type === "set" || type === "map") jsonSchema.type = "array";
  },
};

const deepest = 100;

/**
 * Converts a definition to a JSON Schema of its input. Parts that JSON Schema cannot express accept anything.
 * A preprocessing callback accepts any input: for `model`, the schema after the callback is used; for `keys`,
 * such a part accepts anything. A recursive schema becomes a reference into `$defs`; all others are inlined.
 */
export function convertZod(root: ZodSchema, purpose: "model" | "keys" = "model"): Json {
  const active = new Map<unknown, string | undefined>();
  const definitions: Json = {};
  let count = 0;
  const convert: Convert = (schema) => {
    const definition = definitionOf(schema);
    if (definition === undefined || (purpose === "keys" && isPreprocess(definition))) return {};
    if (active.has(schema)) {
      if (schema === root) return { $ref: "#" };
      const name = active.get(schema) ?? `schema${++count}`;
      active.set(schema, name);
      return { $ref: `#/$defs/${name}` };
    }
    if (active.size >= deepest) return {};
    active.set(schema, undefined);
    const json = { ...convertDefinition(definition, convert), ...annotationsOf(schema) };
    const name = active.get(schema);
    active.delete(schema);
    if (name === undefined) return json;
    definitions[name] = json;
    return { $ref: `#/$defs/${name}` };
  };
  const json = convert(root);
  return count === 0 ? json : { ...json, $defs: definitions };
}

function convertDefinition(definition: ZodDefinition, convert: Convert): Json {
  const { type, innerType, keyType, valueType } = definition;
  switch (type) {
    case "string":
    case "number":
    case "boolean":
    case "null":
      return { type, ...limitsOf(definition) };
    case "int":
    case "bigint":
      return { type: "integer", ...limitsOf(definition) };
    case "date":
      return { type: "string", format: "date-time" };
    case "undefined":
    case "void":
    case "never":
      return { not: {} };
    case "literal": {
      const values = listOf(definition.values);
      return { ...commonType(values), ...(values.length === 1 ? { const: values[0] } : { enum: values }) };
    }
    case "enum": {
      const values = enumValues(definition.entries);
      return { ...commonType(values), enum: values };
    }
    case "template_literal":
      return { type: "string" };
    case "file":
      return { type: "string", format: "binary" };
    case "object":
      return convertObject(definition, convert);
    case "array":
      return { type: "array", items: convert(definition.element), ...limitsOf(definition) };
    case "set":
      return { type: "array", uniqueItems: true, items: convert(valueType), ...limitsOf(definition) };
    case "map": {
      const pair = { type: "array", prefixItems: [convert(keyType), convert(valueType)] };
      return { type: "array", items: { ...pair, minItems: 2, maxItems: 2 } };
    }
    case "tuple":
      return convertTuple(definition, convert);
    case "record": {
      const names = convert(keyType);
      const isAnyString = Object.keys(names).every((keyword) => names[keyword] === "string");
      const json = { type: "object", additionalProperties: convert(valueType) };
      return isAnyString ? json : { ...json, propertyNames: names };
    }
    case "union":
      return { anyOf: listOf(definition.options).map(convert) };
    case "intersection":
      return { allOf: [convert(definition.left), convert(definition.right)] };
    case "nullable":
      return { anyOf: [convert(innerType), { type: "null" }] };
    case "default":
    case "prefault":
      return { ...convert(innerType), ...defined({ default: definition.defaultValue }) };
    case "pipe":
      return convert(isPreprocess(definition) ? definition.out : definition.in);
    case "lazy":
      return convert(called(definition.getter));
    default:
      // Wrappers accept what their inner schema accepts.
      return convert(innerType);
  }
}

function convertObject(definition: ZodDefinition, convert: Convert): Json {
  const properties: Json = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(isRecord(definition.shape) ? definition.shape : {})) {
    properties[name] = convert(field);
    if (!mayBeLeftOut(field, 0)) required.push(name);
  }
  const json = { type: "object", properties, ...(required.length > 0 && { required }) };
  const others = otherKeys(definition);
  if (others === "drop") return json;
  if (typeof others === "string") return { ...json, additionalProperties: others === "keep" };
  return { ...json, additionalProperties: convert(others) };
}

function convertTuple({ items, rest }: ZodDefinition, convert: Convert): Json {
  const places = listOf(items);
  return {
    type: "array",
    prefixItems: places.map(convert),
    items: definitionOf(rest) === undefined ? false : convert(rest),
    minItems: places.findLastIndex((place) => !mayBeLeftOut(place, 0)) + 1,
  };
}

/**
 * Whether a key with this schema may be left out. Read from the definition, since parsing would run the
 * author's callbacks. Zod 4 has a flag for it; if a preprocessing callback comes first, the schema after the
 * callback decides.
 */
function mayBeLeftOut(schema: unknown, depth: number): boolean {
  const definition = definitionOf(schema);
  if (definition === undefined || depth > deepest) return false;
  const ask = (part: unknown) => mayBeLeftOut(part, depth + 1);
  if (isZod4(schema)) return isPreprocess(definition) ? ask(definition.out) : schema._zod.optin !== undefined;
  const { type, values, options, left, right } = definition;
  if (omissible.includes(type)) return true;
  if (type === "literal") return listOf(values).includes(undefined);
  if (type === "union") return listOf(options).some(ask);
  if (type === "intersection") return ask(left) && ask(right);
  if (type === "lazy") return ask(called(definition.getter));
  return type !== "promise" && ask(type === "pipe" ? definition.in : definition.innerType);
}

const omissible = ["optional", "default", "catch", "any", "unknown", "undefined", "void"];

function commonType(values: readonly unknown[]): Json {
  const [type, ...others] = new Set(values.map((value) => typeof value));
  return others.length === 0 && (type === "string" || type === "number") ? { type } : {};
}

/** The values of an enum, without the reverse mapping of numeric TypeScript enums. */
function enumValues(entries: unknown): unknown[] {
  const pairs = Object.entries(entries ?? {});
  const numbers = new Set(pairs.map(([, value]) => value).filter((value) => typeof value === "number"));
  return pairs.filter(([name]) => !numbers.has(Number(name))).map(([, value]) => value);
}

/** The author's annotations of a schema. All copies of Zod 4 keep them in one global registry. */
function annotationsOf(schema: unknown): Json {
  if (!isZod4(schema)) return isRecord(schema) ? defined({ description: schema.description }) : {};
  const registry = (globalThis as { __zod_globalRegistry?: { get(schema: unknown): Json | undefined } }) // No type declares it.
    .__zod_globalRegistry;
  const { title, description, examples, deprecated } = registry?.get(schema) ?? {};
  return defined({ title, description, examples, deprecated });
}

function defined(json: Json): Json {
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== undefined));
}

/** The checks of a string, number, array or set as JSON Schema keywords. */
function limitsOf(definition: ZodDefinition): Json {
  const json: Json = {};
  const isArray = definition.type === "array" || definition.type === "set";
  // The definition of a format such as z.email() is itself a check; all other checks are in a list.
  for (const check of [definition, ...checksOf(definition)]) writeLimit(json, check, isArray);
  return json;
}

function writeLimit(json: Json, check: Json, isArray: boolean): void {
  const [least, most] = isArray ? ["minItems", "maxItems"] : ["minLength", "maxLength"];
  switch (check.check) {
    case "min_length":
    case "min_size":
      json[least!] = check.minimum;
      break;
    case "max_length":
    case "max_size":
      json[most!] = check.maximum;
      break;
    case "length_equals":
      Object.assign(json, { [least!]: check.length, [most!]: check.length });
      break;
    case "greater_than":
      json[check.inclusive ? "minimum" : "exclusiveMinimum"] = check.value;
      break;
    case "less_than":
      json[check.inclusive ? "maximum" : "exclusiveMaximum"] = check.value;
      break;
    case "multiple_of":
      json.multipleOf = check.value;
      break;
    case "number_format":
      if (String(check.format).includes("int")) json.type = "integer";
      break;
    case "string_format":
      writeFormat(json, String(check.format), check.pattern);
  }
}

/** Zod's formats that have another name in JSON Schema. */
const renamedFormats: Readonly<Record<string, string>> = { url: "uri", guid: "uuid", datetime: "date-time" };
const sameFormats = ["email", "uuid", "date", "time", "duration", "ip", "ipv4", "ipv6", "hostname"];

/** Writes a string format of Zod as a format, or else as a pattern. */
function writeFormat(json: Json, format: string, pattern: unknown): void {
  if (format === "base64" || format === "base64url") json.contentEncoding = format;
  else if (sameFormats.includes(format)) json.format = format;
  else if (Object.hasOwn(renamedFormats, format)) json.format = renamedFormats[format];
  else if (!(pattern instanceof RegExp)) return;
  else if (json.pattern === undefined) json.pattern = pattern.source;
  // JSON Schema has one `pattern`; further ones go into `allOf`.
  else json.allOf = [...listOf(json.allOf), { pattern: pattern.source }];
}
