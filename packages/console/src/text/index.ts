export { estimateTokens, namedCaller, parseJson as jsonIn, sameJson } from "@toolrack/core/internal";
export { isRecord } from "@toolrack/core/internal/schema";
export { copyText, keep, kept, saveFile } from "./browser.ts";
export { asJson, isExact, jsonProblem, mendJson, type ParsedJson, parseJson, withoutFences } from "./json.ts";
export { lineDiff, localMoment, programLine, shellWord, shellWords, withOffset } from "./wording.ts";
