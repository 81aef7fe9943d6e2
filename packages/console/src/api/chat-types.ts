import type { Attachment, LoopVerdict } from "./types.ts";

/** What the HTTP API says of conversations, as far as the console reads it. */

/** Whether there is a model to talk to. `advice` says how to configure one, when there is none. */
export interface ChatInfo {
  readonly configured: boolean;
  readonly advice?: string;
}

export interface ChatSession {
  readonly id: string;
  readonly title: string;
  /** Empty for the usual one. */
  readonly model: string;
  readonly expert?: string;
  /** The id of the token that it belongs to. Nobody else says anything in it. */
  readonly owner: string;
  readonly updatedAt: number;
  readonly running: boolean;
}

export interface ChatSessionDetail extends ChatSession {
  /** The last ones, oldest first. */
  readonly messages: readonly ChatMessage[];
  /** What to ask for as `before`, where there are older ones. */
  readonly previous?: number;
}

export type ChatMessageStatus = "running" | "completed" | "stopped" | "interrupted" | "error";

export interface ChatMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly status: ChatMessageStatus;
  /** Of a user's message: text, or parts as Chat Completions has them. */
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[];
  readonly model?: string;
  /** Too large to be read: its bytes. */
  readonly unread?: number;
  /** Of an answer. */
  readonly parts?: readonly ChatPart[];
  readonly usage?: ChatUsage;
  readonly end?: ChatEnd;
}

export interface ChatUsage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly total_tokens?: number;
}

export interface ChatEnd {
  readonly reason: string;
  readonly message?: string;
  readonly code?: string;
}

export type ChatPart = ChatTextPart | ChatToolPart;

export interface ChatTextPart {
  readonly type: "text" | "reasoning" | "refusal";
  readonly text: string;
}

export interface ChatToolPart {
  readonly type: "tool";
  /** The model's id of the call. */
  readonly id: string;
  /** The rack's, by which its record is found. */
  readonly callId: string;
  readonly name: string;
  readonly displayName: string;
  /** As the model wrote them. */
  readonly arguments: string;
  readonly state: ChatToolState;
  /** What the tool said last, while it runs. */
  readonly progress?: { readonly progress?: number; readonly total?: number; readonly message?: string };
  /** What the loop guard said of it. */
  readonly loop?: LoopVerdict;
}

export interface ChatToolState {
  readonly status: "pending" | "running" | "completed" | "error";
  readonly title?: string;
  readonly output?: string;
  readonly error?: string;
  readonly attachments?: readonly Attachment[];
  readonly time?: { readonly start: number; readonly end?: number };
}

/** Which tools a model would be offered, and what they take of its window. */
export interface ChatTools {
  readonly budget: number;
  readonly tokens: number;
  readonly tools: readonly { readonly name: string; readonly tokens: number; readonly offered: boolean }[];
}
