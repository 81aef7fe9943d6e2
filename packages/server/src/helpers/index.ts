export { isRecord } from "@toolrack/core/internal/schema";
export { compileGlob, globPattern } from "./glob.ts";
export { brokeBetween, openAgent } from "./http-agent.ts";
export { parseJsonc, parseJsoncTree } from "./jsonc.ts";
export { type LineHandler, LineSplitter } from "./lines.ts";
export { copyModeAndOwner, makeOwnFile, makeOwnFolder, readOwnFile, replaceFile } from "./private-files.ts";
export { ProcessGroup, type ProcessStat, processIds, processStat } from "./processes.ts";
export { productVersion } from "./product-version.ts";
export { StackMapper } from "./stack-mapper.ts";
export {
  amount,
  asRecord,
  type CodedReason,
  DependencyError,
  defined,
  headOfLongMessage,
  inSlices,
  LoadError,
  type LoadFailure,
  PassingMap,
  parsedJson,
  plainHost,
  type ReasonDetails,
  RecentMap,
  reasonOf,
  shellQuote,
  tidySum,
  toStorableText,
  unlessAborted,
  whenAborted,
  whereOf,
} from "./values.ts";
export { watchFile, watchFiles } from "./watch.ts";
