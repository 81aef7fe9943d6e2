import { v7 as uuid } from "uuid";
import { masterGrant } from "../../auth/grant.ts";
import type { ChatSession, ChatStore, SessionChanges } from "../../store/chat/chat-store.ts";
import type { Page } from "../../store/store.ts";
import { ChatError } from "./chat-error.ts";
import type { UserContent } from "./chat-message-body.ts";
import { textOf } from "./model/model-message.ts";
import type { ChatReach } from "./tools/reach.ts";

export interface NewSession {
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
