import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  mapSchemas,
  pointer,
  typesOf,
} from "../schema/visit.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { prepareSchema } from "./flatten.ts";
import { toModernSchema } from "./modern-schema.ts";
import { clipDescription, type TakeNote } from "./notes.ts";
import { toStrictSchema } from "./openai-strict.ts";

import { fromStrictArguments } from "./strict-arguments.ts";
import {
  callIdOr,
  type FormattedTool,
  type FormattedTools,
  formatTools,
  modelText,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `tools` in Chat Completions. */
export interface OpenAITool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters: JsonSchemaObject;
    readonly strict?: boolean;
  };
}

/** A member of `tools` in Responses. */
interface OpenAIResponsesTool {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly parameters: JsonSchemaObject;
  readonly strict: boolean;
}

interface OpenAIOptions {
  /** Use strict mode, except for tools whose accepted arguments it would change. */
  readonly strict?: boolean;
}

const names = { accepts: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64 };
const maxDescription = 1024;

/** The `tools` of a Chat Completions request. */
export function toOpenAITools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAITool> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      const { tool, restore } = toFunction(definition, name, options, note);
      const { strict, ...plain } = tool;
      return {
        tool: { type: "function", function: options.strict ? { ...plain, strict } : plain },
        ...(restore && { restore }),
      };
    },
  });
}

/** The `tools` of a Responses request, where `strict` is on by default. */
export function toOpenAIResponsesTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAIResponsesTool> {
  return formatTools(tools, {
    names,
    format: (definition, name, note) => {
      const { tool, restore } = toFunction(definition, name, options, note);
      return { tool: { type: "function", ...tool }, ...(restore && { restore }) };
    },
  });
}

type FunctionTool = Omit<OpenAIResponsesTool, "type">;

function toFunction(
  definition: ToolDefinition,
  name: string,
  options: OpenAIOptions,
  note: TakeNote,
): FormattedTool<FunctionTool> {
  const description = clipDescription(definition.description, maxDescription, note);
  const head = { name, ...(description !== undefined && { description }) };
  const strict = options.strict ? strictParameters(definition, note) : undefined;
  if (strict !== undefined) {
    return {
      tool: { ...head, parameters: strict, strict: true },
      restore: (args) => fromStrictArguments(args, definition),
    };
  }
  const prepared = prepareSchema(definition.inputSchema, note);
  return { tool: { ...head, parameters: withItems(prepared, "", note), strict: false } };
}

function strictParameters(definition: ToolDefinition, note: TakeNote): JsonSchemaObject | undefined {
  // The notes are kept only if the strict schema is sent.
  const taken: Parameters<TakeNote>[] = [];
  const take: TakeNote = (...entry) => taken.push(entry);
  const alternative = shapedAlternative(toModernSchema(definition.inputSchema, () => {}));
  if (alternative !== undefined) {
    note(
      "",
      alternative,
      "not_strict",
      "Its branches are different objects, which the root of a strict schema cannot be.",
    );
    return undefined;
  }
  const outcome = toStrictSchema(prepareSchema(definition.inputSchema, take), take);
  if (!outcome.ok) {
    note(
      outcome.path,
      outcome.keyword,
      "not_strict",
      `Strict mode would change what the tool accepts: ${outcome.reason}.`,
    );
    return undefined;
  }
  for (const entry of taken) note(...entry);
  return outcome.schema;
}

/** The keyword of alternatives that differ in more than their required keys. */
function shapedAlternative(root: JsonSchemaObject): string | undefined {
  return ["anyOf", "oneOf"].find((keyword) => {
    const branches = root[keyword];
    return Array.isArray(branches) && branches.some((branch) => !isRequirement(branch));
  });
}

function isRequirement(branch: unknown): boolean {
  const harmless = ["required", "title", "description", "type"];
  return isRecord(branch) && Object.keys(branch).every((keyword) => harmless.includes(keyword));
}

/** OpenAI refuses arrays without `items`. */
function withItems(schema: JsonSchemaObject, path: string, note: TakeNote): JsonSchemaObject {
  const visit = (node: JsonSchema, at: string): JsonSchema => {
    if (!isRecord(node)) return node;
    const copy = mapSchemas(node, (child, steps) => visit(child, pointer(at, ...steps)));
    if (copy.items !== undefined || !typesOf(copy)?.includes("array") || copy.$ref !== undefined) return copy;
    note(at, "items", "rewritten", "Missing, so sent as a schema that takes anything.");
    return { ...copy, items: {} };
  };
  const whole = visit(schema, path);
  return isRecord(whole) ? whole : schema;
}

/**
 * Reads the calls of an assistant message of Chat Completions (or of its `tool_calls`), also the older `function_call`.
 * Never throws; arguments stay the model's text.
 */
export function parseOpenAIToolCalls(message: unknown): ToolCallRequest[] {
  const calls = Array.isArray(message) ? message : isRecord(message) ? message.tool_calls : undefined;
  if (Array.isArray(calls)) return calls.flatMap((call, position) => parseCall(call, position));
  if (!isRecord(message) || !isRecord(message.function_call)) return [];
  return parseCall({ function: message.function_call }, 0);
}

/** The calls among the output items of Responses. Never throws. */
export function parseOpenAIResponsesCalls(items: unknown): ToolCallRequest[] {
  const list = isRecord(items) ? items.output : items;
  if (!Array.isArray(list)) return [];
  return list.flatMap((item, position) => {
    if (!isRecord(item)) return [];
    const isCustom = item.type === "custom_tool_call";
    if (item.type !== "function_call" && !isCustom) return [];
    const id = callIdOr(item.call_id ?? item.id, position);
    return [{ id, name: nameIn(item), arguments: isCustom ? item.input : item.arguments }];
  });
}

interface OpenAIToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: string;
}

/** The message that answers a call in Chat Completions; text only. */
export function toOpenAIToolMessage(callId: string, result: ToolResult): OpenAIToolMessage {
  return { role: "tool", tool_call_id: callId, content: modelText(result, result.attachments) };
}

type OpenAIOutputPart =
  | { readonly type: "input_text"; readonly text: string }
  | { readonly type: "input_image"; readonly image_url: string }
  | { readonly type: "input_file"; readonly filename: string; readonly file_data: string }
  | { readonly type: "input_file"; readonly file_url: string };

interface OpenAIFunctionCallOutput {
  readonly type: "function_call_output";
  readonly call_id: string;
  readonly output: string | readonly OpenAIOutputPart[];
}

/** The item that answers a call in Responses; images and PDF files go with it. */
export function toOpenAIFunctionCallOutput(callId: string, result: ToolResult): OpenAIFunctionCallOutput {
  const files = result.attachments ?? [];
  const carried = files.filter(isCarried);
  const text = modelText(
    result,
    files.filter((file) => !isCarried(file)),
  );
  const parts = carried.map(toPart);
  const words: OpenAIOutputPart[] = text === "" ? [] : [{ type: "input_text", text }];
  return {
    type: "function_call_output",
    call_id: callId,
    output: parts.length === 0 ? text : [...words, ...parts],
  };
}

function parseCall(call: unknown, position: number): ToolCallRequest[] {
  if (!isRecord(call)) return [];
  const id = callIdOr(call.id, position);
  if (isRecord(call.custom)) return [{ id, name: nameIn(call.custom), arguments: call.custom.input }];
  const called = isRecord(call.function) ? call.function : {};
  return [{ id, name: nameIn(called), arguments: called.arguments }];
}

function nameIn(call: Readonly<Record<string, unknown>>): string {
  return typeof call.name === "string" ? call.name : "";
}

function isCarried(file: FilePart): boolean {
  return file.mime.startsWith("image/") || file.mime === "application/pdf";
}

function toPart(file: FilePart): OpenAIOutputPart {
  if (file.mime.startsWith("image/")) return { type: "input_image", image_url: file.url };
  if (!file.url.startsWith("data:")) return { type: "input_file", file_url: file.url };
  return { type: "input_file", filename: file.filename ?? "attachment.pdf", file_data: file.url };
}
