import { setImmediate as nextTurn } from "node:timers/promises";
import { sql } from "kysely";
import type { Instance } from "./instances.ts";
import { toKey } from "./keys.ts";
import {
  deleteInSteps,
  deleteRows,
  findRow,
  fromJson,
  json,
  key,
  type Page,
  pageLimit,
  plain,
  readPage,
  rowMap,
  toJson,
  updateRows,
} from "./row-mapping.ts";
import { type ChatMessageRow, type ChatSessionRow, isMark, type StoreDatabase } from "./schema.ts";

export interface ChatSession {
  readonly id: string;
  /** The id of the grant that the session belongs to. */
  readonly owner: string;
  readonly title: string;
  /** The model's name as the client gave it. Empty: the default model. */
  readonly model: string;
  /** The name or id of an expert. */
  readonly expert?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Whether a message is being answered, in this process or another. */
  readonly running: boolean;
  /** What the chat remembers of the session, as plain JSON. */
  readonly state: ChatSessionState;
}

interface ChatSessionState {
  /** The system prompt, besides the expert's instructions. */
  readonly system?: string;
  /** The names of the tools that were chosen for the session, when not all could be offered to the model. */
  readonly tools?: readonly string[];
  /** Ids, as the model gave them, of calls whose results are no longer shown to the model. */
  readonly compacted?: readonly string[];
}

type ChatMessageStatus = Exclude<ChatMessageRow["status"], "stopping">;

/** A message of a person, or the answer to it. */
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
  /** The size in bytes of a body that is too large to be read; `body` is then empty. */
  readonly unread?: number;
}

export type NewChatSession = Pick<ChatSession, "id" | "owner" | "title" | "model" | "expert" | "state">;
export type SessionChanges = Partial<Pick<ChatSession, "title" | "model" | "state">>;
export type NewChatMessage = Pick<ChatMessage, "id" | "role" | "status" | "body">;
export type MessageChanges = Pick<ChatMessage, "status" | "body">;

export interface SessionQuery {
  readonly owner?: string;
  /** How many sessions a page has: at most 500, default 50. The most recently used sessions come first. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface MessageQuery {
  readonly before?: number;
  /** How many messages a page has: at most 500, default 50. */
  readonly limit?: number;
}

export interface MessagePage {
  /** The messages of the page, the oldest first. */
  readonly items: readonly ChatMessage[];
  /** Set when there are older messages: the `before` of the next query. */
  readonly previous?: number;
}

/**
 * Messages that the rack added to a client's own conversation and the client has not seen. They are inserted
 * again when the client continues the conversation.
 */
export interface Handoff {
  readonly id: string;
  readonly owner: string;
  readonly sessionId: string;
  readonly messages: readonly unknown[];
}

const sessions = rowMap<Omit<ChatSession, "running">>()("chat_sessions", { state: json() }, [
  "turn",
  "instance",
]);

const messages = rowMap<Omit<ChatMessage, "unread">>()("chat_messages", {
  sessionId: key("session_id"),
  status: { ...plain<ChatMessageStatus>(), read: toStatus },
  body: { ...json<ChatMessage["body"]>(), read: (body) => fromJson(String(body ?? "{}")), hasDefault: true },
});

const handoffs = rowMap<Handoff>()(
  "chat_handoffs",
  { id: key(), sessionId: key("session_id"), messages: json() },
  ["created_at"],
);

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
    const row = await this.#findSession(id);
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
    await updateRows(this.#db, "chat_sessions", { id: toKey(id) }, columns);
    return this.getSession(id);
  }

  /** Removes the session's messages too. False when there was no such session. */
  async removeSession(id: string): Promise<boolean> {
    return this.#db.transaction().execute(async (transaction) => {
      await deleteRows(transaction, "chat_messages", { session_id: toKey(id) });
      return (await deleteRows(transaction, "chat_sessions", { id: toKey(id) })) > 0;
    });
  }

  /** The oldest message first. */
  async listMessages(sessionId: string): Promise<ChatMessage[]> {
    const rows = await this.#selectMessages()
      .where("session_id", "=", toKey(sessionId))
      .orderBy("position")
      .execute();
    return rows.map(toMessage);
  }

  /**
   * The last messages of the session, or the last before `before`: as many as fit into MOST_IN_PAGE bytes, at least
   * one.
   */
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
    const fitting = countFitting(found.map((row) => Number(row.octets)));
    const last = found[Math.min(fitting, count) - 1];
    if (last === undefined) return { items: [] };
    const rows = await this.#selectMessages()
      .where("session_id", "=", toKey(sessionId))
      .where("position", ">=", last.position)
      .where("position", "<=", found[0]!.position)
      .orderBy("position")
      .execute();
    const items = rows.map(toMessage);
    return last === found.at(-1) ? { items } : { items, previous: last.position };
  }

  async getMessage(id: string): Promise<ChatMessage | undefined> {
    const row = await this.#selectMessages().where("id", "=", toKey(id)).executeTakeFirst();
    return row && toMessage(row);
  }

  /**
   * Adds the messages of a new turn, the last of them running, and marks the session as busy, in one transaction, so
   * that no other process begins a turn too. Returns undefined and adds nothing while a turn of the session runs
   * anywhere. With `from`, the messages from this position on are deleted, and the new ones take their place.
   */
  async beginTurn(
    sessionId: string,
    begun: readonly NewChatMessage[],
    from?: number,
  ): Promise<ChatMessage[] | undefined> {
    const turn = begun.at(-1)?.id;
    if (turn === undefined) throw new Error("A turn begins with a message.");
    return this.#db.transaction().execute(async (transaction) => {
      const now = Date.now();
      // The update locks the row, so that the next turn counts positions after these messages.
      const free = { id: toKey(sessionId), turn: null };
      const busy = { turn, instance: this.#instance.id, updated_at: now };
      if ((await updateRows(transaction, "chat_sessions", free, busy)) === 0) return undefined;
      if (from !== undefined) {
        const taken = transaction.deleteFrom("chat_messages").where("session_id", "=", toKey(sessionId));
        await taken.where("position", ">=", from).execute();
      }
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

  /** Resolves when the message is safely written. Any status but `running` frees the session. */
  async saveMessage(id: string, { status, body }: MessageChanges): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      const now = Date.now();
      // A running message may have the status `stopping`, which must stay.
      const ended = status === "running" ? {} : { status };
      const changes = { ...ended, body: toJson(body), updated_at: now };
      await updateRows(transaction, "chat_messages", { id: toKey(id) }, changes);
      if (status === "running") return;
      const free = { turn: null, instance: null, updated_at: now };
      await updateRows(transaction, "chat_sessions", { turn: toKey(id) }, free);
    });
  }

  /** Asks the process that answers a message of the session to stop. Returns the id of that message. */
  async requestStop(sessionId: string): Promise<string | undefined> {
    const turn = (await this.#findSession(sessionId))?.turn ?? undefined;
    if (turn === undefined) return undefined;
    await updateRows(this.#db, "chat_messages", { id: turn, status: "running" }, { status: "stopping" });
    return turn;
  }

  /** Returns those of the given messages that run and that somebody asked to stop. */
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

  /** The message that is being answered in this process or another, as it was last saved. */
  async getRunning(sessionId: string): Promise<ChatMessage | undefined> {
    const turn = (await this.#findSession(sessionId))?.turn ?? undefined;
    return turn === undefined ? undefined : this.getMessage(turn);
  }

  /** The id of the node that answers a message of the session. Undefined when no message is answered. */
  async nodeOf(sessionId: string): Promise<string | undefined> {
    const session = await this.#findSession(sessionId);
    return session?.turn == null ? undefined : (session.instance ?? undefined);
  }

  /** Takes over the running messages of dead processes. Each message is given to one process only. */
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
      const own = { instance: this.#instance.id };
      const isOurs = (await updateRows(this.#db, "chat_sessions", { id, turn, instance }, own)) > 0;
      const message = isOurs ? await this.getMessage(turn) : undefined;
      if (message !== undefined) claimed.push(message);
    }
    return claimed;
  }

  async isBusy(sessionId: string): Promise<boolean> {
    const row = await this.#findSession(sessionId);
    return row !== undefined && row.turn !== null;
  }

  /** Replaces a handoff of the same id and owner. */
  async addHandoff(handoff: Handoff): Promise<void> {
    const row = { ...handoffs.toRow(handoff), created_at: Date.now() };
    await this.#db.transaction().execute(async (transaction) => {
      await deleteRows(transaction, "chat_handoffs", { id: row.id, owner: row.owner });
      await transaction.insertInto("chat_handoffs").values(row).execute();
    });
  }

  async getHandoff(id: string, owner: string): Promise<Handoff | undefined> {
    const row = await findRow(this.#db, "chat_handoffs", { id: toKey(id), owner: toKey(owner) });
    return row && { ...handoffs.toRecord(row), id, owner };
  }

  /** The id of this opening of the store. */
  get instanceId(): string {
    return this.#instance.id;
  }

  /** Whether another opening of the store is in use at this moment. May take some seconds. */
  isInstanceAlive(id: string): Promise<boolean> {
    return this.#instance.isAlive(id);
  }

  /** Deletes handoffs made and sessions last used before the given time, and marks of requests after a day. */
  async prune(oldest: number): Promise<void> {
    const limit = Math.floor(oldest);
    const marked = Math.max(limit, Date.now() - MARK_KEPT);
    await deleteInSteps(this.#db, sql`chat_handoffs where ${sql.raw(isMark)} and created_at < ${marked}`);
    await deleteInSteps(this.#db, sql`chat_handoffs where created_at < ${limit}`);
    const old = this.#db
      .selectFrom("chat_sessions")
      .select("id")
      .where("updated_at", "<", limit)
      .where("turn", "is", null);
    for (const { id } of await old.execute()) {
      await this.removeSession(id);
      await nextTurn();
    }
  }

  #selectMessages() {
    return this.#db
      .selectFrom("chat_messages")
      .select(["id", "session_id", "position", "role", "status", "created_at", "updated_at"])
      .select([octets.as("octets"), readableBody.as("body")]);
  }

  #findSession(id: string): Promise<ChatSessionRow | undefined> {
    return findRow(this.#db, "chat_sessions", { id: toKey(id) });
  }
}

/** Milliseconds. */
const MARK_KEPT = 24 * 60 * 60_000;

export type ChatStore = Omit<ChatRepository, "prune">;

/**
 * Bytes. MOST_READ: the largest body that is read. MOST_IN_PAGE: the limit for all bodies of a page together.
 */
const MOST_READ = 100_000_000;
const MOST_IN_PAGE = 4_000_000;

/** The size of a body, which every engine knows without reading it. */
const octets = sql<number | string>`octet_length(body)`;
/** Null for a body that is too large: reading it would exhaust the memory of the process. */
const readableBody = sql<string | null>`case when octet_length(body) <= ${sql.lit(MOST_READ)} then body end`;

/** How many of the messages fit into a page: at least one. Bodies that are not read count as nothing. */
function countFitting(sizes: readonly number[]): number {
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

/** A message with the status `stopping` still runs. */
function toStatus(status: unknown): ChatMessageStatus {
  return status === "stopping" ? "running" : (status as ChatMessageStatus); // The column holds no other values.
}
