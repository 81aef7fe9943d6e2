import type { ChatMessage, ChatPart, ChatTextPart, ChatToolPart } from "../../api/chat-types.ts";

/** Something that happened in a turn: the name of the event, and what it carries. */
export interface TurnEvent {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * An answer after something happened in its turn. Events that change nothing in it give the same message back. The
 * shapes of what events carry are the server's, which `GET /openapi.json` and its own tests hold.
 */
export function applyEvent(message: ChatMessage, { type, data }: TurnEvent): ChatMessage {
  switch (type) {
    case "turn":
      return { ...message, id: String(data.messageId) };
    case "message":
      return data as unknown as ChatMessage;
    case "text":
    case "reasoning":
    case "refusal":
      return { ...message, parts: appended(message.parts ?? [], type, String(data.text ?? "")) };
    case "call": {
      const { id, callId, name, displayName, arguments: args } = data as unknown as ChatToolPart;
      const part: ChatToolPart = {
        type: "tool",
        id,
        callId,
        name,
        displayName,
        arguments: args,
        state: { status: "pending" },
      };
      return { ...message, parts: [...(message.parts ?? []), part] };
    }
    case "state":
      return changed(message, data.callId, { state: data.state as ChatToolPart["state"] });
    case "progress":
      return changed(message, data.callId, {
        progress: data.update as NonNullable<ChatToolPart["progress"]>,
      });
    case "loop":
      return changed(message, data.callId, { loop: data.verdict as NonNullable<ChatToolPart["loop"]> });
    case "usage":
      return { ...message, usage: data.total as NonNullable<ChatMessage["usage"]> };
    case "end":
      return ended(message, data.end as ChatMessage["end"]);
    default:
      return message;
  }
}

function appended(parts: readonly ChatPart[], type: ChatTextPart["type"], text: string): readonly ChatPart[] {
  const last = parts.at(-1);
  if (last?.type !== type) return [...parts, { type, text }];
  // Only a part of texts has a type that a text event has.
  return [...parts.slice(0, -1), { type, text: (last as ChatTextPart).text + text }];
}

function changed(message: ChatMessage, callId: unknown, change: Partial<ChatToolPart>): ChatMessage {
  const parts = (message.parts ?? []).map((part) =>
    part.type === "tool" && part.callId === callId ? { ...part, ...change } : part,
  );
  return { ...message, parts };
}

function ended(message: ChatMessage, end: ChatMessage["end"]): ChatMessage {
  const { reason = "stop" } = end ?? {};
  const status =
    reason === "error" || reason === "stopped" || reason === "interrupted" ? reason : "completed";
  return { ...message, status, ...(end === undefined ? {} : { end }) };
}
