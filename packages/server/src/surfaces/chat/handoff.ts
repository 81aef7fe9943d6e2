import { v7 as uuid } from "uuid";
import type { ChatStore } from "../../store/chat/chat-store.ts";
import type { ModelMessage, ModelToolCall } from "./model/model-message.ts";
import { isTool, type MessagePart } from "./turn/message-part.ts";
import { toModelMessages } from "./turn/to-model-messages.ts";

const handedId = /^rack_([0-9a-f]{32})_(\d{1,4})$/;

/** A client's conversation with what only the rack has seen put back in its place. */
export interface RestoredHistory {
  readonly messages: ModelMessage[];
  /** The session of the calls in it, when there are any. */
  readonly sessionID: string | undefined;
}

/**
 * When a model asks in one answer for tools of the rack and of the client, the client is shown its own calls only, under
 * ids that lead back here. What the model asked for and was told so far is kept until the client comes back.
 */
export async function handOver(
  parts: readonly MessagePart[],
  { owner, sessionID, takesImages }: { owner: string; sessionID: string; takesImages: boolean },
  store: ChatStore,
): Promise<ModelToolCall[]> {
  const id = uuid().replaceAll("-", "");
  const last = parts.at(-1)?.round;
  const asked = parts.filter((part) => isTool(part) && part.round === last).filter(isTool);
  await store.addHandoff({ id, owner, sessionId: sessionID, messages: toModelMessages(parts, takesImages) });
  return asked.flatMap(({ client, name, arguments: written }, at) =>
    client ? [{ id: `rack_${id}_${at}`, type: "function", function: { name, arguments: written } }] : [],
  );
}

/** Undoes `handOver` wherever the client's messages name such ids. Those that nobody knows any more stay as they are. */
export async function takeBack(
  messages: readonly ModelMessage[],
  owner: string,
  store: ChatStore,
): Promise<RestoredHistory> {
  const restored: ModelMessage[] = [];
  const originals = new Map<string, string>();
  let sessionID: string | undefined;
  let images: readonly ModelMessage[] = [];
  for (const message of messages) {
    if (message.role !== "tool") {
      // Answers to calls stand right behind them; images follow.
      restored.push(...images);
      images = [];
    }
    const handoff = await handoffOf(message, owner, store);
    if (handoff === undefined) {
      const original = originals.get(message.tool_call_id ?? "");
      restored.push(original === undefined ? message : { ...message, tool_call_id: original });
      continue;
    }
    sessionID = handoff.sessionId;
    // It was written by `handOver`.
    const kept = handoff.messages as readonly ModelMessage[];
    const end = kept.findLastIndex(({ role }) => role !== "user") + 1;
    restored.push(...kept.slice(0, end));
    images = kept.slice(end);
    const asked = kept.findLast(({ tool_calls }) => tool_calls !== undefined)?.tool_calls ?? [];
    for (const [at, call] of asked.entries()) originals.set(`rack_${handoff.id}_${at}`, call.id);
  }
  return { messages: [...restored, ...images], sessionID };
}

async function handoffOf({ role, tool_calls }: ModelMessage, owner: string, store: ChatStore) {
  if (role !== "assistant" || !Array.isArray(tool_calls)) return undefined;
  const ids = tool_calls.map(({ id }) => handedId.exec(String(id))?.[1]);
  const id = ids.find((found) => found !== undefined);
  return id === undefined ? undefined : store.getHandoff(id, owner);
}
