import { type Edit, editCopy } from "./copy.ts";
import { SchemaError } from "./types.ts";
import { type JsonSchemaObject, memberAt } from "./visit.ts";
import {
  alternativesOf,
  isZod4,
  likeliestBranch,
  type Zod4Definition,
  type Zod4Schema,
  type ZodIssue,
} from "./zod.ts";
import { zod4Checks } from "./zod4.ts";

type Json = Record<string, unknown>;
type Convert = (schema: unknown) => Json;

/**
 * Reads a Zod 4 schema's definition into a JSON Schema of its input side. A callback that comes first takes
 * anything: a model is shown what follows it, but for the question which keys are taken it is left open.
 */
export function convertZod4(root: Zod4Schema, purpose: "model" | "keys" = "model"): Json {
  const definitions = new SchemaDefinitions(root);
  const convert: Convert = (schema) => {
    if (!isZod4(schema) || (purpose === "keys" && isPreprocess(schema))) return {};
    return definitions.convert(schema, () => ({
      ...convertDefinition(schema._zod.def, convert),
      ...annotationsOf(schema),
    }));
  };
  return definitions.finish(convert(root));
}

function convertDefinition(definition: Zod4Definition, convert: Convert): Json {
  switch (definition.type) {
    case "string":
    case "number":
    case "boolean":
    case "null":
      return { type: definition.type, ...zod4Checks(definition) };
    case "int":
    case "bigint":
      return { type: "integer", ...zod4Checks(definition) };
    case "date":
      return { type: "string", format: "date-time" };
    case "undefined":
    case "void":
    case "never":
      return { not: {} };
    case "literal":
      return enumOf(listOf(definition.values));
    case "enum":
      return enumOf(enumValues(definition.entries));
    case "template_literal":
      return { type: "string" };
    case "file":
      return { type: "string", format: "binary" };
    case "object":
      return convertObject(definition, convert);
    case "array":
      return { type: "array", items: convert(definition.element), ...zod4Checks(definition) };
    case "set":
      return {
        type: "array",
        uniqueItems: true,
        items: convert(definition.valueType),
        ...zod4Checks(definition),
      };
    case "map":
      return {
        type: "array",
        items: {
          type: "array",
          prefixItems: [convert(definition.keyType), convert(definition.valueType)],
          minItems: 2,
          maxItems: 2,
        },
      };
    case "tuple":
      return convertTuple(definition, convert);
    case "record":
      return convertRecord(definition, convert);
    case "union":
      return { anyOf: listOf(definition.options).map(convert) };
    case "intersection":
      return { allOf: [convert(definition.left), convert(definition.right)] };
    case "nullable":
      return { anyOf: [convert(definition.innerType), { type: "null" }] };
    case "default":
    case "prefault":
      return { ...convert(definition.innerType), default: definition.defaultValue };
    case "optional":
    case "nonoptional":
    case "readonly":
    case "catch":
    case "promise":
      return convert(definition.innerType);
    case "pipe":
      return convert(isTransform(definition.in) ? definition.out : definition.in);
    case "lazy":
      return typeof definition.getter === "function" ? convert(definition.getter()) : {};
    default:
      return {};
  }
}

function convertObject(definition: Zod4Definition, convert: Convert): Json {
  const properties: Json = {};
  const required: string[] = [];
  for (const [name, field] of Object.entries(definition.shape as Json)) {
    properties[name] = convert(field);
    if (!mayBeLeftOut(field)) required.push(name);
  }
  const json: Json = { type: "object", properties };
  if (required.length > 0) json.required = required;
  if (!isZod4(definition.catchall)) return json;
  const isClosed = definition.catchall._zod.def.type === "never";
  return { ...json, additionalProperties: isClosed ? false : convert(definition.catchall) };
}

/** Zod marks what may be absent; before a preprocessing callback, which sees everything, what follows it decides. */
function mayBeLeftOut(field: unknown): boolean {
  if (!isZod4(field)) return true;
  const { type, in: input, out } = field._zod.def;
  if (type === "pipe" && isTransform(input)) return mayBeLeftOut(out);
  return "optin" in field._zod && field._zod.optin !== undefined;
}

function convertTuple(definition: Zod4Definition, convert: Convert): Json {
  const items = listOf(definition.items);
  const rest = isZod4(definition.rest) ? convert(definition.rest) : false;
  const needed = items.findLastIndex((item) => !mayBeLeftOut(item)) + 1;
  return { type: "array", prefixItems: items.map(convert), items: rest, minItems: needed };
}

function convertRecord(definition: Zod4Definition, convert: Convert): Json {
  const json: Json = { type: "object", additionalProperties: convert(definition.valueType) };
  const names = convert(definition.keyType);
  const isAnyString = names.type === "string" && Object.keys(names).length === 1;
  return isAnyString || Object.keys(names).length === 0 ? json : { ...json, propertyNames: names };
}

function isPreprocess({ _zod: { def } }: Zod4Schema): boolean {
  return def.type === "pipe" && isTransform(def.in);
}

function isTransform(schema: unknown): boolean {
  return isZod4(schema) && schema._zod.def.type === "transform";
}

function enumOf(values: readonly unknown[]): Json {
  const types = new Set(values.map((value) => typeof value));
  const json: Json = values.length === 1 ? { const: values[0] } : { enum: values };
  const [type] = types;
  return types.size === 1 && (type === "string" || type === "number") ? { type, ...json } : json;
}

/** A numeric TypeScript enum also maps its numbers back to names; those entries are no values. */
function enumValues(entries: unknown): unknown[] {
  const pairs = Object.entries(entries as Json); // Zod takes only objects of strings and numbers here.
  const numbers = new Set(pairs.map(([, value]) => value).filter((value) => typeof value === "number"));
  return pairs.filter(([name]) => !numbers.has(Number(name))).map(([, value]) => value);
}

/** What the author said about a schema is kept by Zod in one registry for all its copies. */
function annotationsOf(schema: Zod4Schema): Json {
  const registry = (globalThis as { __zod_globalRegistry?: { get(schema: unknown): Json | undefined } }) // Not in any type.
    .__zod_globalRegistry;
  const { title, description, examples, deprecated } = registry?.get(schema) ?? {};
  return Object.fromEntries(
    Object.entries({ title, description, examples, deprecated }).filter(([, value]) => value !== undefined),
  );
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/**
 * A copy of a value that Zod refused, in which the dates, big integers, sets and maps that it missed are made from
 * their JSON forms; `undefined` when there is nothing to make. Zod's own issues say where, which is exact through
 * every wrapper, recursion and alternative. A made value is never made again, so repeating this comes to an end.
 */
export function convertRefused(issues: readonly ZodIssue[], value: unknown): unknown {
  const found = issues.flatMap((issue) => conversionsIn(issue, [], value));
  return found.length === 0 ? undefined : editCopy(value, found);
}

function conversionsIn(issue: ZodIssue, base: readonly unknown[], value: unknown): readonly Edit[] {
  const path = [...base, ...(issue.path ?? [])];
  const alternatives = alternativesOf(issue);
  if (alternatives === undefined) {
    const make = issue.code === "invalid_type" ? makers.get(issue.expected) : undefined;
    const made = make?.(memberAt(value, path));
    return made === undefined ? [] : [{ path, value: made }];
  }
  // Zod 4 counts paths from the union, Zod 3 from the root.
  const fromRoot = issue.errors === undefined;
  const ways = alternatives.map((branch) =>
    branch.map((inner) => conversionsIn(inner, fromRoot ? base : path, value)),
  );
  const fitting = ways.find((way) => way.every((conversions) => conversions.length > 0));
  const meant = likeliestBranch(alternatives, fromRoot ? path.length - base.length : 0);
  return (fitting ?? (meant && ways[alternatives.indexOf(meant)]) ?? []).flat();
}

/** By the name that Zod gives to what it expected. Each answers `undefined` for what is no such thing. */
const makers = new Map<unknown, (json: unknown) => unknown>([
  ["date", toDate],
  ["bigint", toBigInt],
  ["set", (json) => (Array.isArray(json) ? new Set(json) : undefined)],
  ["map", (json) => (isListOfPairs(json) ? new Map(json) : undefined)],
]);

/** A day, or a time with its zone: without one, it would mean another moment on every machine. */
const isoDate = /^\d{4}-(\d\d)-(\d\d)(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d))?$/;

function toDate(json: unknown): Date | undefined {
  const parts = typeof json === "string" ? isoDate.exec(json) : null;
  if (parts === null) return undefined;
  const date = new Date(parts[0].replace(" ", "T").toUpperCase());
  if (Number.isNaN(date.getTime())) return undefined;
  // The 30th of February would silently become a day of March.
  const day = new Date(parts[0].slice(0, 10));
  return day.getUTCDate() === Number(parts[2]) ? date : undefined;
}

/** A number that JSON has already rounded is refused rather than taken for another one. */
function toBigInt(json: unknown): bigint | undefined {
  if (typeof json === "number") return Number.isSafeInteger(json) ? BigInt(json) : undefined;
  return typeof json === "string" && /^-?\d{1,1000}$/.test(json) ? BigInt(json) : undefined;
}

function isListOfPairs(json: unknown): json is [unknown, unknown][] {
  return Array.isArray(json) && json.every((pair) => Array.isArray(pair) && pair.length === 2);
}

/** A JSON Schema that a library or a converter made, as plain JSON without the dialect it is in anyway. */
export function finishLibrarySchema(made: Record<string, unknown>): JsonSchemaObject {
  const { $schema: _, ...schema }: Record<string, unknown> = toJson(made);
  if (schema.type !== undefined || schema.properties === undefined) return schema;
  return { type: "object", ...schema };
}

function toJson(made: Record<string, unknown>): Record<string, unknown> {
  try {
    return JSON.parse(JSON.stringify(made, bigIntAsNumber));
  } catch (error) {
    throw new SchemaError(
      "The schema's JSON Schema holds a value that JSON cannot express, such as a circular default. Remove that value.",
      { cause: error },
    );
  }
}

function bigIntAsNumber(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? Number(value) : value;
}

/** Deeper than any schema a person writes; a lazy schema that makes a new one each time never ends. */
const maximumDepth = 100;

/**
 * Gives recursive schemas a place in `$defs`. A schema that is met again while it is still being converted
 * becomes a reference; all others are written out where they stand.
 */
export class SchemaDefinitions {
  readonly #active = new Map<object, string | undefined>();
  readonly #root: object;
  readonly #definitions: Json = {};
  #count = 0;

  constructor(root: object) {
    this.#root = root;
  }

  /** Converts one schema by `convert`, or refers to the conversion that is under way. */
  convert(schema: object, convert: () => Json): Json {
    if (this.#active.has(schema)) return { $ref: this.#reference(schema) };
    if (this.#active.size >= maximumDepth) return {};
    this.#active.set(schema, undefined);
    const json = convert();
    const name = this.#active.get(schema);
    this.#active.delete(schema);
    if (name === undefined) return json;
    this.#definitions[name] = json;
    return { $ref: `#/$defs/${name}` };
  }

  /** The root's JSON with the definitions it needs. */
  finish(root: Json): Json {
    return this.#count === 0 ? root : { ...root, $defs: this.#definitions };
  }

  #reference(schema: object): string {
    if (schema === this.#root) return "#";
    let name = this.#active.get(schema);
    if (name === undefined) {
      name = `schema${++this.#count}`;
      this.#active.set(schema, name);
    }
    return `#/$defs/${name}`;
  }
}
