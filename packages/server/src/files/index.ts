export { adaptInternal, type InternalSurroundings } from "./contracts.ts";
export {
  InternalToolLoader,
  InternalToolsService,
  McpService,
  type RackContext,
} from "./internal-services.ts";
export {
  type FileReport,
  FileVersion,
  type LoadEvent,
  type LoadListener,
  type LoadReport,
} from "./load-report.ts";
export { Compiler, forgetCompiledSources } from "./loader/compile.ts";
export { ModuleGraph, type ModuleGraphParts } from "./loader/module-graph.ts";
export { Resolver } from "./loader/resolver.ts";
export { FileOfferings, MissingPromptArguments } from "./offerings.ts";
export {
  makeCallToolHandler,
  type ProvidedParts,
  providedModules,
  provideModule,
} from "./provided-modules.ts";
export { type SingleFileOptions, SingleFileTools } from "./single-file.ts";
export { ToolFiles } from "./tool-files.ts";
export { buildReloadTool, logTool } from "./toolbox-tools.ts";
