import { parseJson } from "../schema/json.ts";
import {
  isRecord,
  type JsonSchema,
  type JsonSchemaObject,
  mapSchemas,
  memberAt,
  pointer,
  typesOf,
} from "../schema/visit.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { clipDescription, type TakeNote } from "./format-notes.ts";
import { fromStrictArguments, toStrictSchema } from "./openai-strict.ts";
import { prepareSchema } from "./provider-schema.ts";
import {
  type FormattedTool,
  type FormattedTools,
  fileLine,
  formatTools,
  modelText,
  readCalls,
  splitResult,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `tools` in OpenAI's Chat Completions API. */
export interface OpenAITool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters: JsonSchemaObject;
    readonly strict?: boolean;
  };
}

/** A member of `tools` in OpenAI's Responses API. */
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

/** The `tools` of a Chat Completions request. */
export function toOpenAITools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAITool> {
  return formatFunctions(tools, options, ({ type, strict, ...plain }) => {
    return { type, function: options.strict ? { ...plain, strict } : plain };
  });
}

/**
 * The `tools` of a Responses request. `strict` is always sent, because the provider turns it on by default.
 */
export function toOpenAIResponsesTools(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions = {},
): FormattedTools<OpenAIResponsesTool> {
  return formatFunctions(tools, options, (tool) => tool);
}

const names = { accepts: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64 };
const maxDescription = 1024;

function formatFunctions<Tool>(
  tools: Iterable<ToolInfo | ToolDefinition>,
  options: OpenAIOptions,
  wrap: (tool: OpenAIResponsesTool) => Tool,
): FormattedTools<Tool> {
  return formatTools(tools, {
    names,
    format(definition, name, note): FormattedTool<Tool> {
      const description = clipDescription(definition.description, maxDescription, note);
      const head = { type: "function", name, ...(description !== undefined && { description }) } as const;
      const strict = options.strict ? toStrictSchema(definition.inputSchema, note) : undefined;
      if (strict === undefined) {
        const parameters = withItems(prepareSchema(definition.inputSchema, note), note);
        return { tool: wrap({ ...head, parameters, strict: false }) };
      }
      const restore = (args: unknown) => fromStrictArguments(args, definition);
      return { tool: wrap({ ...head, parameters: strict, strict: true }), restore };
    },
  });
}

/** Adds `items` to arrays that have none, because OpenAI refuses them. */
function withItems(schema: JsonSchemaObject, note: TakeNote): JsonSchemaObject {
  const visit = (node: JsonSchema, at: string): JsonSchema => {
    if (!isRecord(node)) return node;
    const copy = mapSchemas(node, (child, steps) => visit(child, pointer(at, ...steps)));
    if (copy.items !== undefined || !typesOf(copy)?.includes("array") || copy.$ref !== undefined) return copy;
    note(at, "items", "rewritten", "Missing, so sent as a schema that takes anything.");
    return { ...copy, items: {} };
  };
  const whole = visit(schema, "");
  return isRecord(whole) ? whole : schema;
}

/**
 * Reads the calls of an assistant message of Chat Completions (or of its `tool_calls`), also the older `function_call`.
 * Never throws; arguments stay the model's text.
 */
export function parseOpenAIToolCalls(message: unknown): ToolCallRequest[] {
  const isOlder = isRecord(message) && !Array.isArray(message.tool_calls) && isRecord(message.function_call);
  return readCalls(isOlder ? [{ function: message.function_call }] : message, "tool_calls", (call) => {
    const { custom, function: called, id } = call;
    if (isRecord(custom)) return { id, name: custom.name, arguments: custom.input };
    return isRecord(called)
      ? { id, name: called.name, arguments: called.arguments }
      : { id, arguments: undefined };
  });
}

/** The calls among the output items of the Responses API. Never throws. */
export function parseOpenAIResponsesCalls(items: unknown): ToolCallRequest[] {
  return readCalls(items, "output", ({ type, call_id, id, name, input, arguments: args }) => {
    const isCustom = type === "custom_tool_call";
    if (type !== "function_call" && !isCustom) return undefined;
    return { id: call_id ?? id, name, arguments: isCustom ? input : args };
  });
}

interface ToolMessageOptions {
  /** Send the text in an envelope, `{"success": …}`, as `inEnvelope` makes it. Default false. */
  readonly envelope?: boolean;
}

/** The message that answers a call in Chat Completions; text only. */
export function toOpenAIToolMessage(
  callId: string,
  result: ToolResult,
  { envelope = false }: ToolMessageOptions = {},
) {
  const { attachments = [] } = result;
  if (!envelope)
    return { role: "tool", tool_call_id: callId, content: modelText(result, attachments) } as const;
  // A result that was cut is sent as cut; its structured value would contain the whole again.
  const isWhole = memberAt(result.metadata, ["truncated"]) === undefined;
  const more = { structured: isWhole ? result.structured : undefined, files: attachments.map(fileLine) };
  const content = inEnvelope(result.type !== "error", modelText(result), more);
  return { role: "tool", tool_call_id: callId, content } as const;
}

/**
 * The outcome of a call as JSON, `{success: true, data}` or `{success: false, error}`, for models and agent loops that
 * look for the flag. The data is the structured value, or the text, parsed where it is JSON. A text that already is such
 * an envelope is not wrapped again. `files` are lines that name the files that a text cannot carry.
 */
export function inEnvelope(
  isSuccess: boolean,
  text: string,
  { structured, files = [] }: { readonly structured?: unknown; readonly files?: readonly string[] } = {},
): string {
  const parsed = parseJson(text);
  // A number that is too long for JSON's readers stays a text.
  const isKept = typeof parsed === "object" || JSON.stringify(parsed) === text;
  const data = structured ?? (isKept ? parsed : text);
  const own = [parsed, data].find((value) => isRecord(value) && value.success === isSuccess);
  const outcome = own ?? (isSuccess ? { success: true, data } : { success: false, error: text });
  if (files.length > 0) return JSON.stringify({ attachments: files, ...outcome });
  return own !== undefined && own === parsed ? text : JSON.stringify(outcome);
}

type OpenAIOutputPart =
  | { readonly type: "input_text"; readonly text: string }
  | { readonly type: "input_image"; readonly image_url: string }
  | { readonly type: "input_file"; readonly filename: string; readonly file_data: string }
  | { readonly type: "input_file"; readonly file_url: string };

/** The item that answers a call in the Responses API; images and PDF files go with it. */
export function toOpenAIFunctionCallOutput(callId: string, result: ToolResult) {
  const { text, carried } = splitResult(result, isCarried);
  const words: OpenAIOutputPart[] = text === "" ? [] : [{ type: "input_text", text }];
  const output = carried.length === 0 ? text : [...words, ...carried.map(toPart)];
  return { type: "function_call_output", call_id: callId, output } as const;
}

function isCarried(file: FilePart): boolean {
  return file.mime.startsWith("image/") || file.mime === "application/pdf";
}

function toPart(file: FilePart): OpenAIOutputPart {
  if (file.mime.startsWith("image/")) return { type: "input_image", image_url: file.url };
  if (!file.url.startsWith("data:")) return { type: "input_file", file_url: file.url };
  return { type: "input_file", filename: file.filename ?? "attachment.pdf", file_data: file.url };
}
