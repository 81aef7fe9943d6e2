export type { JsonSchema, ToolResult } from "@toolrack/core";
export { ApiError } from "./api-error.ts";
export {
  type CallWatcher,
  findAnswer,
  isUnderWay,
  newId,
  readCall,
  runTool,
  startReplay,
  tryTool,
} from "./calls.ts";
export { eventStream, type RackEvent, readEvents, resumeAfter, useEvents } from "./events.ts";
export {
  type Asked,
  type ItemsOf,
  type ListRoute,
  open,
  readPages,
  request,
  unlessForbidden,
} from "./request.ts";
export { currentSession, followOtherTabs, openSession, signIn, signOut } from "./session.ts";
export { type RackStatistics, readStatistics } from "./statistics.ts";
export type * from "./types.ts";
