import { v7 as uuid } from "uuid";
import type { ChatStore, Handoff } from "../store/index.ts";
import { toModelMessages } from "./messages.ts";
import { calledIn, type ModelEndpoint, type ModelMessage, type ModelToolCall, newCall } from "./model.ts";
import { notAnswered, oneCallAtATime } from "./model-messages.ts";
import { type ResponseItem, readOutput } from "./response-items.ts";
import { failed, isSettled, isTool, type MessagePart, type ToolPart, type Turn } from "./turn.ts";

/** Member of a stored message with the name of the provider whose model wrote it. */
const SAID_BY = "toolrack_provider";
const handedId = /^rack_([0-9a-f]{32})_(\d{1,4}|f)$/;

/** The id of a call in the older `function_call` form. A handoff has only one such call. */
export function functionHandoffId(id: string): string {
  return `rack_${id}_f`;
}

interface HandoverOptions {
  readonly owner: string;
  readonly sessionID: string;
  readonly endpoint: ModelEndpoint;
  readonly handoffId: Turn["handoffId"];
}

/**
 * Stores the messages of the turn so far, and returns the calls that the client must run, under ids that
 * point to this handoff. The client is sent only these calls, even when the same answer of the model also
 * called tools of the rack.
 */
export async function handOver(
  parts: readonly MessagePart[],
  { owner, sessionID, endpoint, handoffId = uuid().replaceAll("-", "") }: HandoverOptions,
  store: ChatStore,
): Promise<ModelToolCall[]> {
  const [first, ...others] = lastCalls(parts).filter((part) => part.client && !isSettled(part));
  const isFunctions = typeof handoffId === "function";
  if (isFunctions) for (const part of others) part.state = failed(part, oneCallAtATime(part.name));
  // A turn hands over at least one call.
  const id = isFunctions ? handoffId(first!) : handoffId;
  const { images, provider } = endpoint;
  const said = toModelMessages(parts, images, provider);
  const messages = said.map((message) => ({ ...message, [SAID_BY]: provider }));
  // In the older form identical conversations share an id; the latest handoff replaces the earlier one.
  await store.addHandoff({ id, owner, sessionId: sessionID, messages });
  return handedCalls(parts, id);
}

/** The calls of an answer that the client must run. `id`: of the handoff. */
export function handedCalls(parts: readonly MessagePart[], id: string): ModelToolCall[] {
  return lastCalls(parts).flatMap((part, at) => {
    const { name, arguments: written, kind, client } = part;
    return client && !isSettled(part) ? [newCall(name, written, kind, `rack_${id}_${at}`)] : [];
  });
}

/** The id of the handoff that a call belongs to; undefined for a call that was not handed over. */
export function handedFrom(callId: unknown): string | undefined {
  return handedId.exec(String(callId))?.[1];
}

/**
 * The parts of an answer with the outputs that the client brought for its calls. A call without one has failed, because
 * providers refuse a call without an answer.
 */
export function answered(
  parts: readonly MessagePart[],
  id: string,
  outputs: readonly ResponseItem[],
): MessagePart[] {
  const asked = lastCalls(parts);
  return parts.map((part) => {
    if (!isTool(part) || !part.client || isSettled(part)) return part;
    const callId = `rack_${id}_${asked.indexOf(part)}`;
    const output = outputs.find((item) => item.call_id === callId);
    if (output === undefined) return { ...part, state: failed(part, notAnswered) };
    const { text, images } = readOutput(output);
    const attachments = images.map((url) => ({ type: "file", mime: "image/*", url }) as const);
    const time = { start: 0, end: 0 };
    const more = attachments.length === 0 ? {} : { attachments };
    return { ...part, state: { status: "completed", input: part.state.input, output: text, ...more, time } };
  });
}

/** The calls of the model's last message. */
function lastCalls(parts: readonly MessagePart[]): ToolPart[] {
  const last = parts.at(-1)?.round;
  return parts.filter(isTool).filter(({ round }) => round === last);
}

/**
 * Undoes `handOver`: replaces messages whose calls have handoff ids by the stored messages. Messages with
 * unknown ids stay as they are. `provider`: the provider that will read the messages. In the result,
 * `sessionID` is the session of the last handoff that was found, if any.
 */
export async function takeBack(
  messages: readonly ModelMessage[],
  { owner, provider }: { owner: string; provider: string },
  store: ChatStore,
): Promise<{ messages: ModelMessage[]; sessionID: string | undefined }> {
  const restored: ModelMessage[] = [];
  let sessionID: string | undefined;
  // The current turn follows the last user message. Only there does the provider need its extra members.
  const current = messages.findLastIndex(({ role }) => role === "user");
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    const reader = at > current ? provider : undefined;
    const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
    const id = calls.map((call) => handedId.exec(call.id)?.[1]).find((found) => found !== undefined);
    const handoff = id && (await store.getHandoff(id, owner));
    if (!handoff) {
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

/**
 * The stored messages, with the client's answers to its calls put among those of the rack. `brought`: the
 * `tool` messages of the client. `reader`: the provider that gets its extra members back.
 */
function restoredRound(
  { id, messages }: Handoff,
  brought: readonly ModelMessage[],
  reader: string | undefined,
): ModelMessage[] {
  // `handOver` stored the messages in this form.
  const kept = (messages as readonly ModelMessage[]).map((message) => keptFor(message, reader));
  const at = kept.findLastIndex(({ tool_calls }) => tool_calls !== undefined);
  const asked = kept[at]?.tool_calls ?? [];
  const known = kept.slice(at + 1).filter(({ role }) => role === "tool");
  const images = kept.slice(at + 1).filter(({ role }) => role !== "tool");
  const answers = new Map(known.map((message) => [message.tool_call_id, message]));
  const others: ModelMessage[] = [];
  for (const message of brought) {
    const [, handoffId, place] = handedId.exec(message.tool_call_id ?? "") ?? [];
    // In the older form the client's call is the only one that the rack did not answer.
    const found = place === "f" ? asked.find((call) => !answers.has(call.id)) : asked[Number(place)];
    if (handoffId !== id || found === undefined) others.push(message);
    else answers.set(found.id, { ...message, tool_call_id: found.id, name: calledIn(found).name });
  }
  // The answers follow the order of the calls. Images cannot stand between a call and its answer.
  const ordered = asked.flatMap((call) => answers.get(call.id) ?? []);
  return [...kept.slice(0, at + 1), ...ordered, ...others, ...images];
}

/** Extra members go back only to the provider that sent them; see `Echo`. */
function keptFor(
  { [SAID_BY]: provider, ...message }: ModelMessage,
  reader: string | undefined,
): ModelMessage {
  return provider === reader ? message : withoutExtras(message);
}

/** A message without members of its provider's own, for a reader that does not know them. */
export function withoutExtras(message: ModelMessage): ModelMessage {
  const { role, content, refusal, tool_calls } = message;
  if (role !== "assistant") return message;
  const calls = tool_calls?.map((call) => {
    const { name, written } = calledIn(call);
    return newCall(name, written, call.type, call.id);
  });
  // Members that are undefined are not sent, because JSON leaves them out.
  return { role, content, refusal, ...(calls && { tool_calls: calls }) };
}
