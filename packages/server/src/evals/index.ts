export { type EvalCase, type EvalFile, evalSchema, readEvalFile } from "./eval-file.ts";
export { type CaseReport, type EvalReport, evaluate, type VersionReport } from "./evaluate.ts";
export type { AskModel, HitRate } from "./model-runs.ts";
