import type { ChatMessage } from "../../store/chat/chat-store.ts";
import type { ModelUsage } from "./model/completion-chunk.ts";
import type { ModelContentPart, ModelMessage } from "./model/model-message.ts";
import type { MessagePart } from "./turn/message-part.ts";
import { toModelMessages } from "./turn/to-model-messages.ts";
import type { TurnEnd } from "./turn/turn-event.ts";

/** What a person says: text, or text and images as Chat Completions has them. */
export type UserContent = string | readonly ModelContentPart[];

/** What the store keeps of an answer. */
export interface AssistantBody {
  /** The provider that was asked, and what it calls the model. */
  readonly provider?: string;
  readonly model: string;
  readonly parts: MessagePart[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
}

/** The store keeps plain JSON, which this service wrote. */
export function assistantBody(message: Pick<ChatMessage, "body" | "unread">): AssistantBody {
  if (message.unread === undefined) return message.body as unknown as AssistantBody;
  return { model: "", parts: [{ type: "text", round: 1, text: tooLarge(message.unread) }] };
}

export function userContent(message: Pick<ChatMessage, "body" | "unread">): UserContent {
  if (message.unread === undefined) return (message.body as { readonly content: UserContent }).content;
  return tooLarge(message.unread);
}

/** The body, or what stands in the place of one that is too large to be read. */
export function bodyOf(message: ChatMessage): Readonly<Record<string, unknown>> {
  if (message.unread === undefined) return message.body;
  return message.role === "user" ? { content: userContent(message) } : { ...assistantBody(message) };
}

const tooLarge = (octets: number): string =>
  `[This message is too large to be read: it takes ${Math.round(octets / 1_000_000)} MB.]`;

export function toHistory(messages: readonly ChatMessage[], takesImages: boolean): ModelMessage[] {
  return messages.flatMap((message) => {
    if (message.role === "user") return [{ role: "user" as const, content: userContent(message) }];
    return toModelMessages(assistantBody(message).parts, takesImages);
  });
}
