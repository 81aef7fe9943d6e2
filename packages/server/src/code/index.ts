export { CodeRuns, canGoOn, type DurableParts } from "./code-runs.ts";
export { runTool, withCatalogue } from "./run-tool.ts";
export { CodeProblem, type Node, type PreparedCode, prepareCode } from "./source.ts";
export { ToolPaths } from "./tool-paths.ts";
