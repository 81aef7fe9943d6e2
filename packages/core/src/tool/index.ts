export type { AskRequest, ProgressUpdate, ToolContext as Context } from "./context.ts";
export { createSearchTool, type SearchFunction } from "./create-search-tool.ts";
export { createTextTool } from "./create-text-tool.ts";
export {
  define,
  implementationOf,
  type ToolImplementation as Implementation,
  withImplementation,
} from "./define.ts";
export type {
  ToolConfig as Config,
  ToolExecuteFunction as ExecuteFunction,
  ToolInfo as Info,
} from "./info.ts";
export type { ToolMetadata as Metadata } from "./metadata.ts";
export type { FilePart, ToolResult as Result } from "./result.ts";
