export type { AskRequest, ProgressUpdate, ToolContext as Context } from "./context.ts";
export type {
  ToolConfig as Config,
  ToolExecuteFunction as ExecuteFunction,
  ToolInfo as Info,
  ToolMetadata as Metadata,
} from "./define.ts";
export {
  define,
  implementationOf,
  type ToolImplementation as Implementation,
  withImplementation,
} from "./define.ts";
export type { FilePart, ToolResult as Result } from "./result.ts";
export { createSearchTool, createTextTool, type SearchFunction } from "./search-tool.ts";
