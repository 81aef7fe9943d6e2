export type {
  AdmittedCall,
  CallDispatcher,
  CallLink,
  HandedCall,
  PerformedCall,
} from "./call/admitted-call.ts";
export type { CallFlags, LogLevel, RackEvent, RackListener, ToolCallRecord } from "./call/events.ts";
export type { PageOptions, ResultPage } from "./call/results.ts";
export type {
  ApprovalDecision,
  ApprovalPolicy,
  ApprovalRequest,
  ApprovalVerdict,
  CallMock,
  CallOptions,
  CallSettings,
  Environment,
  EnvironmentOf,
  EnvironmentSource,
  MockedCall,
} from "./call/settings.ts";
export { type ToolErrorCode, type ToolErrorResponse, toolErrorCodes } from "./error/codes.ts";
export {
  ApprovalDeniedError,
  BusinessError,
  CodeDivergedError,
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
  toToolError,
} from "./error/tool-error.ts";
export { RegistrySnapshot } from "./registry/catalog.ts";
export { type Observation, ToolDispatcher } from "./registry/dispatcher.ts";
export { type DoomLoopDetectionResult, type RefusedTool, ToolRegistry } from "./registry/registry.ts";
export type { Meanings, WeightedWord, WordVectors } from "./registry/search/search-document.ts";
export type { SearchHelper, SearchSettings } from "./registry/search/tool-search.ts";
export { compileSchema } from "./schema/compile-schema.ts";
export type { SchemaIssue } from "./schema/issue.ts";
export { type CompiledSchema, type InferInput, SchemaError } from "./schema/types.ts";
export type { JsonSchema, JsonSchemaObject } from "./schema/visit.ts";
export { DefinitionError, type PluginTool, type ToolBody, tool } from "./tool/define.ts";
export * as Tool from "./tool/index.ts";
export { fromMcpResult, toMcpResult } from "./tool/mcp-result.ts";
export type {
  OfferingContext,
  PromptArgument,
  PromptConfig,
  PromptInfo,
  PromptMessage,
  ResourceBody,
  ResourceConfig,
  ResourceContents,
  ResourceInfo,
} from "./tool/offering.ts";
export * as Prompt from "./tool/prompt.ts";
export * as Resource from "./tool/resource.ts";
export type { ContentBlock, FilePart, ToolResult } from "./tool/result.ts";
export type {
  AskRequest,
  CallClient,
  ChildOptions,
  ClientMethod,
  ElicitAnswer,
  ElicitRequest,
  Logger,
  LoopPolicy,
  ProgressUpdate,
  RegistryReader,
  RegistryStats,
  RegistryView,
  ToolClient,
  ToolConfig,
  ToolContext,
  ToolExecuteFunction,
  ToolInfo,
  ToolMetadata,
  ToolParameters,
  ToolState,
  ToolStatus,
} from "./tool/types.ts";
