export { type DataFolderReport, DataFolders, openFolders } from "./data-folder.ts";
export { DependencyStore, parseDependencies } from "./dependencies.ts";
export { grantedHosts, missingHosts } from "./egress.ts";
export { openSandbox } from "./sandbox.ts";
export {
  type DataFolder,
  isolationCodes,
  type LogLine,
  type OpenFolder,
  type ProgramResult,
  type ProgramSpec,
  type Sandbox,
  type WorkerCall,
  type WorkerProgram,
  type WorkerSpec,
} from "./sandbox-types.ts";
export type { Description, SingleFileManual } from "./single-file/checked-description.ts";
export { type DescribedFile, DescriptionCache, describeFile, workerCode } from "./single-file/description.ts";
export type { ToolSource } from "./single-file/messages.ts";
export { folderGrantAdvice, SingleFileTool, type ToolVariables } from "./single-file/tool.ts";
export { KeptItems, ToolLogs, ToolOwners } from "./single-file/tool-storage.ts";
