import { v7 as uuid } from "uuid";
import { masterGrant } from "../access/index.ts";
import type { Reach } from "../http/wire/index.ts";
import type { ChatMessage, ChatSession, ChatStore, Page, SessionChanges } from "../store/index.ts";
import { toModelMessages } from "./messages.ts";
import { type ModelContentPart, type ModelMessage, type ModelUsage, textOf } from "./model.ts";
import { ChatError } from "./services.ts";
import { isTool, type MessagePart, type TurnEnd } from "./turn.ts";

const TITLE_LENGTH = 80;

export class ChatSessions {
  readonly #store: ChatStore;

  constructor(store: ChatStore) {
    this.#store = store;
  }

  /** By default the session belongs to the owner of the process. */
  create(
    { grant, expert }: Reach = { grant: masterGrant },
    { title = "", model = "", system }: { title?: string; model?: string; system?: string } = {},
  ): Promise<ChatSession> {
    const state = system === undefined ? {} : { system };
    const named = expert === undefined ? {} : { expert: expert.name };
    return this.#store.addSession({ id: uuid(), owner: grant.id, title, model, ...named, state });
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
    if (session.title !== "") return session;
    const text = textOf({ content }).trim().replaceAll(/\s+/g, " ");
    const isLong = text.length > TITLE_LENGTH;
    const title = isLong ? `${[...text].slice(0, TITLE_LENGTH - 1).join("")}…` : text;
    return this.update(session, { title });
  }
}

/** A person's message: text, or text and images in the form of Chat Completions. */
export type UserContent = string | readonly ModelContentPart[];

/** The body of an assistant message in the store. */
export interface AssistantBody {
  /** The provider's name in the config. */
  readonly provider?: string;
  /** The provider's name of the model. */
  readonly model: string;
  readonly parts: MessagePart[];
  readonly usage?: ModelUsage;
  readonly end?: TurnEnd;
}

/** The body of a message, or a placeholder for a body that is too large to read. */
export function bodyOf({ role, body, unread }: ChatMessage): Readonly<Record<string, unknown>> {
  if (unread === undefined) return body;
  const text = `[This message is too large to be read: it takes ${Math.round(unread / 1_000_000)} MB.]`;
  return role === "user" ? { content: text } : { model: "", parts: [{ type: "text", round: 1, text }] };
}

/** Does not check the body: the store returns plain JSON that this service wrote. */
export function assistantBody(message: ChatMessage): AssistantBody {
  // `Object()` has the type `any`, so no cast is needed.
  return Object(bodyOf(message));
}

/** The earlier messages of a session as the model reads them, after the system message, if there is one. */
export function toHistory(
  { state }: ChatSession,
  { expert }: Reach,
  messages: readonly ChatMessage[],
  takesImages: boolean,
): ModelMessage[] {
  const system = [expert?.instructions, state.system].filter(Boolean).join("\n\n");
  const said = messages.flatMap((message): ModelMessage[] => {
    if (message.role === "user") return [{ role: "user", content: Object(bodyOf(message)).content }];
    return toModelMessages(assistantBody(message).parts, takesImages);
  });
  return system === "" ? said : [{ role: "system", content: system }, ...said];
}

/** Maps the model's call ids to the rack's. */
export function callIdsOf(messages: readonly ChatMessage[]): Map<string, string> {
  const answers = messages.filter(({ role }) => role === "assistant");
  const calls = answers.flatMap((message) => assistantBody(message).parts.filter(isTool));
  return new Map(calls.map(({ id, callId }) => [id, callId]));
}
