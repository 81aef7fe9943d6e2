export {
  acceptsStream,
  callerGone,
  eventText,
  json,
  jsonText,
  openEventStream,
  originOf,
  readBody,
  readQuery,
  refuseHead,
  sendError,
  sendText,
  setRequestId,
  whenGone,
  whileAwaited,
} from "./bodies.ts";
export {
  expertQuery,
  expertsOf,
  findExpert,
  misplaced,
  type Reach,
  reachOf,
  refuseRulePattern,
  refuseToolPattern,
  toolPattern,
} from "./body-rules.ts";
export { HttpError, type HttpErrorCode, httpErrorCodes } from "./errors.ts";
export type { Forwarder } from "./forward.ts";
export {
  type ExtensionParts,
  type HttpExtension,
  type Mount,
  Reply,
  type Route,
  type RouteRequest,
  routesFor,
  sent,
} from "./route.ts";
export * as s from "./schema.ts";

import type { Forwarder } from "./forward.ts";

/** Loaded only where several nodes share a database. */
export const openForwarder = async (...parts: ConstructorParameters<typeof Forwarder>): Promise<Forwarder> =>
  new (await import("./forward.ts")).Forwarder(...parts);
