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
