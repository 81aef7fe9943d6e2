export { DependencyStore } from "./dependencies.ts";
export { openSandbox, type ProgramResult, type ProgramSpec, type Sandbox } from "./sandbox.ts";
export { ToolLogs } from "./single-file/call-host.ts";
export {
  type DescribedFile,
  type Description,
  DescriptionCache,
  describeFile,
  type SingleFileManual,
} from "./single-file/description.ts";
export { grantedHosts, KeptItems, missingHosts, ToolOwners } from "./single-file/kept-items.ts";
export type { LogLine, ToolSource } from "./single-file/messages.ts";
export { SingleFileTool, type ToolVariables } from "./single-file/tool.ts";
export { workerCode } from "./single-file/worker-code.ts";
