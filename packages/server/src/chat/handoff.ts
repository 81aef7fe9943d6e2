import { v7 as uuid } from "uuid";
import type { ChatStore, Handoff } from "../store/index.ts";
import { toModelCall, toModelMessages } from "./messages.ts";
import { calledIn, type ModelMessage, type ModelToolCall } from "./model.ts";
import { oneCallAtATime } from "./notices.ts";
import type { ModelEndpoint } from "./provider.ts";
import { failed, isSettled, isTool, type MessagePart } from "./turn.ts";

/** The member of a kept message that names its provider. */
const SAID_BY = "toolrack_provider";
const handedId = /^rack_([0-9a-f]{32})_(\d{1,4}|f)$/;

/** The id of a call in the older form, by that of its handoff: it is the only one that the client was handed. */
export function functionHandoffId(id: string): string {
  return `rack_${id}_f`;
}

/** A client's conversation with what only the rack has seen put back in its place. */
export interface RestoredHistory {
  readonly messages: ModelMessage[];
  /** The session of the calls in it, when there are any. */
  readonly sessionID: string | undefined;
}

export interface HandoverOptions {
  readonly owner: string;
  readonly sessionID: string;
  readonly endpoint: ModelEndpoint;
  /** Of a client that runs one call at a time and knows no ids; see `fromFunctions`. */
  readonly handoffId?: ((call: { readonly name: string; readonly arguments: string }) => string) | undefined;
}

/**
 * When a model asks in one answer for tools of the rack and of the client, the client is shown its own calls only, under
 * ids that lead back here. What the model asked for and was told so far is kept until the client comes back.
 */
export async function handOver(
  parts: readonly MessagePart[],
  { owner, sessionID, endpoint, handoffId }: HandoverOptions,
  store: ChatStore,
): Promise<ModelToolCall[]> {
  const last = parts.at(-1)?.round;
  const asked = parts.filter((part) => isTool(part) && part.round === last).filter(isTool);
  const [first, ...others] = asked.filter((part) => part.client && !isSettled(part));
  const id = (first && handoffId?.(first)) ?? uuid().replaceAll("-", "");
  if (handoffId !== undefined)
    for (const part of others) part.state = failed(part, oneCallAtATime(part.name));
  const { images, provider } = endpoint;
  const messages = toModelMessages(parts, images, provider).map((message) => ({
    ...message,
    [SAID_BY]: provider,
  }));
  // Of conversations that went the same way nobody can tell which one comes back: the latest is the likeliest.
  await store.addHandoff({ id, owner, sessionId: sessionID, messages });
  return asked.flatMap((part, at) =>
    part.client && !isSettled(part) ? [toModelCall({ ...part, id: `rack_${id}_${at}` })] : [],
  );
}

/**
 * Undoes `handOver` wherever the client's messages name such ids. Those that nobody knows any more stay as they are.
 * `provider`: who is told.
 */
export async function takeBack(
  messages: readonly ModelMessage[],
  { owner, provider }: { owner: string; provider: string },
  store: ChatStore,
): Promise<RestoredHistory> {
  const restored: ModelMessage[] = [];
  let sessionID: string | undefined;
  let round: HandedRound | undefined;
  // Behind the last words of a person, the turn still goes on.
  const current = messages.findLastIndex(({ role }) => role === "user");
  for (const [at, message] of messages.entries()) {
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
    const kept = handoff.messages as readonly ModelMessage[];
    const reader = at > current ? provider : undefined;
    const told = kept.map((one) => keptFor(one, reader));
    round = new HandedRound(handoff.id, told);
  }
  return { messages: [...restored, ...(round?.messages() ?? [])], sessionID };
}

/** Only who said something is told again what belongs to it besides; see `Echo`. */
function keptFor(
  { [SAID_BY]: provider, ...message }: ModelMessage,
  reader: string | undefined,
): ModelMessage {
  const { role, content, refusal, tool_calls } = message;
  if (provider === reader || role !== "assistant") return message;
  const calls = tool_calls?.map(bareCall);
  return {
    role,
    ...(content === undefined ? {} : { content }),
    ...(refusal === undefined ? {} : { refusal }),
    ...(calls === undefined ? {} : { tool_calls: calls }),
  };
}

function bareCall(call: ModelToolCall): ModelToolCall {
  if (call.custom !== undefined) return { id: call.id, type: call.type, custom: call.custom };
  return { id: call.id, type: call.type, function: call.function };
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
    const call = id === this.#id ? this.#handed(at) : undefined;
    if (call === undefined) this.#others.push(message);
    else this.#answers.set(call.id, { ...message, tool_call_id: call.id, name: calledIn(call).name });
  }

  #handed(at: string | undefined): ModelToolCall | undefined {
    // The only one that the rack did not answer.
    if (at === "f") return this.#asked.find(({ id }) => !this.#answers.has(id));
    return this.#asked[Number(at)];
  }

  /** The model reads the answers in the order in which it asked. */
  messages(): ModelMessage[] {
    const answers = this.#asked.flatMap(({ id }) => this.#answers.get(id) ?? []);
    return [...this.#before, ...answers, ...this.#others, ...this.#images];
  }
}

async function handoffOf(
  { role, tool_calls }: ModelMessage,
  owner: string,
  store: ChatStore,
): Promise<Handoff | undefined> {
  if (role !== "assistant" || !Array.isArray(tool_calls)) return undefined;
  const ids = tool_calls.map(({ id }) => handedId.exec(String(id))?.[1]);
  const id = ids.find((found) => found !== undefined);
  if (id === undefined) return undefined;
  return store.getHandoff(id, owner);
}
