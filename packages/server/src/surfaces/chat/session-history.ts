import type { ChatMessage, ChatSession } from "../../store/chat/chat-store.ts";
import { assistantBody, userContent } from "./chat-message-body.ts";
import { type ModelMessage, textOf } from "./model/model-message.ts";
import type { ChatReach } from "./tools/reach.ts";
import { isTool } from "./turn/message-part.ts";

/** What a model is told before everything else. */
export function instructions({ state }: ChatSession, { expert }: ChatReach): ModelMessage[] {
  const said = [expert?.instructions, state.system].filter((text) => text !== undefined && text !== "");
  return said.length === 0 ? [] : [{ role: "system", content: said.join("\n\n") }];
}

/** What a conversation is about is what it began with: the choice of tools must not change with every message. */
export function firstWords(messages: readonly ChatMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf({ content: userContent(first) });
}

/** The rack's ids of the calls, by the model's. */
export function callIdsOf(messages: readonly ChatMessage[]): Map<string, string> {
  const answers = messages.filter(({ role }) => role === "assistant");
  const calls = answers.flatMap((message) => assistantBody(message).parts.filter(isTool));
  return new Map(calls.map(({ id, callId }) => [id, callId]));
}
