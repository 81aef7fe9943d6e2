import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@toolrack/core";
import { v7 as uuid } from "uuid";
import { masterGrant } from "../access/index.ts";
import type { ChatMessage, ChatSession, ChatStore, Page, SessionChanges } from "../store/index.ts";
import { StoreUnavailable } from "../store/index.ts";
import { ChatError, type ChatParts } from "./chat-service.ts";
import type { ModelUsage } from "./model/deltas.ts";
import { type ModelContentPart, type ModelMessage, textOf } from "./model/providers.ts";
import type { ChatReach } from "./tools.ts";
import {
  eventsBetween,
  isSettled,
  isTool,
  type MessagePart,
  type TurnEnd,
  type TurnEvent,
} from "./turn/events.ts";
import { toModelMessages } from "./turn/model-messages.ts";
import { shownApproval } from "./turn/turn-loop.ts";
import { ActiveTurn } from "./turns.ts";

interface NewSession {
  readonly title?: string;
  readonly model?: string;
  readonly system?: string;
}

type Bearer = Pick<ChatReach, "grant">;

const TITLE_LENGTH = 80;

/** The conversations that the store has. */
export class ChatSessions {
  readonly #store: ChatStore;

  constructor(store: ChatStore) {
    this.#store = store;
  }

  /** For the owner of the process, unless told. */
  create(
    { grant, expert }: ChatReach = { grant: masterGrant },
    wanted: NewSession = {},
  ): Promise<ChatSession> {
    const { title = "", model = "", system } = wanted;
    return this.#store.addSession({
      id: uuid(),
      owner: grant.id,
      title,
      model,
      ...(expert === undefined ? {} : { expert: expert.name }),
      state: system === undefined ? {} : { system },
    });
  }

  /** Who is no admin has their own. Throws `ChatError`, in the same words for one of others and one that never was. */
  async require({ grant }: Bearer, id: string): Promise<ChatSession> {
    const session = await this.#store.getSession(id);
    if (session !== undefined && (grant.admin || session.owner === grant.id)) return session;
    throw new ChatError("chat_session_not_found", `This token knows no conversation "${id}".`);
  }

  /** Throws `InvalidCursorError`. */
  list({ grant }: Bearer, query: { limit?: number; cursor?: string }): Promise<Page<ChatSession>> {
    return this.#store.listSessions({ ...query, ...(grant.admin ? {} : { owner: grant.id }) });
  }

  async update(session: ChatSession, changes: SessionChanges): Promise<ChatSession> {
    return (await this.#store.updateSession(session.id, changes)) ?? session;
  }

  /** One that was given no title is called by what it begins with. */
  async named(session: ChatSession, content: UserContent): Promise<ChatSession> {
    return session.title === "" ? this.update(session, { title: titleOf(content) }) : session;
  }
}

function titleOf(content: UserContent): string {
  const text = textOf({ content }).trim().replaceAll(/\s+/g, " ");
  return text.length <= TITLE_LENGTH ? text : `${[...text].slice(0, TITLE_LENGTH - 1).join("")}…`;
}

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

/** What a person says: text, or text and images as Chat Completions has them. */
export type UserContent = string | readonly ModelContentPart[];

/** What the store keeps of an answer. */
export interface AssistantBody {
  /** The provider that was asked, and what it calls the model. */
  readonly provider?: string;
  readonly model: string;
  readonly parts: MessagePart[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
}

/** The store keeps plain JSON, which this service wrote. */
export function assistantBody(message: Pick<ChatMessage, "body" | "unread">): AssistantBody {
  if (message.unread === undefined) return message.body as unknown as AssistantBody;
  return { model: "", parts: [{ type: "text", round: 1, text: tooLarge(message.unread) }] };
}

function userContent(message: Pick<ChatMessage, "body" | "unread">): UserContent {
  if (message.unread === undefined) return (message.body as { readonly content: UserContent }).content;
  return tooLarge(message.unread);
}

/** The body, or what stands in the place of one that is too large to be read. */
export function bodyOf(message: ChatMessage): Readonly<Record<string, unknown>> {
  if (message.unread === undefined) return message.body;
  return message.role === "user" ? { content: userContent(message) } : { ...assistantBody(message) };
}

const tooLarge = (octets: number): string =>
  `[This message is too large to be read: it takes ${Math.round(octets / 1_000_000)} MB.]`;

export function toHistory(messages: readonly ChatMessage[], takesImages: boolean): ModelMessage[] {
  return messages.flatMap((message) => {
    if (message.role === "user") return [{ role: "user" as const, content: userContent(message) }];
    return toModelMessages(assistantBody(message).parts, takesImages);
  });
}

/** How soon text that came is kept, in milliseconds. */
const EVERY = 1_000;
/** Of the time, saving takes no more than one part in so many. */
const SHARE = 20;

/**
 * Keeps an answer while it comes: about once a second, and less often where saving takes long. Saves never overtake each
 * other.
 */
export class TextSaver {
  readonly #write: () => Promise<void>;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #pause = EVERY;
  #underWay = 0;
  #isTouched = false;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** More has come, which is to be kept before long. A save of its own accord may fail: the next one has it too. */
  touch(): void {
    this.#isTouched = this.#underWay > 0;
    if (this.#isTouched) return;
    this.#timer ??= setTimeout(() => void this.save().catch(() => {}), this.#pause).unref();
  }

  /** Resolves when all that has come is kept. */
  save(): Promise<void> {
    this.#cancel();
    this.#underWay++;
    const saved = this.#saving.then(() => this.#measured());
    this.#saving = saved.catch(() => {});
    return saved;
  }

  /** Saves no more of its own accord. Resolves when nothing is under way. */
  async end(): Promise<void> {
    this.#cancel();
    await this.#saving;
    this.#cancel();
  }

  async #measured(): Promise<void> {
    const begin = performance.now();
    this.#isTouched = false;
    try {
      await this.#write();
    } finally {
      this.#underWay--;
      this.#pause = Math.max(EVERY, (performance.now() - begin) * SHARE);
      if (this.#isTouched) this.touch();
    }
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** How many of its events a turn that has ended keeps; who has missed more is given the whole message. */
const LAST_EVENTS = 200;
/** How often the end of a turn is written when the store does not take it, and how long to wait in between. */
const ATTEMPTS = 5;
const PAUSE = 1_000;

/** Keeps what turns make. */
export class TurnWriter {
  readonly #store: ChatStore;
  readonly #logger: Logger;

  constructor(store: ChatStore, logger: Logger) {
    this.#store = store;
    this.#logger = logger;
  }

  /** Resolves when it is safely written. */
  save({ id }: ChatMessage, body: AssistantBody, status: ChatMessage["status"]): Promise<void> {
    return this.#store.saveMessage(id, { status, body: { ...body } });
  }

  /** Writes the end of a turn and tells of it. A turn that is only left stays as it is. Never rejects. */
  async conclude(turn: ActiveTurn, body: AssistantBody, ended: TurnEnd): Promise<void> {
    const { message, parts, feed, stopMessage } = turn;
    const end = ended.reason === "stopped" && stopMessage ? { ...ended, message: stopMessage } : ended;
    const isLeft = end.reason === "interrupted";
    const whole: AssistantBody = { ...body, parts, ...(isLeft ? {} : { end }) };
    const status = isLeft ? "running" : statusOf(end);
    await this.#saveSurely(turn, whole, status);
    turn.finish({ ...message, status, updatedAt: Date.now(), body: { ...whole } });
    const { id: messageId, sessionId } = message;
    feed.publish("end", { type: "end", sessionId, messageId, end, usage: body.usage });
    feed.keep(LAST_EVENTS);
  }

  /** Takes note of what nobody could foresee, and says what to tell about it. */
  endOf(thrown: unknown, { stopping, leaving }: ActiveTurn): TurnEnd {
    if (stopping.signal.aborted) return { reason: "stopped" };
    if (leaving.signal.aborted) return { reason: "interrupted" };
    this.complain(thrown);
    if (thrown instanceof StoreUnavailable) {
      const { message, code, retryAfter } = thrown;
      return { reason: "error", message, code, retryAfter };
    }
    // What is meant for people has a code and a name of its own.
    const isForPeople = thrown instanceof Error && "code" in thrown && thrown.name !== "Error";
    const message = isForPeople
      ? thrown.message
      : "The server failed to answer this message. Its log says why.";
    return { reason: "error", message, code: "internal_error" };
  }

  complain(thrown: unknown): void {
    this.#logger.error("A turn of a conversation failed:", thrown);
  }

  /** A session whose end is not written would stay busy. */
  async #saveSurely(
    { message, leaving }: ActiveTurn,
    body: AssistantBody,
    status: ChatMessage["status"],
  ): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      try {
        return await this.save(message, body, status);
      } catch (thrown) {
        this.complain(thrown);
        if (leaving.signal.aborted) return;
        await wait(PAUSE, undefined, { ref: false });
      }
    }
  }
}

function statusOf({ reason }: TurnEnd): ChatMessage["status"] {
  if (reason === "error" || reason === "stopped") return reason;
  return "completed";
}

/** How often what is stored is looked at, in milliseconds. */
const LOOKING = 1_000;
const PAGE = 500;

/**
 * Turns that other processes make, followed by what those have stored. Nothing is looked at unless somebody reads: a
 * turn is let go of as soon as nobody does.
 */
export class TurnFollowers {
  readonly #parts: Pick<ChatParts, "store" | "approvals" | "logger">;
  readonly #turns = new Map<string, ActiveTurn>();

  constructor(parts: Pick<ChatParts, "store" | "approvals" | "logger">) {
    this.#parts = parts;
  }

  /** The turn of a session that is under way. Its feed is to be followed at once. Undefined when there is none. */
  async follow(sessionId: string): Promise<ActiveTurn | undefined> {
    const message = await this.#parts.store.chat.getRunning(sessionId);
    if (message === undefined) return undefined;
    const known = this.#turns.get(message.id);
    if (known !== undefined) return known;
    const turn = new ActiveTurn(message, assistantBody(message).parts);
    this.#turns.set(message.id, turn);
    void this.#keepFollowing(turn);
    return turn;
  }

  /** Never rejects. */
  async #keepFollowing(turn: ActiveTurn): Promise<void> {
    const shown = new Map<string, string>();
    do {
      await wait(LOOKING, undefined, { ref: false });
      await this.#look(turn, shown).catch((error) =>
        this.#parts.logger.debug("A turn of another process could not be followed:", error),
      );
    } while (!turn.isDone && turn.feed.isFollowed);
    this.#turns.delete(turn.message.id);
  }

  async #look(turn: ActiveTurn, shown: Map<string, string>): Promise<void> {
    const { feed, parts } = turn;
    const { id: messageId, sessionId } = turn.message;
    const message = await this.#parts.store.chat.getMessage(messageId);
    const tell = (event: TurnEvent) => feed.publish(event.type, event);
    if (message !== undefined) {
      const { parts: stored } = assistantBody(message);
      const events = eventsBetween(parts, stored);
      parts.splice(0, parts.length, ...stored);
      for (const event of events) tell(event);
    }
    if (parts.some((part) => isTool(part) && !isSettled(part)) || shown.size > 0) {
      for (const event of await this.#questions(sessionId, shown)) tell(event);
    }
    if (message?.status === "running") return;
    const ended: ChatMessage = message ?? { ...turn.message, status: "interrupted" };
    const { end = { reason: "interrupted" }, usage } = assistantBody(ended);
    turn.finish(ended);
    feed.publish("end", { type: "end", sessionId, messageId, end, usage });
  }

  /** What is asked in the session, and what became of it. */
  async #questions(sessionId: string, shown: Map<string, string>): Promise<TurnEvent[]> {
    const { approvals } = this.#parts;
    const { items: open } = await approvals.list({ state: "pending", session: sessionId, limit: PAGE });
    const ids = new Set(open.map(({ id }) => id));
    const gone = [...shown].filter(([id, state]) => state === "pending" && !ids.has(id)).map(([id]) => id);
    const decided = await Promise.all(gone.map((id) => approvals.get(id)));
    const changed = [...open, ...decided.filter((approval) => approval !== undefined)].filter(
      ({ id, state }) => shown.get(id) !== state,
    );
    for (const { id, state } of changed) shown.set(id, state);
    return changed.map((approval) => ({ type: "approval", approval: shownApproval(approval) }));
  }
}
