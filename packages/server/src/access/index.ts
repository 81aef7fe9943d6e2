export { type GuardedWrite, guardWrite, type WritingCall } from "./guarded-write.ts";
export {
  isPrivateTwin,
  ownFolders,
  type PowerPlaces,
  powerJudge,
  powerOf,
  privatePaths,
  realRoots,
} from "./power-files.ts";
export { foldPath, isInside, realPathOf } from "./real-path.ts";
export { serversIn, Unapproved } from "./unapproved.ts";
