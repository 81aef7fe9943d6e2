import { compileSchema, type JsonSchemaObject, SchemaError } from "@toolrack/core";
import { isRecord } from "../../json/is-record.ts";
import { UsageError } from "./usage-error.ts";
import { isUsageSetting, readUsageSettings, type UsageSettings } from "./usage-settings.ts";
import { fromParameterLines, fromShortList, takesParameterLines } from "./usage-short-list.ts";

/** Where an HTTP request carries a parameter. */
export type ParameterPlace = "path" | "query" | "header" | "body";

export interface PlacedParameter {
  readonly in?: ParameterPlace;
  /** The name that the service knows it by, when that is another one. */
  readonly as?: string;
}

/** What the `usage` of a skill's tool says. */
export interface ToolUsage {
  /** What models are shown and arguments are checked with. Undefined: nothing was said. */
  readonly parameters: JsonSchemaObject | undefined;
  /** By the name of the parameter. */
  readonly places: ReadonlyMap<string, PlacedParameter>;
  readonly settings: UsageSettings;
}

const forms =
  'Write a JSON Schema ({"type": "object", "properties": {…}}), {"parameters": …}, {"properties": …} or a list ([{"name", "type", "required", "description"}]).';

/**
 * Reads the `usage` of a tool: a whole JSON Schema, `{parameters}` with settings beside it, `{properties}`, the short
 * list, or the short list as lines of Markdown. When it is empty, the lines may stand in the description. Throws
 * `UsageError`.
 */
export function readUsage(text: string, description = ""): ToolUsage {
  if (text.trim() === "") {
    const lines = takesParameterLines(description) ? fromParameterLines(description) : undefined;
    return finish(lines, {});
  }
  const value = parse(text);
  if (Array.isArray(value)) return finish(fromShortList(value), {});
  if (!isRecord(value))
    throw new UsageError(`usage is ${typeof value}, which says nothing about parameters. ${forms}`);
  const { schema, settings } = takeApart(value);
  return finish(schema, settings);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    if (takesParameterLines(text)) return fromParameterLines(text);
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    throw new UsageError(`usage is not JSON: ${reason}. ${forms}`);
  }
}

function takeApart(value: JsonSchemaObject): {
  schema: JsonSchemaObject | undefined;
  settings: JsonSchemaObject;
} {
  // As OpenAI writes a tool.
  if (value.type === "function" && isRecord(value.function)) return takeApart(value.function);
  if (looksLikeSchema(value)) return { schema: value, settings: {} };
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

function finish(schema: JsonSchemaObject | undefined, rawSettings: JsonSchemaObject): ToolUsage {
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

/** `in`, `as` and a `required` of a single property are ours; what is left is plain JSON Schema. */
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

/** What is fixed is no matter of the model; what has a default need not be given. */
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
