import type { FilePart, ToolResult } from "../tool/result.ts";
import { isRecord } from "./json-value.ts";
import { modelText } from "./model-text.ts";
import { callIdOr, type ToolCallRequest } from "./tool-call-request.ts";

/**
 * The calls of an assistant message of Chat Completions (or of its `tool_calls`), the older `function_call`
 * included. Never throws; arguments stay the text the model wrote.
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

export interface OpenAIToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: string;
}

/** The message that answers a call in Chat Completions, where an answer is text alone. */
export function toOpenAIToolMessage(callId: string, result: ToolResult): OpenAIToolMessage {
  return { role: "tool", tool_call_id: callId, content: modelText(result, result.attachments) };
}

export type OpenAIOutputPart =
  | { readonly type: "input_text"; readonly text: string }
  | { readonly type: "input_image"; readonly image_url: string }
  | { readonly type: "input_file"; readonly filename: string; readonly file_data: string }
  | { readonly type: "input_file"; readonly file_url: string };

export interface OpenAIFunctionCallOutput {
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
