// For the server and the console only: not part of the public entry, and free to change.

export { limitTime, logLine, waitingForTurn, whenAborted } from "./call/context.ts";
export { handOver, linkedClient } from "./call/dispatch.ts";
export { namedCaller } from "./call/events.ts";
export { Mask } from "./call/mask.ts";
export { MaskStream } from "./call/mask-stream.ts";
export { isSecretName, redact } from "./call/redact.ts";
export { hasParts } from "./call/stages/admission.ts";
export { toolErrorReference } from "./error/codes.ts";
export { revivedError } from "./error/tool-error.ts";
export { declarationSteps } from "./format/declarations.ts";
export { inEnvelope } from "./format/openai.ts";
export { readTagText } from "./format/tag-calls.ts";
export { definitionTokens, estimateTokens, tokenShare } from "./format/tokens.ts";
export { firstSentence, toSignatures } from "./format/tool-signature.ts";
export { definitionOf, fileLine, mayBeCalledBy } from "./format/tools.ts";
export { type RecalledCall, recallCalls } from "./loop/records.ts";
export { schemaText } from "./registry/search/search-document.ts";
export { STOP_WORDS, searchTerms, splitWords, tokenize } from "./registry/search/tokenize.ts";
export { ToolIndex } from "./registry/search/tool-index.ts";
export { jsonSchemaFlaws, type SchemaFlaw } from "./schema/check-json-schema.ts";
export { tooMuchJson } from "./schema/copy.ts";
export { hashValue } from "./schema/hash.ts";
export { parseJson, safeJson, sameJson } from "./schema/json.ts";
export { loadLinearPatterns, type Pattern, toPattern } from "./schema/pattern.ts";
export { metadataProblem, misplacedMetadata } from "./tool/define.ts";
export { canonicalName, isCanonicalName, nearestNames } from "./tool/name.ts";
export { returnedError } from "./tool/to-result.ts";
