import type { IncomingMessage, ServerResponse } from "node:http";
import type { ChatMessage, ChatSession } from "../../../store/chat/chat-store.ts";
import type { ActiveTurn } from "../../chat/active-turn.ts";
import { assistantBody, bodyOf } from "../../chat/chat-message-body.ts";
import type { ChatService } from "../../chat/chat-service.ts";
import { isTool, type MessagePart } from "../../chat/turn/message-part.ts";
import { eventText, openEventStream } from "../events/event-stream.ts";
import type { Reply } from "../route.ts";

/** A message as it is answered with. */
export function messageView(whole: ChatMessage): Record<string, unknown> {
  const { body: _body, ...message } = whole;
  const body = bodyOf(whole);
  if (whole.role === "user") return { ...message, ...body };
  return { ...message, ...body, parts: assistantBody(whole).parts.map(partView) };
}

/** What is kept for the provider, or to know after a restart what was begun, is for nobody else. */
function partView(part: MessagePart): Record<string, unknown> {
  if (!isTool(part)) return { ...part };
  const { echo: _echo, kind: _kind, started: _started, ...shown } = part;
  return shown;
}

/** What a reader has not taken in yet; one that leaves more is cut off, and may come back. */
const MOST_WAITING = 8 * 1024 * 1024;

/** Tells what happens after the event of the number, until the turn ends. It goes on whether or not anybody reads. */
export function streamTurn(
  turn: ActiveTurn,
  after: number,
  outgoing: ServerResponse,
  heartbeat: number,
): Reply {
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
  // It may have ended before it was followed.
  if (isOver || outgoing.destroyed) leave();
  return "sent";
}

export async function resumeTurn(
  chat: ChatService,
  session: ChatSession,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  heartbeat: number,
): Promise<Reply> {
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
    return "sent";
  }
  openEventStream(outgoing);
  const { feed } = turn;
  const number = feed.last;
  outgoing.write(eventText("message", messageView(chat.currentMessage(turn)), `${feed.id}.${number}`));
  return streamTurn(turn, number, outgoing, heartbeat);
}

/** Another node may have answered in the session since. */
async function isNewest({ message }: ActiveTurn, chat: ChatService): Promise<boolean> {
  const [newest] = (await chat.listMessages(message.sessionId, { limit: 1 })).items;
  return newest === undefined || newest.role !== "assistant" || newest.id === message.id;
}

/** Who has read the end and asks again, as browsers do by themselves, stops asking at this. */
function nothingMore(outgoing: ServerResponse): Reply {
  outgoing.writeHead(204).end();
  return "sent";
}
