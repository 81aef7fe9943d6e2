import type { JsonSchemaObject } from "../schema/visit.ts";
import { parseDataUrl } from "../tool/mcp-result.ts";
import type { FilePart, ToolResult } from "../tool/result.ts";
import type { ToolInfo } from "../tool/types.ts";
import { prepareSchema, renameProperties } from "./provider-schema.ts";
import {
  type FormattedTools,
  formatTools,
  mayBeCalledBy,
  modelText,
  readCalls,
  splitResult,
  type ToolCallRequest,
  type ToolDefinition,
} from "./tools.ts";

/** A member of `tools` in Anthropic's Messages API. */
export interface AnthropicTool {
  readonly name: string;
  readonly description?: string;
  readonly input_schema: JsonSchemaObject;
  /** Who may call it, where the tool's `metadata.callers` says so. */
  readonly allowed_callers?: readonly string[];
}

/** Anthropic's names for those who call a tool. */
function callersOf(metadata: ToolDefinition["metadata"]): string[] {
  return [
    ...(mayBeCalledBy("model", metadata) ? ["direct"] : []),
    ...(mayBeCalledBy("code", metadata) ? ["code_execution_20250825"] : []),
  ];
}

const names = { accepts: /^[a-zA-Z0-9_-]{1,64}$/, maxLength: 64 };
/**
 * The property names that Anthropic accepts at the root of a schema. It does not check names below the root.
 */
const propertyNames = /^[a-zA-Z0-9_.-]{1,64}$/;

/** The `tools` of a request to Anthropic's Messages API. */
export function toAnthropicTools(tools: Iterable<ToolInfo | ToolDefinition>): FormattedTools<AnthropicTool> {
  return formatTools(tools, {
    names,
    format: ({ description, inputSchema, metadata }, name, note) => {
      const { schema, restore } = renameProperties(prepareSchema(inputSchema, note), propertyNames, note);
      return {
        tool: {
          name,
          ...(description !== undefined && { description }),
          input_schema: schema,
          ...(metadata.callers && { allowed_callers: callersOf(metadata) }),
        },
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

/** The block that answers a call; images and PDF files go with it. */
export function toAnthropicToolResult(callId: string, result: ToolResult) {
  const head = { type: "tool_result", tool_use_id: callId } as const;
  // Anthropic refuses an error without content, and an error with anything but text.
  if (result.type === "error") {
    return {
      ...head,
      content: modelText(result, result.attachments) || "The tool failed.",
      is_error: true as const,
    };
  }
  const { text, carried } = splitResult(result, isCarried);
  if (carried.length === 0) return { ...head, ...(text !== "" && { content: text }) };
  // Anthropic refuses empty text blocks.
  const words = text === "" ? [] : [{ type: "text" as const, text }];
  return { ...head, content: [...words, ...carried.map(toBlock)] };
}

const imageTypes = ["image/jpeg", "image/png", "image/gif", "image/webp"];

function isCarried(file: FilePart): boolean {
  const isKnown = imageTypes.includes(file.mime) || file.mime === "application/pdf";
  return isKnown && (file.url.startsWith("https:") || parseDataUrl(file.url) !== undefined);
}

function toBlock(file: FilePart) {
  const data = parseDataUrl(file.url)?.data;
  const address = { type: "url", url: file.url } as const;
  const source = data === undefined ? address : ({ type: "base64", media_type: file.mime, data } as const);
  return { type: file.mime === "application/pdf" ? "document" : "image", source } as const;
}
