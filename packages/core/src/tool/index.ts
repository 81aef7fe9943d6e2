export {
  define,
  implementationOf,
  type ToolImplementation as Implementation,
  withImplementation,
} from "./define.ts";
export type { FilePart, ToolResult as Result } from "./result.ts";
export { createSearchTool, createTextTool, type SearchFunction } from "./search-tool.ts";
export type {
  AskRequest,
  ProgressUpdate,
  ToolConfig as Config,
  ToolContext as Context,
  ToolExecuteFunction as ExecuteFunction,
  ToolInfo as Info,
  ToolMetadata as Metadata,
} from "./types.ts";
