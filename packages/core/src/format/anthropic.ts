import type { JsonSchemaObject } from "../schema/visit.ts";
import { parseDataUrl } from "../tool/mcp-result.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { prepareSchema, renameProperties } from "./prepare.ts";
import {
  type FormattedTools,
  formatTools,
  modelText,
  readCalls,
  splitResult,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `tools` in Messages. */
export interface AnthropicTool {
  readonly name: string;
  readonly description?: string;
  readonly input_schema: JsonSchemaObject;
}

const names = { accepts: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64 };
/** Checked for the properties at the root only. */
const propertyNames = /^[a-zA-Z0-9_.-]{1,64}$/;

/** The `tools` of a Messages request. */
export function toAnthropicTools(tools: Iterable<ToolInfo | ToolDefinition>): FormattedTools<AnthropicTool> {
  return formatTools(tools, {
    names,
    format: ({ description, inputSchema }, name, note) => {
      const { schema, restore } = renameProperties(prepareSchema(inputSchema, note), propertyNames, note);
      return {
        tool: { name, ...(description !== undefined && { description }), input_schema: schema },
        restore,
      };
    },
  });
}

/** The calls among the content blocks of an assistant message. Never throws. */
export function parseAnthropicToolUses(content: unknown): ToolCallRequest[] {
  return readCalls(content, "content", (block) =>
    block.type === "tool_use" ? { ...block, arguments: block.input } : undefined,
  );
}

export type AnthropicSource =
  | { readonly type: "base64"; readonly media_type: string; readonly data: string }
  | { readonly type: "url"; readonly url: string };

export type AnthropicResultBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image" | "document"; readonly source: AnthropicSource };

export interface AnthropicToolResult {
  readonly type: "tool_result";
  readonly tool_use_id: string;
  readonly content?: string | readonly AnthropicResultBlock[];
  readonly is_error?: true;
}

/** The block that answers a call; images and PDF files go with it. */
export function toAnthropicToolResult(callId: string, result: ToolResult): AnthropicToolResult {
  const head = { type: "tool_result", tool_use_id: callId } as const;
  // An error must say something, and may hold nothing but text.
  if (result.type === "error") {
    return { ...head, content: modelText(result, result.attachments) || "The tool failed.", is_error: true };
  }
  const { text, carried } = splitResult(result, isCarried);
  if (carried.length === 0) return text === "" ? head : { ...head, content: text };
  // Empty text blocks are refused.
  const words: AnthropicResultBlock[] = text === "" ? [] : [{ type: "text", text }];
  return { ...head, content: [...words, ...carried.map(toBlock)] };
}

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

function isCarried(file: FilePart): boolean {
  const isKnown = imageTypes.includes(file.mime) || file.mime === "application/pdf";
  return isKnown && (file.url.startsWith("https:") || parseDataUrl(file.url) !== undefined);
}

function toBlock(file: FilePart): AnthropicResultBlock {
  const inline = parseDataUrl(file.url);
  const source: AnthropicSource =
    inline === undefined
      ? { type: "url", url: file.url }
      : { type: "base64", media_type: file.mime, data: inline.data };
  return { type: file.mime === "application/pdf" ? "document" : "image", source };
}
