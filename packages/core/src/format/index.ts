// `@toolrack/core/format`: tools, calls and results in the forms of providers. An entry of its own, because a program that only
// runs tools needs none of it, and these are a sixth of core.

export {
  type AnthropicTool,
  parseAnthropicToolUses,
  toAnthropicToolResult,
  toAnthropicTools,
} from "./anthropic.ts";
export { declarationsOf, signatureOf } from "./declarations.ts";
export type { FormatNote } from "./format-notes.ts";
export { parseGeminiFunctionCalls, toGeminiFunctionResponse, toGeminiTools } from "./gemini.ts";
export { parseMcpToolCall, toMcpTools } from "./mcp.ts";
export {
  parseOpenAIResponsesCalls,
  parseOpenAIToolCalls,
  toOpenAIFunctionCallOutput,
  toOpenAIResponsesTools,
  toOpenAIToolMessage,
  toOpenAITools,
} from "./openai.ts";
export { fromStrictArguments } from "./openai-strict.ts";
export { fromTagArguments, parseTagCalls, toTagResult } from "./tag-calls.ts";
export { type FormattedTools, type ToolCallRequest, type ToolDefinition, toDefinition } from "./tools.ts";
