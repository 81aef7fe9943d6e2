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
  readonly model: string;
  readonly parts: MessagePart[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
}

/** The store keeps plain JSON, which this service wrote. */
export function assistantBody({ body }: Pick<ChatMessage, "body">): AssistantBody {
  return body as unknown as AssistantBody;
}

export function userContent({ body }: Pick<ChatMessage, "body">): UserContent {
  return (body as { readonly content: UserContent }).content;
}

export function toHistory(messages: readonly ChatMessage[], takesImages: boolean): ModelMessage[] {
  return messages.flatMap((message) => {
    if (message.role === "user") return [{ role: "user" as const, content: userContent(message) }];
    return toModelMessages(assistantBody(message).parts, takesImages);
  });
}
