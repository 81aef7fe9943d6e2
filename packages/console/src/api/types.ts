import type { CallFlags } from "@toolrack/core";
import type * as Document from "./generated-types.ts";
import type { Call, CallSummary } from "./generated-types.ts";

/**
 * The answers of the HTTP API, as the server describes them. The types below replace or add to some of them.
 */
export type * from "./generated-types.ts";

/** The members that a call has both in a list and when it is read alone. */
export type CallFacts = Pick<Call, keyof Call & keyof CallSummary>;
export type CallStatus = Call["status"];
export type CallLine = NonNullable<Call["log"]>[number];
export type LoopVerdict = NonNullable<CallFlags["loop"]>;

export interface CallAnswer extends Document.CallAnswer {
  /** Length of the whole result, set by the console when `result` may be only its beginning. */
  readonly resultSize?: number;
}

export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

/** A tool call in a chat answer, with its progress and its loop from the events of the chat turn. */
export interface ChatToolPart extends Document.ChatToolPart {
  readonly progress?: CallProgress;
  readonly loop?: LoopVerdict;
}
export type ChatPart = Document.ChatTextPart | ChatToolPart;

type SentMessage = Omit<Document.ChatMessage, "parts">;

/** A chat message from the server, or one that the console shows before the server has sent its record. */
export type ChatMessage = Pick<SentMessage, "id" | "role" | "status"> &
  Partial<SentMessage> & { readonly parts?: readonly ChatPart[] };
