import {
  type ChatMessage,
  type ChatMessageRow,
  type ChatSession,
  type ChatSessionRow,
  type ChatStore,
  type Handoff,
  howManyFit,
  type MessageChanges,
  type MessagePage,
  type MessageQuery,
  type NewChatMessage,
  type NewChatSession,
  octets,
  readableBody,
  type SessionChanges,
  type SessionQuery,
  toMessage,
  toSession,
} from "./chat-tables.ts";
import { toKey, toStorableText } from "./forms.ts";
import type { Instance } from "./instances.ts";
import type { StoreDatabase } from "./schema.ts";
import type { Page } from "./store.ts";
import { formatCursor, fromJson, pageLimit, parseCursor, toJson } from "./values.ts";

export class ChatRepository implements ChatStore {
  readonly #db: StoreDatabase;
  readonly #instance: Instance;

  constructor(db: StoreDatabase, instance: Instance) {
    this.#db = db;
    this.#instance = instance;
  }

  async addSession(session: NewChatSession): Promise<ChatSession> {
    const now = Date.now();
    const row: ChatSessionRow = {
      id: session.id,
      owner: toKey(session.owner),
      model: toKey(session.model),
      expert: session.expert === undefined ? null : toKey(session.expert),
      created_at: now,
      updated_at: now,
      turn: null,
      instance: null,
      title: toStorableText(session.title),
      state: toJson(session.state),
    };
    await this.#db.insertInto("chat_sessions").values(row).execute();
    return toSession(row);
  }

  async getSession(id: string): Promise<ChatSession | undefined> {
    const row = await this.#session(id);
    return row === undefined ? undefined : toSession(row);
  }

  async listSessions({ owner, limit, cursor }: SessionQuery): Promise<Page<ChatSession>> {
    const count = pageLimit(limit);
    let selection = this.#db.selectFrom("chat_sessions").selectAll();
    if (owner !== undefined) selection = selection.where("owner", "=", toKey(owner));
    if (cursor !== undefined) {
      const after = parseCursor(cursor);
      selection = selection
        .where("updated_at", "<=", after.time)
        .where(({ or, eb }) => or([eb("updated_at", "<", after.time), eb("id", "<", after.id)]));
    }
    const rows = await selection
      .orderBy("updated_at", "desc")
      .orderBy("id", "desc")
      .limit(count + 1)
      .execute();
    const items = rows.slice(0, count).map(toSession);
    const last = items.at(-1);
    if (rows.length <= count || last === undefined) return { items };
    return { items, next: formatCursor({ time: last.updatedAt, id: last.id }) };
  }

  async updateSession(id: string, { title, model, state }: SessionChanges): Promise<ChatSession | undefined> {
    await this.#db
      .updateTable("chat_sessions")
      .set({
        updated_at: Date.now(),
        ...(title === undefined ? {} : { title: toStorableText(title) }),
        ...(model === undefined ? {} : { model: toKey(model) }),
        ...(state === undefined ? {} : { state: toJson(state) }),
      })
      .where("id", "=", toKey(id))
      .execute();
    return this.getSession(id);
  }

  async removeSession(id: string): Promise<boolean> {
    return this.#db.transaction().execute(async (transaction) => {
      await transaction.deleteFrom("chat_messages").where("session_id", "=", toKey(id)).execute();
      const { numDeletedRows } = await transaction
        .deleteFrom("chat_sessions")
        .where("id", "=", toKey(id))
        .executeTakeFirst();
      return numDeletedRows > 0n;
    });
  }

  async listMessages(sessionId: string): Promise<ChatMessage[]> {
    const rows = await this.#messages()
      .where("session_id", "=", toKey(sessionId))
      .orderBy("position")
      .execute();
    return rows.map(toMessage);
  }

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
    return row === undefined ? undefined : toMessage(row);
  }

  async beginTurn(
    sessionId: string,
    messages: readonly NewChatMessage[],
  ): Promise<ChatMessage[] | undefined> {
    const turn = messages.at(-1)?.id;
    if (turn === undefined) throw new Error("A turn begins with a message.");
    return this.#db.transaction().execute(async (transaction) => {
      const now = Date.now();
      // The row is locked by its change, so that whoever counts positions next sees these.
      const { numUpdatedRows } = await transaction
        .updateTable("chat_sessions")
        .set({ turn, instance: this.#instance.id, updated_at: now })
        .where("id", "=", toKey(sessionId))
        .where("turn", "is", null)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) return undefined;
      const last = await transaction
        .selectFrom("chat_messages")
        .select("position")
        .where("session_id", "=", toKey(sessionId))
        .orderBy("position", "desc")
        .limit(1)
        .executeTakeFirst();
      const rows = messages.map((message, at): ChatMessageRow => {
        const position = (last?.position ?? 0) + at + 1;
        const { id, role, status, body } = message;
        return {
          id,
          session_id: toKey(sessionId),
          position,
          role,
          status,
          created_at: now,
          updated_at: now,
          body: toJson(body),
        };
      });
      await transaction.insertInto("chat_messages").values(rows).execute();
      return rows.map((row) => toMessage({ ...row, octets: 0 }));
    });
  }

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

  async getRunning(sessionId: string): Promise<ChatMessage | undefined> {
    const turn = (await this.#session(sessionId))?.turn ?? undefined;
    return turn === undefined ? undefined : this.getMessage(turn);
  }

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
      const { numUpdatedRows } = await this.#db
        .updateTable("chat_sessions")
        .set({ instance: this.#instance.id })
        .where("id", "=", id)
        .where("turn", "=", turn)
        .where("instance", "=", instance)
        .executeTakeFirst();
      const message = numUpdatedRows === 0n ? undefined : await this.getMessage(turn);
      if (message !== undefined) claimed.push(message);
    }
    return claimed;
  }

  async isBusy(sessionId: string): Promise<boolean> {
    const row = await this.#session(sessionId);
    return row !== undefined && row.turn !== null;
  }

  async addHandoff({ id, owner, sessionId, messages }: Handoff): Promise<void> {
    const row = {
      id,
      owner: toKey(owner),
      session_id: toKey(sessionId),
      created_at: Date.now(),
      messages: toJson(messages),
    };
    await this.#db.transaction().execute(async (transaction) => {
      await transaction
        .deleteFrom("chat_handoffs")
        .where("id", "=", row.id)
        .where("owner", "=", row.owner)
        .execute();
      await transaction.insertInto("chat_handoffs").values(row).execute();
    });
  }

  async getHandoff(id: string, owner: string): Promise<Handoff | undefined> {
    const row = await this.#db
      .selectFrom("chat_handoffs")
      .selectAll()
      .where("id", "=", toKey(id))
      .where("owner", "=", toKey(owner))
      .executeTakeFirst();
    if (row === undefined) return undefined;
    const { session_id: sessionId, messages } = row;
    return { id, owner, sessionId, messages: fromJson<unknown[]>(messages) ?? [] };
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
