import type { LibrarySchema } from "./compile-schema.ts";
import { escapePattern, writePattern, writeStringFormat } from "./json-schema-validator.ts";
import { convertRefused, finishLibrarySchema, SchemaDefinitions } from "./library-json-schema.ts";
import type { SchemaOutcome } from "./types.ts";
import type { JsonSchemaObject } from "./visit.ts";
import { isZod3, type Zod3Definition, type Zod3Schema, type ZodResult, zodIssues } from "./zod.ts";
import { isAsyncError } from "./zod4.ts";

/** A Zod 3 schema. */
export function zod3Schema(schema: Zod3Schema): LibrarySchema {
  let isAsync: boolean | undefined;
  return {
    kind: "zod3",
    parse: (value) => parse(value, value),
    knownKeys: () => knownKeysOf(schema, 0),
    keySchema: () => zod3JsonSchema(schema, "keys"),
    jsonSchema: () => zod3JsonSchema(schema),
  };

  /** `came` is what the caller sent, in the words of which issues speak; `value` may have been converted. */
  function parse(value: unknown, came: unknown): SchemaOutcome | Promise<SchemaOutcome> {
    isAsync ??= hasEffects(schema);
    if (isAsync) return parseAsync(value, came);
    try {
      return toOutcome(schema.safeParse(value), value, came);
    } catch (error) {
      if (!isAsyncError(error)) throw error;
      isAsync = true;
      return parseAsync(value, came);
    }
  }

  async function parseAsync(value: unknown, came: unknown): Promise<SchemaOutcome> {
    return toOutcome(await schema.safeParseAsync(value), value, came);
  }

  function toOutcome(
    result: ZodResult,
    value: unknown,
    came: unknown,
  ): SchemaOutcome | Promise<SchemaOutcome> {
    if (result.success) return { ok: true, value: result.data };
    const issues = result.error?.issues ?? [];
    const converted = convertRefused(issues, value);
    if (converted !== undefined) return parse(converted, came);
    return { ok: false, issues: zodIssues(issues, came, objectKeys(schema)) };
  }
}

function knownKeysOf(schema: unknown, depth: number): readonly string[] | undefined {
  if (!isZod3(schema) || depth > 20) return undefined;
  const definition = schema._def;
  switch (definition.typeName) {
    case "ZodObject": {
      const catchall = definition.catchall;
      const isClosed = !isZod3(catchall) || catchall._def.typeName === "ZodNever";
      return definition.unknownKeys === "strip" && isClosed ? objectKeys(schema) : undefined;
    }
    case "ZodOptional":
    case "ZodNullable":
    case "ZodDefault":
    case "ZodCatch":
    case "ZodReadonly":
      return knownKeysOf(definition.innerType, depth + 1);
    case "ZodEffects":
      return isPreprocess(schema) ? undefined : knownKeysOf(definition.schema, depth + 1);
    case "ZodPipeline":
      return knownKeysOf(definition.in, depth + 1);
    case "ZodBranded":
      return knownKeysOf(definition.type, depth + 1);
    case "ZodLazy":
      return typeof definition.getter === "function"
        ? knownKeysOf(definition.getter(), depth + 1)
        : undefined;
    case "ZodIntersection": {
      const left = knownKeysOf(definition.left, depth + 1);
      const right = knownKeysOf(definition.right, depth + 1);
      return left && right && [...left, ...right];
    }
    default:
      return undefined;
  }
}

function objectKeys(schema: Zod3Schema): readonly string[] | undefined {
  const shape = typeof schema._def.shape === "function" ? schema._def.shape() : undefined;
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : undefined;
}

/**
 * Whether an author's callback is inside. Zod 3 wraps callbacks, so an asynchronous one shows only when it runs;
 * in the synchronous mode its promise would go unwatched, and a rejection would end the process. Such schemas
 * are always parsed asynchronously.
 */
function hasEffects(root: Zod3Schema): boolean {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const part = waiting.pop();
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    if (!isZod3(part)) {
      if (Array.isArray(part) || Object.getPrototypeOf(part) === Object.prototype)
        waiting.push(...Object.values(part));
      continue;
    }
    const { typeName, shape, getter, ...rest } = part._def;
    if (typeName === "ZodEffects" || typeName === "ZodPromise") return true;
    if (typeName === "ZodObject" && typeof shape === "function") waiting.push(shape());
    if (typeName === "ZodLazy" && typeof getter === "function") waiting.push(getter());
    waiting.push(...Object.values(rest));
  }
  return false;
}

type Json = Record<string, unknown>;
interface Check {
  readonly kind: string;
  readonly value?: unknown;
  readonly inclusive?: boolean;
  readonly regex?: RegExp;
  readonly version?: string;
}

/** A Zod 3 string and its checks as JSON Schema. */
function zod3StringChecks(checks: unknown): Json {
  const json: Json = { type: "string" };
  for (const check of checksOf(checks)) {
    if (check.kind === "min" || check.kind === "length") json.minLength = check.value;
    if (check.kind === "max" || check.kind === "length") json.maxLength = check.value;
    else if (check.kind === "regex" && check.regex) writePattern(json, check.regex.source);
    else if (check.kind === "startsWith") writePattern(json, `^${escapePattern(String(check.value))}`);
    else if (check.kind === "endsWith") writePattern(json, `${escapePattern(String(check.value))}$`);
    else if (check.kind === "includes") writePattern(json, escapePattern(String(check.value)));
    else if (check.kind === "ip" && check.version) writeStringFormat(json, `ip${check.version}`, undefined);
    else writeStringFormat(json, check.kind, undefined);
  }
  return json;
}

/** A Zod 3 number and its checks as JSON Schema. */
function zod3NumberChecks(checks: unknown): Json {
  const json: Json = { type: "number" };
  for (const check of checksOf(checks)) {
    if (check.kind === "int") json.type = "integer";
    else if (check.kind === "min") json[check.inclusive ? "minimum" : "exclusiveMinimum"] = check.value;
    else if (check.kind === "max") json[check.inclusive ? "maximum" : "exclusiveMaximum"] = check.value;
    else if (check.kind === "multipleOf") json.multipleOf = check.value;
  }
  return json;
}

/** The limits on the length of a Zod 3 array. */
function zod3ArrayChecks(definition: Zod3Definition): Json {
  const minimum = limitOf(definition.exactLength) ?? limitOf(definition.minLength);
  const maximum = limitOf(definition.exactLength) ?? limitOf(definition.maxLength);
  return {
    ...(minimum === undefined ? {} : { minItems: minimum }),
    ...(maximum === undefined ? {} : { maxItems: maximum }),
  };
}

function limitOf(limit: unknown): unknown {
  return typeof limit === "object" && limit !== null && "value" in limit ? limit.value : undefined;
}

function checksOf(checks: unknown): readonly Check[] {
  return Array.isArray(checks) ? checks : [];
}

type Convert = (schema: unknown) => Json;

/**
 * The JSON Schema of what a Zod 3 schema takes in. What JSON Schema cannot express is left open. A callback that
 * comes first takes anything: a model is shown what follows it, but for the question which keys are taken it is
 * left open too.
 */
function zod3JsonSchema(root: Zod3Schema, purpose: "model" | "keys" = "model"): JsonSchemaObject {
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
function isPreprocess({ _def: { effect } }: Zod3Schema): boolean {
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
