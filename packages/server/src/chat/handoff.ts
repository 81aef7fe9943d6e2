import { v7 as uuid } from "uuid";
import type { ChatStore, Handoff } from "../store/index.ts";
import { toModelCall, toModelMessages } from "./messages.ts";
import { calledIn, type ModelEndpoint, type ModelMessage, type ModelToolCall } from "./model.ts";
import { oneCallAtATime } from "./notices.ts";
import { failed, isSettled, isTool, type MessagePart } from "./turn.ts";

/** The member of a kept message that names its provider. */
const SAID_BY = "toolrack_provider";
const handedId = /^rack_([0-9a-f]{32})_(\d{1,4}|f)$/;

/** The id of a call in the older form, by that of its handoff: it is the only one that the client was handed. */
export function functionHandoffId(id: string): string {
  return `rack_${id}_f`;
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
  const asked = parts.filter(isTool).filter(({ round }) => round === last);
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
 * Undoes `handOver` wherever the client's messages name such ids: puts what only the rack has seen back in its place.
 * Those that nobody knows any more stay as they are. `provider`: who is told. `sessionID`: that of the calls, if any.
 */
export async function takeBack(
  messages: readonly ModelMessage[],
  { owner, provider }: { owner: string; provider: string },
  store: ChatStore,
): Promise<{ messages: ModelMessage[]; sessionID: string | undefined }> {
  const restored: ModelMessage[] = [];
  let sessionID: string | undefined;
  // Behind the last words of a person, the turn still goes on.
  const current = messages.findLastIndex(({ role }) => role === "user");
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    const reader = at > current ? provider : undefined;
    const handoff = await handoffOf(message, owner, store);
    if (handoff === undefined) {
      restored.push(message);
      continue;
    }
    sessionID = handoff.sessionId;
    const brought: ModelMessage[] = [];
    while (messages[at + 1]?.role === "tool") brought.push(messages[++at]!);
    restored.push(...restoredRound(handoff, brought, reader));
  }
  return { messages: restored, sessionID };
}

/** What was kept, with the answers that the client brings put among those of the rack. */
function restoredRound(
  { id, messages }: Handoff,
  brought: readonly ModelMessage[],
  reader: string | undefined,
): ModelMessage[] {
  // `handOver` has written them.
  const kept = (messages as readonly ModelMessage[]).map((message) => keptFor(message, reader));
  const at = kept.findLastIndex(({ tool_calls }) => tool_calls !== undefined);
  const asked = kept[at]?.tool_calls ?? [];
  const [known = [], images = []] = [true, false].map((isAnswer) =>
    kept.slice(at + 1).filter(({ role }) => (role === "tool") === isAnswer),
  );
  const answers = new Map(known.map((message) => [message.tool_call_id, message]));
  const others: ModelMessage[] = [];
  for (const message of brought) {
    const [, handoffId, place] = handedId.exec(message.tool_call_id ?? "") ?? [];
    // In the older form it is the only call that the rack did not answer.
    const found = place === "f" ? asked.find((call) => !answers.has(call.id)) : asked[Number(place)];
    if (handoffId !== id || found === undefined) others.push(message);
    else answers.set(found.id, { ...message, tool_call_id: found.id, name: calledIn(found).name });
  }
  // The model reads the answers in the order in which it asked. Images cannot stand between a call and its answer.
  const ordered = asked.flatMap((call) => answers.get(call.id) ?? []);
  return [...kept.slice(0, at + 1), ...ordered, ...others, ...images];
}

/** Only who said something is told again what belongs to it besides; see `Echo`. */
function keptFor(
  { [SAID_BY]: provider, ...message }: ModelMessage,
  reader: string | undefined,
): ModelMessage {
  const { role, content, refusal, tool_calls } = message;
  if (provider === reader || role !== "assistant") return message;
  const calls = tool_calls?.map(({ id, type, function: called, custom }): ModelToolCall => {
    return custom === undefined ? { id, type, function: called } : { id, type: "custom", custom };
  });
  // What is undefined is not sent.
  return { role, content, refusal, ...(calls && { tool_calls: calls }) };
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
