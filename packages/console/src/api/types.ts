import type { CallFlags, ToolResult } from "@toolrack/core";
import type * as Document from "./generated-types.ts";
import type { Call, CallSummary } from "./generated-types.ts";

/** What the HTTP API answers, in the console's words. The shapes are the server's own; see `generated-types.ts`. */

/** What a call under way and one that has ended, in a list or alone, have in common. */
export type CallFacts = Pick<Call, keyof Call & keyof CallSummary>;
export type CallStatus = Call["status"];
export type CallLine = NonNullable<Call["log"]>[number];
export type LoopVerdict = NonNullable<CallFlags["loop"]>;

export interface CallAnswer extends Omit<Document.CallAnswer, "result"> {
  readonly result: ToolResult;
  /** Set by the console when the result is only the beginning of the whole. */
  readonly resultSize?: number;
}

export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

export type SkillFile = Document.Skill["files"][number];
export type SkillToolType = Document.SkillTool["type"];

/** A tool of a skill as it is saved and tried. `null` takes a field away. */
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

/** A call in an answer, with what the events of its turn said of it. */
export interface ChatToolPart extends Document.ChatToolPart {
  readonly progress?: CallProgress;
  readonly loop?: LoopVerdict;
}
export type ChatPart = Document.ChatTextPart | ChatToolPart;

type SentMessage = Omit<Document.ChatMessage, "parts">;

/** A message as the server has it, or one that is being written and that the server has not named yet. */
export type ChatMessage = Pick<SentMessage, "id" | "role" | "status"> &
  Partial<SentMessage> & { readonly parts?: readonly ChatPart[] };
