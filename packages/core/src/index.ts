export type { ApprovalDecision, ApprovalPolicy, ApprovalRequest, ApprovalVerdict } from "./call/approval.ts";
export type { RackEvent, RackListener } from "./call/events.ts";
export type { CallFlags } from "./call/frame.ts";
export type { PageOptions, ResultPage } from "./call/kept-results.ts";
export type { CallOptions } from "./call/options.ts";
export type { ToolCallRecord } from "./call/record.ts";
export { type RedactOptions, redact } from "./call/redact.ts";
export type { CallSettings } from "./call/settings.ts";
export type { ToolState, ToolStatus } from "./call/state.ts";
export { type ToolErrorCode, toolErrorCodes } from "./error/codes.ts";
export type { ToolErrorResponse } from "./error/response.ts";
export { toToolError } from "./error/to-tool-error.ts";
export {
  ApprovalDeniedError,
  BusinessError,
  InvalidArgumentError,
  isToolError,
  LoopBlockedError,
  PermissionDeniedError,
  ToolCancelledError,
  ToolDisabledError,
  ToolError,
  type ToolErrorOptions,
  ToolExecutionError,
  ToolNotFoundError,
  ToolTimeoutError,
} from "./error/tool-error.ts";
export { type Observation, ToolDispatcher } from "./registry/dispatcher.ts";
export { type DoomLoopDetectionResult, ToolRegistry } from "./registry/registry.ts";
export { RegistrySnapshot } from "./registry/snapshot.ts";
export type { RegistryReader, RegistryStats, RegistryView } from "./registry/view.ts";
export type { ToolContext } from "./tool/context.ts";
export { tool } from "./tool/define.ts";
export { DefinitionError } from "./tool/definition-error.ts";
export * as Tool from "./tool/index.ts";
export type { ToolConfig, ToolExecuteFunction, ToolInfo, ToolParameters } from "./tool/info.ts";
export type { LoopPolicy, ToolMetadata } from "./tool/metadata.ts";
export type { ContentBlock, FilePart, ToolResult } from "./tool/result.ts";
