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
  let sessionID: string | undefined;
  let round: HandedRound | undefined;
  for (const message of messages) {
    if (message.role === "tool" && round !== undefined) {
      round.answer(message);
      continue;
    }
    restored.push(...(round?.messages() ?? []));
    round = undefined;
    const handoff = await handoffOf(message, owner, store);
    if (handoff === undefined) {
      restored.push(message);
      continue;
    }
    sessionID = handoff.sessionId;
    // It was written by `handOver`.
    round = new HandedRound(handoff.id, handoff.messages as readonly ModelMessage[]);
  }
  return { messages: [...restored, ...(round?.messages() ?? [])], sessionID };
}

/** What was kept, with the answers that the client brings put among those of the rack. */
class HandedRound {
  readonly #id: string;
  /** Up to the last time that the model asked for calls. */
  readonly #before: readonly ModelMessage[];
  /** Images cannot stand between a call and its answer. */
  readonly #images: readonly ModelMessage[];
  readonly #asked: readonly ModelToolCall[];
  readonly #answers = new Map<string, ModelMessage>();
  readonly #others: ModelMessage[] = [];

  constructor(id: string, kept: readonly ModelMessage[]) {
    this.#id = id;
    const at = kept.findLastIndex(({ tool_calls }) => tool_calls !== undefined);
    this.#before = kept.slice(0, at + 1);
    this.#asked = kept[at]?.tool_calls ?? [];
    const after = kept.slice(at + 1);
    this.#images = after.filter(({ role }) => role !== "tool");
    for (const message of after)
      if (message.role === "tool") this.#answers.set(message.tool_call_id!, message);
  }

  answer(message: ModelMessage): void {
    const [, id, at] = handedId.exec(message.tool_call_id ?? "") ?? [];
    const call = id === this.#id ? this.#asked[Number(at)] : undefined;
    if (call === undefined) this.#others.push(message);
    else this.#answers.set(call.id, { ...message, tool_call_id: call.id, name: call.function.name });
  }

  /** The model reads the answers in the order in which it asked. */
  messages(): ModelMessage[] {
    const answers = this.#asked.flatMap(({ id }) => this.#answers.get(id) ?? []);
    return [...this.#before, ...answers, ...this.#others, ...this.#images];
  }
}

async function handoffOf({ role, tool_calls }: ModelMessage, owner: string, store: ChatStore) {
  if (role !== "assistant" || !Array.isArray(tool_calls)) return undefined;
  const ids = tool_calls.map(({ id }) => handedId.exec(String(id))?.[1]);
  const id = ids.find((found) => found !== undefined);
  return id === undefined ? undefined : store.getHandoff(id, owner);
}
