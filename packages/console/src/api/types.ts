import type { CallFlags, ToolResult } from "@toolrack/core";
import type * as Document from "./generated-types.ts";
import type { Call, CallSummary } from "./generated-types.ts";

/** What the HTTP API answers, in the console's words. The shapes are the server's own; those below replace some. */
export type * from "./generated-types.ts";

/** The members that running and finished calls have, in lists and alone. */
export type CallFacts = Pick<Call, keyof Call & keyof CallSummary>;
export type CallStatus = Call["status"];
export type CallLine = NonNullable<Call["log"]>[number];
export type LoopVerdict = NonNullable<CallFlags["loop"]>;

export interface CallAnswer extends Omit<Document.CallAnswer, "result"> {
  readonly result: ToolResult;
  /** Set by the console when the result is only a beginning. */
  readonly resultSize?: number;
}

export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

export type SkillFile = Document.Skill["files"][number];
export type SkillToolType = Document.SkillTool["type"];

/** A tool of a skill to save or to try. `null` removes a field. */
export interface SkillToolDraft {
  readonly name: string;
  readonly type: SkillToolType;
  readonly displayName: string | null;
  readonly description: string;
  readonly usage: unknown;
  readonly command: string | null;
  readonly endpoint: string | null;
  readonly method: string | null;
  readonly enabled: boolean;
}

/** A call in an answer, with the state from the events of its turn. */
export interface ChatToolPart extends Document.ChatToolPart {
  readonly progress?: CallProgress;
  readonly loop?: LoopVerdict;
}
export type ChatPart = Document.ChatTextPart | ChatToolPart;

type SentMessage = Omit<Document.ChatMessage, "parts">;

/** A message of the server, or one in progress that has no id yet. */
export type ChatMessage = Pick<SentMessage, "id" | "role" | "status"> &
  Partial<SentMessage> & { readonly parts?: readonly ChatPart[] };
