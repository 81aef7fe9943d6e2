export { copyText, keep, kept, saveFile } from "./browser.ts";
export {
  isExact,
  isRecord,
  jsonProblem,
  mendJson,
  type ParsedJson,
  parseJson,
  sameJson,
  withoutFences,
} from "./json.ts";
export { estimateTokens, lineDiff, programLine, shellWord, shellWords } from "./wording.ts";
