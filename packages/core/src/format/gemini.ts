import { isRecord, type JsonSchemaObject, type JsonType } from "../schema/visit.ts";
import type { ToolInfo } from "../tool/define.ts";
import type { ToolResult } from "../tool/result.ts";
import { toGeminiSchema } from "./gemini-schema.ts";
import { describeConstraint, prepareSchema, type TakeNote, withRemarks } from "./modern-schema.ts";
import { renameProperties } from "./references.ts";
import {
  callIdOr,
  type FormattedTools,
  formatTools,
  isMadeUpCallId,
  modelText,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `functionDeclarations`. */
interface GeminiFunctionDeclaration {
  readonly name: string;
  readonly description: string;
  /** A subset of OpenAPI's schema. Absent when the tool takes no arguments. */
  readonly parameters?: JsonSchemaObject;
  /** JSON Schema, in place of `parameters`. */
  readonly parametersJsonSchema?: JsonSchemaObject;
}

interface GeminiOptions {
  /** `parametersJsonSchema` loses less, but only newer models and endpoints take it. */
  readonly schemaField?: "parameters" | "parametersJsonSchema";
}

const names = { accepts: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/, maxLength: 64 };
const propertyNames = /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/;

/** The `functionDeclarations` of one Gemini tool. */
export function toGeminiTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: GeminiOptions = {},
): FormattedTools<GeminiFunctionDeclaration> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      // Gemini requires a description.
      const head = { name, description: definition.description || definition.title || definition.name };
      const prepared = prepareSchema(definition.inputSchema, note);
      const { schema, restore } = renameProperties(prepared, propertyNames, note);
      if (options.schemaField === "parametersJsonSchema") {
        return { tool: { ...head, parametersJsonSchema: schema }, ...(restore && { restore }) };
      }
      const parameters = toGeminiSchema(schema, note);
      // An object without properties is refused at the root.
      const tool = parameters.properties === undefined ? head : { ...head, parameters };
      return { tool, ...(restore && { restore }) };
    },
  });
}

/** The calls among the parts of a model's content. Never throws. */
export function parseGeminiFunctionCalls(parts: unknown): ToolCallRequest[] {
  const list = isRecord(parts) ? parts.parts : parts;
  if (!Array.isArray(list)) return [];
  return list.flatMap((part, position) => {
    const call = isRecord(part) ? (part.functionCall ?? part.function_call) : undefined;
    if (!isRecord(call)) return [];
    const name = typeof call.name === "string" ? call.name : "";
    // Gemini leaves `args` out when there are none.
    return [{ id: callIdOr(call.id, position), name, arguments: call.args ?? {} }];
  });
}

interface GeminiFunctionResponsePart {
  readonly functionResponse: {
    readonly id?: string;
    readonly name: string;
    readonly response: { readonly output: unknown } | { readonly error: unknown };
  };
}

/** The part that answers a call. `call.name` is the name the model used. */
export function toGeminiFunctionResponse(
  call: Pick<ToolCallRequest, "id" | "name">,
  result: ToolResult,
): GeminiFunctionResponsePart {
  const text = modelText(result, result.attachments);
  return {
    functionResponse: {
      ...(!isMadeUpCallId(call.id) && { id: call.id }),
      name: call.name,
      response: result.type === "error" ? { error: text } : { output: text },
    },
  };
}

/** What Gemini's `Schema` has a field for, by type. Everything else is said in the description. */
const keptKeywords: Readonly<Record<JsonType, readonly string[]>> = {
  string: ["format", "pattern", "minLength", "maxLength"],
  number: ["format", "minimum", "maximum"],
  integer: ["format", "minimum", "maximum"],
  boolean: [],
  array: ["minItems", "maxItems"],
  object: ["minProperties", "maxProperties"],
  null: [],
};

/** The formats Gemini takes; any other is an error there. */
const keptFormats: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  string: ["date-time", "enum"],
  number: ["float", "double"],
  integer: ["int32", "int64"],
};

/** Keywords worked into the structure, and keywords that tell a model nothing. */
const handledKeywords = [
  ...[
    "type",
    "title",
    "description",
    "default",
    "example",
    "enum",
    "const",
    "properties",
    "required",
    "items",
  ],
  ...["prefixItems", "$defs", "definitions", "$id", "$anchor", "$dynamicAnchor", "$comment", "deprecated"],
  ...["readOnly", "writeOnly", "propertyOrdering"],
];

/** Type, title, description with remarks, and the fields Gemini has for this type. */
export function geminiFrame(
  node: JsonSchemaObject,
  type: JsonType,
  remarks: readonly string[],
  path: string,
  note: TakeNote,
): Record<string, unknown> {
  const { exclusiveMinimum, exclusiveMaximum, ...rest } = node;
  const bounds: Record<string, unknown> = { ...rest };
  // For whole numbers, an exclusive bound is the inclusive bound next to it.
  const isWhole = type === "integer";
  if (isWhole && Number.isInteger(exclusiveMinimum)) {
    bounds.minimum = Math.max(Number(exclusiveMinimum) + 1, Number(rest.minimum ?? Number.NEGATIVE_INFINITY));
  } else if (exclusiveMinimum !== undefined) bounds.exclusiveMinimum = exclusiveMinimum;
  if (isWhole && Number.isInteger(exclusiveMaximum)) {
    bounds.maximum = Math.min(Number(exclusiveMaximum) - 1, Number(rest.maximum ?? Number.POSITIVE_INFINITY));
  } else if (exclusiveMaximum !== undefined) bounds.exclusiveMaximum = exclusiveMaximum;

  const kept = keptKeywords[type].filter((keyword) => isKept(keyword, bounds[keyword], type));
  const words = geminiWords(bounds, path, note, kept, remarks);
  return { type, ...words, ...Object.fromEntries(kept.map((keyword) => [keyword, bounds[keyword]])) };
}

export function geminiWords(
  node: JsonSchemaObject,
  path: string,
  note: TakeNote,
  kept: readonly string[] = [],
  remarks: readonly string[] = [],
): Record<string, unknown> {
  const description = withRemarks(node.description, [...remarks, ...geminiRemarks(node, kept, path, note)]);
  return {
    ...(typeof node.title === "string" && { title: node.title }),
    ...(description !== undefined && { description }),
    ...(node.default !== undefined && { default: node.default }),
  };
}

export function geminiRemarks(
  node: JsonSchemaObject,
  kept: readonly string[],
  path: string,
  note: TakeNote,
): string[] {
  const remarks: string[] = [];
  for (const [keyword, value] of Object.entries(node)) {
    if (kept.includes(keyword) || handledKeywords.includes(keyword)) continue;
    // The rack drops or refuses further properties by itself; a model need not be told.
    const isSilent = value === false || keyword.startsWith("x-");
    const remark = isSilent ? undefined : describeConstraint(keyword, value);
    if (remark !== undefined) remarks.push(remark);
    note(path, keyword, remark === undefined ? "dropped" : "described", "Gemini has no field for it.");
  }
  return remarks;
}

function isKept(keyword: string, value: unknown, type: JsonType): boolean {
  if (keyword === "format") return keptFormats[type]?.some((format) => format === value) ?? false;
  return value !== undefined;
}
