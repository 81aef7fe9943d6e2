import { v7 as uuid } from "uuid";
import { masterGrant } from "../access/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession, ChatStore, Page, SessionChanges } from "../store/index.ts";
import { toModelMessages } from "./messages.ts";
import { type ModelContentPart, type ModelMessage, type ModelUsage, textOf } from "./model.ts";
import { ChatError } from "./services.ts";
import { isTool, type MessagePart, type TurnEnd } from "./turn.ts";

interface NewSession {
  readonly title?: string;
  readonly model?: string;
  readonly system?: string;
}

const TITLE_LENGTH = 80;

/** The stored conversations. */
export class ChatSessions {
  readonly #store: ChatStore;

  constructor(store: ChatStore) {
    this.#store = store;
  }

  /** Default: for the owner of the process. */
  create({ grant, expert }: Reach = { grant: masterGrant }, wanted: NewSession = {}): Promise<ChatSession> {
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

  /**
   * Callers other than admins see only their own sessions. Throws the same `ChatError` for a session of somebody else
   * and for one that never existed.
   */
  async require({ grant }: Pick<Reach, "grant">, id: string): Promise<ChatSession> {
    const session = await this.#store.getSession(id);
    if (session !== undefined && (grant.admin || session.owner === grant.id)) return session;
    throw new ChatError("chat_session_not_found", `This token knows no conversation "${id}".`);
  }

  /** Throws `InvalidCursorError`. */
  list(
    { grant }: Pick<Reach, "grant">,
    query: { limit?: number; cursor?: string },
  ): Promise<Page<ChatSession>> {
    return this.#store.listSessions({ ...query, ...(grant.admin ? {} : { owner: grant.id }) });
  }

  async update(session: ChatSession, changes: SessionChanges): Promise<ChatSession> {
    return (await this.#store.updateSession(session.id, changes)) ?? session;
  }

  /** A session without a title gets one from its first message. */
  async named(session: ChatSession, content: UserContent): Promise<ChatSession> {
    return session.title === "" ? this.update(session, { title: titleOf(content) }) : session;
  }
}

function titleOf(content: UserContent): string {
  const text = textOf({ content }).trim().replaceAll(/\s+/g, " ");
  return text.length <= TITLE_LENGTH ? text : `${[...text].slice(0, TITLE_LENGTH - 1).join("")}…`;
}

/** The system message. */
export function instructions({ state }: ChatSession, { expert }: Reach): ModelMessage[] {
  const texts = [expert?.instructions, state.system].filter((text) => text !== undefined && text !== "");
  return texts.length === 0 ? [] : [{ role: "system", content: texts.join("\n\n") }];
}

/** The query for choosing tools is the first message, so that the choice does not change with every message. */
export function firstWords(messages: readonly ChatMessage[]): string {
  const first = messages.find(({ role }) => role === "user");
  return first === undefined ? "" : textOf({ content: userContent(first) });
}

/** Maps the model's call ids to the rack's. */
export function callIdsOf(messages: readonly ChatMessage[]): Map<string, string> {
  const answers = messages.filter(({ role }) => role === "assistant");
  const calls = answers.flatMap((message) => assistantBody(message).parts.filter(isTool));
  return new Map(calls.map(({ id, callId }) => [id, callId]));
}

/** A person's message: text, or text and images in the form of Chat Completions. */
export type UserContent = string | readonly ModelContentPart[];

/** An answer in the store. */
export interface AssistantBody {
  /** The provider, and its name of the model. */
  readonly provider?: string;
  readonly model: string;
  readonly parts: MessagePart[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
}

/** The store returns plain JSON that this service wrote. */
export function assistantBody(message: Pick<ChatMessage, "body" | "unread">): AssistantBody {
  // `Object` returns any type, so no cast is needed.
  if (message.unread === undefined) return Object(message.body);
  return { model: "", parts: [{ type: "text", round: 1, text: tooLarge(message.unread) }] };
}

function userContent(message: Pick<ChatMessage, "body" | "unread">): UserContent {
  return message.unread === undefined ? Object(message.body).content : tooLarge(message.unread);
}

/** The body, or a placeholder for a body that is too large to read. */
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
