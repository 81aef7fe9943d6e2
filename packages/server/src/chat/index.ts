export { ActiveTurn } from "./active-turns.ts";
export { readSse } from "./answer-reader.ts";
export { ChatService, type NewMessage } from "./chat-service.ts";
export type { ModelUsage } from "./model.ts";
export { addUsage, noUsage } from "./model.ts";
export { Providers } from "./providers.ts";
export { chatExtension } from "./routes/completions.ts";
export { type OfferedTools, readResultTool, type ToolSelection, ToolsService } from "./tools.ts";
export { type TrialOutcome, Trials } from "./trial.ts";
export {
  type FeedEntry,
  type MessagePart,
  type ShownApproval,
  type TextPart,
  type ToolPart,
  type TurnEnd,
  type TurnEvent,
  TurnFeed,
} from "./turn.ts";
