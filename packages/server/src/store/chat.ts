import { sql } from "kysely";
import { toKey } from "./forms.ts";
import type { Instance } from "./instances.ts";
import {
  changesRows,
  fromJson,
  json,
  key,
  type Page,
  pageLimit,
  plain,
  RowMap,
  readPage,
  text,
  toJson,
} from "./rows.ts";
import type { ChatMessageRow, ChatSessionRow, StoreDatabase, Tables } from "./schema.ts";

/** A conversation. */
export interface ChatSession {
  readonly id: string;
  /** The id of the grant that it belongs to. */
  readonly owner: string;
  readonly title: string;
  /** As it was asked for; the usual one when empty. */
  readonly model: string;
  /** The name or id of an expert, when there is one. */
  readonly expert?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Whether a message is being answered, here or elsewhere. */
  readonly running: boolean;
  /** What else it remembers. Plain JSON. */
  readonly state: ChatSessionState;
}

interface ChatSessionState {
  /** What a model is told at the beginning, beside what the expert says. */
  readonly system?: string;
  /** The tools that were chosen for it, when not all could be offered. */
  readonly tools?: readonly string[];
  /** The calls whose results are no longer shown to the model, by its own ids. */
  readonly compacted?: readonly string[];
}

type ChatMessageStatus = Exclude<ChatMessageRow["status"], "stopping">;

/** What a person said, or what came of it. */
export interface ChatMessage {
  readonly id: string;
  readonly sessionId: string;
  /** Counts the messages of a session, from 1. */
  readonly position: number;
  readonly role: "user" | "assistant";
  readonly status: ChatMessageStatus;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Plain JSON: content and parts, as the chat defines them. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Set when the body is too large to be read: how many bytes it takes. The body is empty then. */
  readonly unread?: number;
}

export type NewChatSession = Pick<ChatSession, "id" | "owner" | "title" | "model" | "expert" | "state">;
export type SessionChanges = Partial<Pick<ChatSession, "title" | "model" | "state">>;
export type NewChatMessage = Pick<ChatMessage, "id" | "role" | "status" | "body">;
export type MessageChanges = Pick<ChatMessage, "status" | "body">;

export interface SessionQuery {
  /** Only those of this owner. */
  readonly owner?: string;
  /** At most 500; default 50. The last that was used comes first. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface MessageQuery {
  /** Only those with a smaller position. */
  readonly before?: number;
  /** At most 500; default 50. */
  readonly limit?: number;
}

export interface MessagePage {
  /** Oldest first. */
  readonly items: readonly ChatMessage[];
  /** There are older ones: what to ask for as `before`. */
  readonly previous?: number;
}

/** Messages of a client's own conversation that only the rack has seen; brought back when it goes on. */
export interface Handoff {
  readonly id: string;
  readonly owner: string;
  /** The session of the calls in them. */
  readonly sessionId: string;
  readonly messages: readonly unknown[];
}

const sessions = new RowMap<Omit<ChatSession, "running">, Omit<ChatSessionRow, "turn" | "instance">>({
  id: plain(),
  owner: key(),
  title: text(),
  model: key(),
  expert: key(),
  createdAt: plain(),
  updatedAt: plain(),
  state: json(),
});

const messages = new RowMap<Omit<ChatMessage, "unread">, Omit<ReadMessageRow, "octets">>({
  id: plain(),
  sessionId: key(),
  position: plain(),
  role: plain(),
  status: { ...plain<ChatMessageStatus>(), read: toStatus },
  createdAt: plain(),
  updatedAt: plain(),
  body: { ...json<ChatMessage["body"]>(), read: (body) => fromJson(String(body ?? "{}")), hasDefault: true },
});

const handoffs = new RowMap<Handoff, Omit<Tables["chat_handoffs"], "created_at">>({
  id: key(),
  owner: key(),
  sessionId: key(),
  messages: json(),
});

function toSession(row: ChatSessionRow): ChatSession {
  return { ...sessions.toRecord(row), running: row.turn !== null };
}

export class ChatRepository {
  readonly #db: StoreDatabase;
  readonly #instance: Instance;

  constructor(db: StoreDatabase, instance: Instance) {
    this.#db = db;
    this.#instance = instance;
  }

  async addSession(session: NewChatSession): Promise<ChatSession> {
    const now = Date.now();
    const row: ChatSessionRow = {
      ...sessions.toRow({ ...session, createdAt: now, updatedAt: now }),
      turn: null,
      instance: null,
    };
    await this.#db.insertInto("chat_sessions").values(row).execute();
    return toSession(row);
  }

  async getSession(id: string): Promise<ChatSession | undefined> {
    const row = await this.#session(id);
    return row && toSession(row);
  }

  /** Throws `InvalidCursorError`. */
  async listSessions({ owner, limit, cursor }: SessionQuery): Promise<Page<ChatSession>> {
    const all = this.#db.selectFrom("chat_sessions").selectAll();
    return readPage(owner === undefined ? all : all.where("owner", "=", toKey(owner)), {
      limit,
      cursor,
      time: "updated_at",
      id: "id",
      toItem: toSession,
      placeOf: ({ updatedAt, id }) => ({ time: updatedAt, id }),
    });
  }

  async updateSession(id: string, changes: SessionChanges): Promise<ChatSession | undefined> {
    const columns = sessions.toChanges({ ...changes, updatedAt: Date.now() });
    await this.#db.updateTable("chat_sessions").set(columns).where("id", "=", toKey(id)).execute();
    return this.getSession(id);
  }

  /** With its messages. Says whether there was one. */
  async removeSession(id: string): Promise<boolean> {
    return this.#db.transaction().execute(async (transaction) => {
      await transaction.deleteFrom("chat_messages").where("session_id", "=", toKey(id)).execute();
      return changesRows(transaction.deleteFrom("chat_sessions").where("id", "=", toKey(id)));
    });
  }

  /** Oldest first. */
  async listMessages(sessionId: string): Promise<ChatMessage[]> {
    const rows = await this.#messages()
      .where("session_id", "=", toKey(sessionId))
      .orderBy("position")
      .execute();
    return rows.map(toMessage);
  }

  /** The last ones of the session, or of those before one: as many as fit into some megabytes, at least one. */
  async pageMessages(sessionId: string, { before, limit }: MessageQuery): Promise<MessagePage> {
    const count = pageLimit(limit);
    let selection = this.#db
      .selectFrom("chat_messages")
      .select(["position", octets.as("octets")])
      .where("session_id", "=", toKey(sessionId));
    if (before !== undefined) selection = selection.where("position", "<", before);
    const found = await selection
      .orderBy("position", "desc")
      .limit(count + 1)
      .execute();
    const fitting = howManyFit(found.map((row) => Number(row.octets)));
    const last = found[Math.min(fitting, count) - 1];
    if (last === undefined) return { items: [] };
    const rows = await this.#messages()
      .where("session_id", "=", toKey(sessionId))
      .where("position", ">=", last.position)
      .where("position", "<=", found[0]!.position)
      .orderBy("position")
      .execute();
    const items = rows.map(toMessage);
    return last === found.at(-1) ? { items } : { items, previous: last.position };
  }

  async getMessage(id: string): Promise<ChatMessage | undefined> {
    const row = await this.#messages().where("id", "=", toKey(id)).executeTakeFirst();
    return row && toMessage(row);
  }

  /**
   * Adds the messages with which a turn begins, the last of them running, and marks the session as busy: in one step, so
   * that no other process begins one too. Undefined, and nothing is added, while a turn of it runs anywhere.
   */
  async beginTurn(sessionId: string, begun: readonly NewChatMessage[]): Promise<ChatMessage[] | undefined> {
    const turn = begun.at(-1)?.id;
    if (turn === undefined) throw new Error("A turn begins with a message.");
    return this.#db.transaction().execute(async (transaction) => {
      const now = Date.now();
      // The row is locked by its change, so that whoever counts positions next sees these.
      const session = transaction
        .updateTable("chat_sessions")
        .set({ turn, instance: this.#instance.id, updated_at: now })
        .where("id", "=", toKey(sessionId));
      if (!(await changesRows(session.where("turn", "is", null)))) return undefined;
      const last = await transaction
        .selectFrom("chat_messages")
        .select("position")
        .where("session_id", "=", toKey(sessionId))
        .orderBy("position", "desc")
        .limit(1)
        .executeTakeFirst();
      const first = (last?.position ?? 0) + 1;
      const common = { sessionId, createdAt: now, updatedAt: now };
      const rows = begun.map((message, at) => {
        const row = messages.toRow({ ...message, ...common, position: first + at });
        return { ...row, body: toJson(message.body) };
      });
      await transaction.insertInto("chat_messages").values(rows).execute();
      return rows.map(messages.toRecord);
    });
  }

  /** Resolves when it is safely written. With a status other than `running`, the session is free again. */
  async saveMessage(id: string, { status, body }: MessageChanges): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      const now = Date.now();
      await transaction
        .updateTable("chat_messages")
        // One that runs on may be marked as to be stopped, and stays so.
        .set({ ...(status === "running" ? {} : { status }), body: toJson(body), updated_at: now })
        .where("id", "=", toKey(id))
        .execute();
      if (status === "running") return;
      await transaction
        .updateTable("chat_sessions")
        .set({ turn: null, instance: null, updated_at: now })
        .where("turn", "=", toKey(id))
        .execute();
    });
  }

  /** Asks whichever process answers a message of the session to stop. The id of that message, if there is one. */
  async requestStop(sessionId: string): Promise<string | undefined> {
    const turn = (await this.#session(sessionId))?.turn ?? undefined;
    if (turn === undefined) return undefined;
    await this.#db
      .updateTable("chat_messages")
      .set({ status: "stopping" })
      .where("id", "=", turn)
      .where("status", "=", "running")
      .execute();
    return turn;
  }

  /** Those of the given messages, still running, that somebody asked to stop. */
  async findStopped(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    const rows = await this.#db
      .selectFrom("chat_messages")
      .select("id")
      .where("id", "in", ids.map(toKey))
      .where("status", "=", "stopping")
      .execute();
    return rows.map(({ id }) => id);
  }

  /** The message of the session that is being answered, here or elsewhere, as it was last saved. */
  async getRunning(sessionId: string): Promise<ChatMessage | undefined> {
    const turn = (await this.#session(sessionId))?.turn ?? undefined;
    return turn === undefined ? undefined : this.getMessage(turn);
  }

  /** The running messages of processes that have ended. Each becomes this process's, and is given to one caller only. */
  async claimOrphans(): Promise<ChatMessage[]> {
    const busy = await this.#db
      .selectFrom("chat_sessions")
      .select(["id", "turn", "instance"])
      .where("turn", "is not", null)
      .execute();
    const dead = new Set(await this.#instance.findDead(busy.map(({ instance }) => instance ?? "")));
    const claimed: ChatMessage[] = [];
    for (const { id, turn, instance } of busy) {
      if (turn === null || !dead.has(instance ?? "")) continue;
      const own = this.#db.updateTable("chat_sessions").set({ instance: this.#instance.id });
      const left = own.where("id", "=", id).where("turn", "=", turn).where("instance", "=", instance);
      const message = (await changesRows(left)) ? await this.getMessage(turn) : undefined;
      if (message !== undefined) claimed.push(message);
    }
    return claimed;
  }

  /** Whether a turn of the session runs, here or elsewhere. */
  async isBusy(sessionId: string): Promise<boolean> {
    const row = await this.#session(sessionId);
    return row !== undefined && row.turn !== null;
  }

  /** In the place of one of the same id and owner. */
  async addHandoff(handoff: Handoff): Promise<void> {
    const row = { ...handoffs.toRow(handoff), created_at: Date.now() };
    await this.#db.transaction().execute(async (transaction) => {
      const former = transaction.deleteFrom("chat_handoffs").where("id", "=", row.id);
      await former.where("owner", "=", row.owner).execute();
      await transaction.insertInto("chat_handoffs").values(row).execute();
    });
  }

  async getHandoff(id: string, owner: string): Promise<Handoff | undefined> {
    const all = this.#db.selectFrom("chat_handoffs").selectAll();
    const row = await all.where("id", "=", toKey(id)).where("owner", "=", toKey(owner)).executeTakeFirst();
    return row && { ...handoffs.toRecord(row), id, owner };
  }

  /** Deletes what nobody has touched since the given time. */
  async prune(oldest: number): Promise<void> {
    const limit = Math.floor(oldest);
    await this.#db.deleteFrom("chat_handoffs").where("created_at", "<", limit).execute();
    const old = this.#db
      .selectFrom("chat_sessions")
      .select("id")
      .where("updated_at", "<", limit)
      .where("turn", "is", null);
    for (const { id } of await old.execute()) await this.removeSession(id);
  }

  #messages() {
    return this.#db
      .selectFrom("chat_messages")
      .select(["id", "session_id", "position", "role", "status", "created_at", "updated_at"])
      .select([octets.as("octets"), readableBody.as("body")]);
  }

  #session(id: string): Promise<ChatSessionRow | undefined> {
    return this.#db.selectFrom("chat_sessions").selectAll().where("id", "=", toKey(id)).executeTakeFirst();
  }
}

/** What others need of it. */
export type ChatStore = Omit<ChatRepository, "prune">;

/** What a body may take to be read, and what the bodies of a page take together, in bytes. */
const MOST_READ = 100_000_000;
const MOST_IN_PAGE = 4_000_000;

/** How many bytes a body takes: every engine knows without reading it. */
const octets = sql<number | string>`octet_length(body)`;
/** The body, unless it is too large: reading one like that would take the whole process with it. */
const readableBody = sql<string | null>`case when octet_length(body) <= ${sql.lit(MOST_READ)} then body end`;

/** At least one; those that are not read take nothing. */
function howManyFit(sizes: readonly number[]): number {
  let left = MOST_IN_PAGE;
  const first = sizes.findIndex((size, at) => {
    left -= size > MOST_READ ? 0 : size;
    return left < 0 && at > 0;
  });
  return first === -1 ? sizes.length : first;
}

interface ReadMessageRow extends Omit<ChatMessageRow, "body"> {
  readonly body: string | null;
  readonly octets: number | string;
}

function toMessage(row: ReadMessageRow): ChatMessage {
  return { ...messages.toRecord(row), ...(row.body === null ? { unread: Number(row.octets) } : {}) };
}

/** A message that is to be stopped runs until it is. */
function toStatus(status: unknown): ChatMessageStatus {
  return status === "stopping" ? "running" : (status as ChatMessageStatus); // The column holds no other words.
}
