export { estimateTokens, namedCaller, parseJson as jsonIn, sameJson } from "@toolrack/core/internal";
export { isRecord } from "@toolrack/core/internal/schema";
export { copyText, keep, kept, saveFile } from "./browser.ts";
export {
  formatAgo,
  formatBytes,
  formatCost,
  formatDuration,
  formatMoment,
  formatNumber,
  formatPercent,
  momentLabels,
  timeOf,
} from "./format.ts";
export { choicesOf, i18n, language, languages, preferredLanguage, setLanguage, t, te } from "./i18n.ts";
export { asJson, isExact, jsonProblem, mendJson, type ParsedJson, parseJson, withoutFences } from "./json.ts";
export {
  type CodedError,
  callErrorText,
  fileFailureText,
  findingText,
  isolationText,
  issueText,
  refusalText,
  serverReasonText,
  skillReasonText,
  toolFailureText,
} from "./server-texts.ts";
export { lineDiff, localMoment, programLine, shellWord, shellWords, withOffset } from "./wording.ts";
