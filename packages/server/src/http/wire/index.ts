export {
  callerGone,
  json,
  jsonText,
  originOf,
  readBody,
  readQuery,
  sendError,
  sendText,
  whenGone,
} from "./bodies.ts";
export { HttpError, type HttpErrorCode, httpErrorCodes } from "./errors.ts";
export { eventText, openEventStream } from "./event-stream.ts";
export {
  blameCursor,
  expertQuery,
  findExpert,
  type Reach,
  reachOf,
  refuseRulePattern,
  refuseToolPattern,
  toolPattern,
} from "./requested.ts";
export {
  defineRoute,
  type ExtensionParts,
  type HttpExtension,
  type Mount,
  type Reply,
  type Route,
  type RouteRequest,
} from "./route.ts";
