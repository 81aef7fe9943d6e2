export {
  type Answer,
  type Answered,
  type Approver,
  approvalMark,
  ForbiddenAnswer,
  resumeCall,
  UnfitAnswer,
} from "./approvals/answers.ts";
export { ApprovalInbox, INBOX, ownServer, RESUMED } from "./approvals/inbox.ts";
export { verdictByRules } from "./approvals/rules.ts";
export { shownArguments } from "./approvals/shown-arguments.ts";
export {
  type AnnouncedCall,
  CallBook,
  type CallFollower,
  type CallHandover,
  type ClientConnection,
  callerHeaders,
  type LiveCall,
  type LogEvent,
  newCallId,
  type Origin,
  operatorOrigin,
} from "./call-book.ts";
export {
  CallRefused,
  type CallRequest,
  CallService,
  type Calls,
  type EndedCall,
  openCalls,
  parseToolReference,
  unknownTool,
} from "./call-service.ts";
export type { InternalTool, InternalToolContext } from "./internal-tool.ts";
export {
  CallLog,
  type CallLogOptions,
  callLines,
  knownSecrets,
  LineGatherer,
  type LogLine,
  toLogLine,
} from "./log.ts";
export { type LogQuery, matcher, parse, readLog } from "./log-reader.ts";
export { type Loop, Loops, loopKey } from "./loops.ts";
export {
  calledTool,
  callToolName,
  declaredTool,
  describeToolName,
  isHelperTool,
  isMetaTool,
  isOffered,
  isReservedName,
  type MetaToolSettings,
  metaToolSettings,
  metaTools,
  metaToolsFor,
  onlyForCode,
  readResultName,
  reservedNameReason,
  runToolName,
  searchToolName,
  serverLines,
  shownTools,
  unknownToolText,
} from "./meta-tools.ts";
export {
  type CompletionAnswer,
  type CompletionRequest,
  isReservedFrom,
  type OfferedDirectory,
  type OfferedPrompt,
  type OfferedResource,
  type OfferedSkill,
  type OfferedTemplate,
  type OfferingChange,
  type OfferingReader,
  type OfferingSource,
  type PromptAnswer,
  type ResourceAnswer,
} from "./offering-source.ts";
export { Offerings } from "./offerings.ts";
export { type PastSearch, PastSearches } from "./past-searches.ts";
export {
  identityOf,
  problemOfCircle,
  problemOfOwnEntry,
  problemOfStart,
  RACKS,
  type RackIdentity,
  racksFor,
  racksKey,
  readRacks,
} from "./rack-identity.ts";
export { CallRecorder } from "./recorder.ts";
export { previewTiming, timesFrom } from "./schedule-timing.ts";
export { importTasks, openSchedules, type Schedules, scheduleTool } from "./schedule-tool.ts";
export { creatorOfGrant, maySee, SCHEDULE_TOOL, scheduleView, visibleSchedules } from "./schedules.ts";
export { SearchMemory } from "./search-memory.ts";
export { bestFit, isUsableTemplate, matchUriTemplate, parseUriTemplate } from "./uri-templates.ts";
