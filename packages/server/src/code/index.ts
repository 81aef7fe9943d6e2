export { CodeRuns, canGoOn, type DurableParts } from "./code-runs.ts";
export { runTool, withCatalogue } from "./run-tool.ts";
export { type RunView, runExcerpt, runOfQuestion } from "./run-view.ts";
export { toSingleFile } from "./saved-tool.ts";
export { CodeProblem, type Node, type PreparedCode, prepareCode } from "./source.ts";
export { pathCall, ToolPaths } from "./tool-paths.ts";
