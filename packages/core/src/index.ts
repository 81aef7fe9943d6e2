export type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalVerdict } from "./call/approval.ts";
export type { LogLevel } from "./call/call-log.ts";
export type { RackEvent, RackListener } from "./call/events.ts";
export type { CallFlags } from "./call/frame.ts";
export { logLine } from "./call/frame-context.ts";
export { IdTable } from "./call/id-table.ts";
export type { PageOptions, ResultPage } from "./call/kept-results.ts";
export type { CallOptions } from "./call/options.ts";
export type { ToolCallRecord } from "./call/record.ts";
export { type RedactOptions, redact } from "./call/redact.ts";
export type { CallSettings } from "./call/settings.ts";
export type { ToolState, ToolStatus } from "./call/state.ts";
export { waitingForTurn } from "./call/waiting-for-turn.ts";
export { whenAborted } from "./call/when-aborted.ts";
export { type ToolErrorCode, toolErrorCodes } from "./error/codes.ts";
export type { ToolErrorResponse } from "./error/response.ts";
export { toToolError } from "./error/to-tool-error.ts";
export {
  ApprovalDeniedError,
  BusinessError,
  InvalidArgumentError,
  isToolError,
  LoopBlockedError,
  OutcomeUnknownError,
  PermissionDeniedError,
  ToolCancelledError,
  ToolDisabledError,
  ToolError,
  type ToolErrorOptions,
  ToolExecutionError,
  ToolNotFoundError,
  ToolTimeoutError,
} from "./error/tool-error.ts";
export {
  type AnthropicTool,
  parseAnthropicToolUses,
  toAnthropicToolResult,
  toAnthropicTools,
} from "./format/anthropic.ts";
export { type ToolDefinition, toDefinition } from "./format/definition.ts";
export type { FormatNote } from "./format/format-note.ts";
export type { FormattedTools } from "./format/format-tools.ts";
export { parseGeminiFunctionCalls, toGeminiFunctionResponse, toGeminiTools } from "./format/gemini.ts";
export { parseMcpToolCall, toMcpTools } from "./format/mcp.ts";
export { fromMcpResult, toMcpResult } from "./format/mcp-result.ts";
export { toOpenAIResponsesTools, toOpenAITools } from "./format/openai.ts";
export {
  parseOpenAIResponsesCalls,
  parseOpenAIToolCalls,
  toOpenAIFunctionCallOutput,
  toOpenAIToolMessage,
} from "./format/openai-calls.ts";
export { fromStrictArguments } from "./format/strict-arguments.ts";
export { fromTagArguments, parseTagCalls, readTagText, type TagText, toTagResult } from "./format/tags.ts";
export type { ToolCallRequest } from "./format/tool-call-request.ts";
export { type RecalledCall, recallCalls } from "./loop/recall-calls.ts";
export type { PromptArgument, PromptConfig, PromptInfo, PromptMessage } from "./offering/define-prompt.ts";
export type {
  ResourceBody,
  ResourceConfig,
  ResourceContents,
  ResourceInfo,
} from "./offering/define-resource.ts";
export type { OfferingContext } from "./offering/offering-context.ts";
export * as Prompt from "./offering/prompt.ts";
export * as Resource from "./offering/resource.ts";
export { type Observation, ToolDispatcher } from "./registry/dispatcher.ts";
export { type DoomLoopDetectionResult, type RefusedTool, ToolRegistry } from "./registry/registry.ts";
export { RegistrySnapshot } from "./registry/snapshot.ts";
export type { RegistryReader, RegistryStats, RegistryView } from "./registry/view.ts";
export type { SchemaFlaw } from "./schema/check-json-schema.ts";
export { compileSchema } from "./schema/compile-schema.ts";
export { hashValue } from "./schema/hash-value.ts";
export type { InferInput } from "./schema/infer.ts";
export { jsonSchemaFlaws } from "./schema/json-schema-flaws.ts";
export { referenceKeywords, sameValueKeywords, schemaKeywords } from "./schema/json-schema-keywords.ts";
export { SchemaError } from "./schema/schema-error.ts";
export type { CompiledSchema, JsonSchema, JsonSchemaObject, SchemaIssue } from "./schema/types.ts";
export type { CallClient, ClientMethod, ElicitAnswer, ElicitRequest, ToolClient } from "./tool/client.ts";
export type { AskRequest, ChildOptions, Logger, ProgressUpdate, ToolContext } from "./tool/context.ts";
export { type PluginTool, type ToolBody, tool } from "./tool/define.ts";
export { DefinitionError } from "./tool/definition-error.ts";
export * as Tool from "./tool/index.ts";
export type { ToolConfig, ToolExecuteFunction, ToolInfo, ToolParameters } from "./tool/info.ts";
export type { LoopPolicy, ToolMetadata } from "./tool/metadata.ts";
export { canonicalName, isCanonicalName, nearestNames } from "./tool/name.ts";
export type { ContentBlock, FilePart, ToolResult } from "./tool/result.ts";
