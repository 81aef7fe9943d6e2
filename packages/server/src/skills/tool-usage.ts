import { compileSchema, type JsonSchemaObject, SchemaError } from "@toolrack/core";
import { asRecord, isRecord, reasonOf } from "../helpers/index.ts";

/** The part of an HTTP request that holds a parameter. */
export type ParameterPlace = "path" | "query" | "header" | "body";

interface PlacedParameter {
  readonly in?: ParameterPlace;
  /** The service's name for the parameter, when it differs. */
  readonly as?: string;
}

export interface ToolUsage {
  /** The schema that models see and arguments are checked with. Undefined when none was given. */
  readonly parameters: JsonSchemaObject | undefined;
  readonly places: ReadonlyMap<string, PlacedParameter>;
  readonly settings: UsageSettings;
}

const forms =
  'Write a JSON Schema ({"type": "object", "properties": {…}}), {"parameters": …}, {"properties": …} or a list ([{"name", "type", "required", "description"}]).';

/**
 * Parses the `usage` of a tool: a JSON Schema, `{parameters}`, `{properties}`, all three with settings, the short list,
 * or the short list as lines of Markdown. When `text` is empty, such lines may be in the description. Throws
 * `UsageError`.
 */
export function readUsage(text: string, description = ""): ToolUsage {
  if (text.trim() === "") return toUsage(fromParameterLines(description), {});
  const value = parse(text);
  if (Array.isArray(value)) return toUsage(fromShortList(value), {});
  if (!isRecord(value))
    throw new UsageError(`usage is ${typeof value}, which says nothing about parameters. ${forms}`);
  const { schema, settings } = splitUsage(value);
  return toUsage(schema, settings);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    const lines = fromParameterLines(text);
    if (lines !== undefined) return lines;
    throw new UsageError(`usage is not JSON: ${reasonOf(thrown)}. ${forms}`);
  }
}

function splitUsage(value: JsonSchemaObject): {
  schema: JsonSchemaObject | undefined;
  settings: JsonSchemaObject;
} {
  // The form of OpenAI's tool definitions.
  if (value.type === "function" && isRecord(value.function)) return splitUsage(value.function);
  if (looksLikeSchema(value)) {
    const isSetting = ([name]: readonly [string, unknown]) => isUsageSetting(name);
    const members = Object.entries(value);
    return {
      schema: Object.fromEntries(members.filter((member) => !isSetting(member))),
      settings: Object.fromEntries(members.filter(isSetting)),
    };
  }
  const { parameters, name: _name, description: _description, ...settings } = value;
  if (parameters === undefined && !Object.keys(settings).some(isUsageSetting)) {
    if (Object.keys(value).length === 0) return { schema: { type: "object", properties: {} }, settings: {} };
    throw new UsageError(`usage has neither "parameters" nor "properties". ${forms}`);
  }
  if (parameters === undefined) return { schema: undefined, settings };
  if (Array.isArray(parameters)) return { schema: fromShortList(parameters), settings };
  if (!isRecord(parameters)) throw new UsageError(`usage.parameters is not an object. ${forms}`);
  if (Object.keys(parameters).length > 0 && !looksLikeSchema(parameters)) {
    throw new UsageError(`usage.parameters is no JSON Schema: it has no "properties". ${forms}`);
  }
  return { schema: parameters, settings };
}

function looksLikeSchema(value: JsonSchemaObject): boolean {
  return (
    isRecord(value.properties) ||
    value.type === "object" ||
    ["$ref", "anyOf", "oneOf", "allOf"].some((keyword) => keyword in value)
  );
}

function toUsage(schema: JsonSchemaObject | undefined, rawSettings: JsonSchemaObject): ToolUsage {
  const settings = readUsageSettings(rawSettings);
  if (schema === undefined) return { parameters: undefined, places: new Map(), settings };
  const { parameters, places } = separatePlaces(schema);
  const shaped = withSettings(parameters, settings);
  try {
    compileSchema(shaped);
  } catch (thrown) {
    if (!SchemaError.is(thrown)) throw thrown;
    throw new UsageError(`usage is no valid JSON Schema. ${thrown.message}`);
  }
  return { parameters: shaped, places, settings };
}

/** Separates `in`, `as` and a property's own `required`, which are Toolrack's, from the JSON Schema. */
function separatePlaces(schema: JsonSchemaObject): {
  parameters: JsonSchemaObject;
  places: Map<string, PlacedParameter>;
} {
  const places = new Map<string, PlacedParameter>();
  if (!isRecord(schema.properties)) return { parameters: { type: "object", ...schema }, places };
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties).map(([name, property]) => {
    if (!isRecord(property)) return [name, property] as const;
    const { in: place, as, required: isRequired, ...rest } = property;
    if (isRequired === true || isRequired === "true") required.add(name);
    const placed = { ...readPlace(name, place), ...(typeof as === "string" ? { as } : {}) };
    if (Object.keys(placed).length > 0) places.set(name, placed);
    return [name, Array.isArray(isRequired) ? { ...rest, required: isRequired } : rest] as const;
  });
  const parameters = {
    type: "object",
    ...schema,
    properties: Object.fromEntries(properties),
    ...(required.size === 0 ? {} : { required: [...required] }),
  };
  return { parameters, places };
}

function readPlace(name: string, place: unknown): { in?: ParameterPlace } {
  if (place === undefined) return {};
  if (place === "path" || place === "query" || place === "header" || place === "body") return { in: place };
  throw new UsageError(
    `The parameter "${name}" cannot be in ${JSON.stringify(place)}: say path, query, header or body.`,
  );
}

/** Removes fixed arguments from the schema, and makes arguments with a default optional. */
export function withSettings(
  schema: JsonSchemaObject,
  { arguments: fixed, defaults }: UsageSettings,
): JsonSchemaObject {
  if (!isRecord(schema.properties)) return schema;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = Object.entries(schema.properties)
    .filter(([name]) => !Object.hasOwn(fixed, name))
    .map(([name, property]) => {
      if (!Object.hasOwn(defaults, name) || !isRecord(property)) return [name, property];
      return [name, { ...property, default: defaults[name] }];
    });
  const left = required.filter(
    (name) => !Object.hasOwn(fixed, String(name)) && !Object.hasOwn(defaults, String(name)),
  );
  const { required: _, ...rest } = schema;
  return {
    ...rest,
    properties: Object.fromEntries(properties),
    ...(left.length === 0 ? {} : { required: left }),
  };
}

interface Kind<Value> {
  readonly expected: string;
  fits(value: unknown): boolean;
  /** Never set: it only carries the type of the values that fit. */
  readonly value?: Value;
}

const object: Kind<Record<string, unknown>> = { expected: "an object", fits: isRecord };
const text: Kind<string> = {
  expected: "a text",
  fits: (value) => typeof value === "string" && value !== "",
};
const trueOrFalse: Kind<boolean> = { expected: "true or false", fits: (value) => typeof value === "boolean" };
const texts: Kind<readonly string[]> = {
  expected: "a list of texts",
  fits: (value) => Array.isArray(value) && value.every((member) => typeof member === "string"),
};
const textMap: Kind<Record<string, string>> = {
  expected: "an object of texts",
  fits: (value) => isRecord(value) && Object.values(value).every((member) => typeof member === "string"),
};
const variables: Kind<Record<string, string>> = {
  expected: "an object of texts, whose names are letters, digits and _",
  fits: (value) =>
    textMap.fits(value) && Object.keys(asRecord(value)).every((name) => /^[A-Za-z_]\w*$/.test(name)),
};
const form: Kind<"json" | "text"> = {
  expected: '"json" or "text"',
  fits: (value) => value === "json" || value === "text",
};
const wholeUpTo = (most: number): Kind<number> => ({
  expected: `a whole number from 1 to ${most}`,
  fits: (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most,
});

/** The settings that `usage` may hold beside `parameters` or `properties`. */
const kinds = {
  /** Fixed arguments, which a caller cannot change. */
  arguments: object,
  /** Values for arguments that a caller leaves out. */
  defaults: object,
  /** Milliseconds for the whole run. */
  timeout: wholeUpTo(600_000),
  /** `http`: headers of every request. `{{secret:NAME}}` stands for a secret. */
  headers: textMap,
  /** `http`: the most bytes that are read of a response. */
  maxBytes: wholeUpTo(10 * 1024 * 1024),
  /** `script`: the script's environment variables. `{{secret:NAME}}` stands for a secret. */
  environment: variables,
  /** `script`: hosts that the script may reach. */
  hosts: texts,
  /** `script`: the parameter whose members become arguments of the command line. */
  argv: text,
  /** `script`: `text` makes the printed output the result as it is; otherwise it must be JSON. */
  output: form,
  dangerous: trueOrFalse,
  confirm: text,
  readOnly: trueOrFalse,
  idempotent: trueOrFalse,
  permissions: texts,
  tags: texts,
};

type Settings = {
  readonly [Name in keyof typeof kinds]: (typeof kinds)[Name] extends Kind<infer Value> ? Value : never;
};
const usual = { arguments: {}, defaults: {}, headers: {}, environment: {}, hosts: [] };
type UsageSettings = Pick<Settings, keyof typeof usual> & Partial<Settings>;

function isUsageSetting(name: string): name is keyof UsageSettings {
  return Object.hasOwn(kinds, name);
}

/** Throws `UsageError` that names the setting. */
function readUsageSettings(given: JsonSchemaObject): UsageSettings {
  for (const [name, value] of Object.entries(given)) {
    if (!isUsageSetting(name)) {
      const known = Object.keys(kinds).join(", ");
      throw new UsageError(`usage has an unknown setting "${name}". Beside parameters there are: ${known}.`);
    }
    const { expected, fits } = kinds[name];
    if (!fits(value)) throw new UsageError(`usage.${name} must be ${expected}.`);
  }
  return { ...usual, ...given };
}

/** The JSON Schema types, by other names that people write for them. */
const types: Readonly<Record<string, string>> = {
  ...{ str: "string", text: "string", int: "integer", long: "integer", float: "number", double: "number" },
  ...{ bool: "boolean", list: "array", dict: "object", map: "object" },
};
const known = new Set(["string", "integer", "number", "boolean", "array", "object", "null"]);

/** Reads the short list: `[{"name": "query", "type": "string", "required": true, "description": "…"}]`. */
function fromShortList(list: readonly unknown[]): JsonSchemaObject {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const [position, entry] of list.entries()) {
    if (!isRecord(entry)) throw new UsageError(`usage[${position}] must be an object with a "name".`);
    const { name, required: isRequired, type, ...rest } = entry;
    if (typeof name !== "string" || name.trim() === "") {
      throw new UsageError(`usage[${position}] has no "name".`);
    }
    if (Object.hasOwn(properties, name)) throw new UsageError(`usage names the parameter "${name}" twice.`);
    properties[name] = { ...(type === undefined ? {} : { type: typeOf(type, name) }), ...rest };
    if (isRequired === true || isRequired === "true") required.push(name);
  }
  return objectOf(properties, required);
}

const line = /^\s*[-*]\s+`([^`]+)`\s*(?:[（(]([^()（）]*)[)）])?\s*[:：]?\s*(.*)$/;

/** Reads lines such as "- `query` (string, required): what to search for". Undefined if there is none. */
export function fromParameterLines(text: string): JsonSchemaObject | undefined {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  for (const one of text.split("\n")) {
    const [, name, notes = "", description = ""] = line.exec(one) ?? [];
    if (name === undefined) continue;
    const words = notes.split(/[,，、]/).map((word) => word.trim().toLowerCase());
    const type = words.map((word) => types[word] ?? word).find((word) => known.has(word)) ?? "string";
    properties[name] = { type, ...(description.trim() !== "" && { description: description.trim() }) };
    if (words.some((word) => word === "required" || word === "必填" || word === "必需")) required.push(name);
  }
  return Object.keys(properties).length === 0 ? undefined : objectOf(properties, required);
}

function objectOf(properties: Record<string, unknown>, required: readonly string[]): JsonSchemaObject {
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }) };
}

function typeOf(type: unknown, name: string): unknown {
  if (typeof type !== "string") return type;
  const word = types[type.toLowerCase()] ?? type.toLowerCase();
  if (known.has(word)) return word;
  throw new UsageError(`The parameter "${name}" has the type "${type}"; there are ${[...known].join(", ")}.`);
}

/** A field of a tool cannot be used. The message tells people why. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly field: "id" | "usage" | "command" | "endpoint" | "method" | "type";

  constructor(message: string, field: UsageError["field"] = "usage") {
    super(message);
    this.field = field;
  }
}
