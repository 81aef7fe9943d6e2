import type { IncomingMessage, ServerResponse } from "node:http";
import type { ExtensionParts, Route, RouteRequest } from "../../http/wire/index.ts";
import { eventText, HttpError, type HttpErrorCode, openEventStream, sent } from "../../http/wire/index.ts";
import type { ChatMessage, ChatSession } from "../../store/index.ts";
import type { ChatService } from "../chat-service.ts";
import { failedEnd } from "../engine.ts";
import { ProviderError } from "../provider.ts";
import { howToConfigure, ModelMissing } from "../providers.ts";
import { ChatError } from "../services.ts";
import { assistantBody, bodyOf } from "../sessions.ts";
import { isTool, type MessagePart, type TurnEnd } from "../turn.ts";
import type { ActiveTurn } from "../turns.ts";

/** A message in the form of the API. */
export function messageView(whole: ChatMessage): Record<string, unknown> {
  const { body: _body, ...message } = whole;
  const body = bodyOf(whole);
  if (whole.role === "user") return { ...message, ...body };
  return { ...message, ...body, parts: assistantBody(whole).parts.map(partView) };
}

/** Leaves out members that are only for the provider or for recovery after a restart. */
function partView(part: MessagePart): Record<string, unknown> {
  if (!isTool(part)) return { ...part };
  const { echo: _echo, kind: _kind, started: _started, ...shown } = part;
  return shown;
}

/** Bytes that may wait for a slow reader. Beyond it the reader is disconnected, and may come back. */
const MOST_WAITING = 8 * 1024 * 1024;

/** Streams the events after the given number until the turn ends. The turn goes on whether or not anybody reads. */
export function streamTurn(
  turn: ActiveTurn,
  after: number,
  outgoing: ServerResponse,
  heartbeat: number,
): typeof sent {
  if (!outgoing.headersSent) openEventStream(outgoing);
  const alive = setInterval(() => outgoing.write(": alive\n\n"), heartbeat);
  let unfollow = () => {};
  const leave = () => {
    clearInterval(alive);
    unfollow();
  };
  outgoing.once("close", leave);
  let isOver = false;
  unfollow = turn.feed.follow(after, ({ number, type, data }) => {
    if (isOver) return;
    outgoing.write(eventText(type, data, `${turn.feed.id}.${number}`));
    if (outgoing.writableLength > MOST_WAITING) outgoing.destroy();
    if (type !== "end") return;
    isOver = true;
    outgoing.end();
  });
  // The turn may have ended before the feed was followed.
  if (isOver || outgoing.destroyed) leave();
  return sent;
}

export async function resumeTurn(
  chat: ChatService,
  session: ChatSession,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  heartbeat: number,
): Promise<typeof sent> {
  const turn = await chat.watch(session.id);
  const [feedId, digits] = String(incoming.headers["last-event-id"] ?? "").split(".");
  const last = Number(digits);
  if (turn !== undefined && feedId === turn.feed.id && Number.isInteger(last) && turn.feed.knowsAfter(last)) {
    if (!turn.isDone || last !== turn.feed.last) return streamTurn(turn, last, outgoing, heartbeat);
    if (await isNewest(turn, chat)) return nothingMore(outgoing);
  }
  if (turn === undefined || turn.isDone) {
    const [message] = (await chat.listMessages(session.id, { limit: 1 })).items;
    const id = `${message?.id ?? session.id}.end`;
    if (incoming.headers["last-event-id"] === id) return nothingMore(outgoing);
    openEventStream(outgoing);
    if (message !== undefined) outgoing.write(eventText("message", messageView(message)));
    const end = message === undefined ? undefined : bodyOf(message).end;
    outgoing.end(eventText("end", { type: "end", sessionId: session.id, messageId: message?.id, end }, id));
    return sent;
  }
  openEventStream(outgoing);
  const { feed } = turn;
  const number = feed.last;
  outgoing.write(eventText("message", messageView(chat.currentMessage(turn)), `${feed.id}.${number}`));
  return streamTurn(turn, number, outgoing, heartbeat);
}

/** Another node may have made a newer turn in the session. */
async function isNewest({ message }: ActiveTurn, chat: ChatService): Promise<boolean> {
  const [newest] = (await chat.listMessages(message.sessionId, { limit: 1 })).items;
  return newest === undefined || newest.role !== "assistant" || newest.id === message.id;
}

/** 204 stops the automatic reconnects of a browser that has already read the end. */
function nothingMore(outgoing: ServerResponse): typeof sent {
  outgoing.writeHead(204).end();
  return sent;
}

/** Returns the chat service. Throws a refusal that says how to configure one. */
export function requireChat({ chat }: Pick<ChatRouteParts, "chat">): ChatService {
  if (chat !== undefined) return chat;
  throw new HttpError("provider_missing", howToConfigure, { headers: noRetry });
}

/** The same route, with chat errors turned into the API's errors. */
export function withHttpErrors(route: Route): Route {
  return {
    ...route,
    async handle(request: RouteRequest<never, never, never>) {
      try {
        return await route.handle(request);
      } catch (thrown) {
        throw toHttpError(thrown);
      }
    },
  };
}

/** OpenAI's clients retry failures unless told not to, and tools may already have run. */
const noRetry = { "X-Should-Retry": "false" };

/** Error codes that are passed on. All others become the provider's failure. */
const codes: readonly HttpErrorCode[] = [
  "provider_busy",
  "provider_refused",
  "provider_unauthorized",
  "internal_error",
  "store_unavailable",
  "unauthorized",
];

/** The error for a turn that ended without an answer; undefined when there is an answer. */
export function errorOfEnd(end: TurnEnd): HttpError | undefined {
  const { reason, message = "The model did not answer.", retryAfter, details = {} } = end;
  if (reason === "interrupted")
    return new HttpError("stopping", "The server is stopping.", { headers: noRetry });
  if (reason !== "error") return undefined;
  const later = retryAfter === undefined ? undefined : { "Retry-After": String(Math.ceil(retryAfter)) };
  const { type, param } = details;
  return new HttpError(codes.find((code) => code === end.code) ?? "provider_failed", message, {
    headers: { ...noRetry, ...later },
    details,
    ...(typeof type === "string" ? { type } : {}),
    ...(typeof param === "string" ? { param } : {}),
  });
}

function toHttpError(thrown: unknown): unknown {
  if (thrown instanceof ChatError || thrown instanceof ModelMissing) {
    return new HttpError(thrown.code, thrown.message, { headers: noRetry });
  }
  return thrown instanceof ProviderError ? errorOfEnd(failedEnd(thrown)) : thrown;
}

export interface ChatRouteParts extends ExtensionParts {
  /** Undefined when no chat is configured. */
  readonly chat: ChatService | undefined;
}
