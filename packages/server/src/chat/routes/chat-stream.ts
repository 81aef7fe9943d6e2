import type { IncomingMessage, ServerResponse } from "node:http";
import { eventText, openEventStream, sent } from "../../http/wire/index.ts";
import type { ChatMessage, ChatSession } from "../../store/index.ts";
import type { ActiveTurn } from "../active-turns.ts";
import type { ChatService } from "../chat-service.ts";
import { assistantBody, bodyOf } from "../sessions.ts";

/** A message in the form of the API, without the members that are only for the provider or for recovery. */
export function messageView(whole: ChatMessage): Record<string, unknown> {
  const { body: _body, ...message } = whole;
  const { items: _i, settings: _s, origin: _o, deleted: _d, wanted: _w, ...body } = bodyOf(whole);
  const shown = { ...message, ...body };
  if (whole.role === "user") return shown;
  const parts = assistantBody(whole).parts.map((part) => {
    const { echo: _echo, kind: _kind, started: _started, envelope: _envelope, ...rest } = Object(part);
    return rest;
  });
  return { ...shown, parts };
}

/** How many bytes a slow reader may leave unread before it is disconnected. It may connect again. */
export const MOST_WAITING = 8 * 1024 * 1024;

/** Streams the events after the given number until the turn ends. The turn goes on whether or not anybody reads. */
export function streamTurn(
  turn: ActiveTurn,
  after: number,
  outgoing: ServerResponse,
  heartbeat: number,
): typeof sent {
  if (!outgoing.headersSent) openEventStream(outgoing);
  const alive = setInterval(() => outgoing.write(": alive\n\n"), heartbeat);
  let isOver = false;
  const unfollow = turn.feed.follow(after, ({ number, type, data }) => {
    if (isOver) return;
    outgoing.write(eventText(type, data, `${turn.feed.id}.${number}`));
    if (outgoing.writableLength > MOST_WAITING) outgoing.destroy();
    if (type !== "end") return;
    isOver = true;
    outgoing.end();
  });
  const leave = () => {
    clearInterval(alive);
    unfollow();
  };
  outgoing.once("close", leave);
  // The turn may have ended before the feed was followed.
  if (isOver || outgoing.destroyed) leave();
  return sent;
}

export async function resumeTurn(
  chat: ChatService,
  { id: sessionId }: ChatSession,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  heartbeat: number,
): Promise<typeof sent> {
  const turn = await chat.watch(sessionId);
  const lastId = String(incoming.headers["last-event-id"] ?? "");
  const [feedId, digits] = lastId.split(".");
  const last = Number(digits);
  const isKnown = turn?.feed.id === feedId && Number.isInteger(last) && turn?.feed.knowsAfter(last) === true;
  if (turn && isKnown && !(turn.isDone && last === turn.feed.last))
    return streamTurn(turn, last, outgoing, heartbeat);
  if (turn !== undefined && !turn.isDone) {
    openEventStream(outgoing);
    const { feed } = turn;
    const number = feed.last;
    outgoing.write(eventText("message", messageView(chat.currentMessage(turn)), `${feed.id}.${number}`));
    return streamTurn(turn, number, outgoing, heartbeat);
  }
  const [message] = (await chat.listMessages(sessionId, { limit: 1 })).items;
  const id = `${message?.id ?? sessionId}.end`;
  // Another node may have made a newer turn in the session.
  const isNewest = message?.role !== "assistant" || message.id === turn?.message.id;
  if (lastId === id || (isKnown && isNewest)) {
    // 204 stops the automatic reconnects of a browser that has already read the end.
    outgoing.writeHead(204).end();
    return sent;
  }
  openEventStream(outgoing);
  if (message !== undefined) outgoing.write(eventText("message", messageView(message)));
  const end = message === undefined ? undefined : bodyOf(message).end;
  outgoing.end(eventText("end", { type: "end", sessionId, messageId: message?.id, end }, id));
  return sent;
}
