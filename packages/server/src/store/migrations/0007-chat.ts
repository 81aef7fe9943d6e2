import type { Kysely } from "kysely";
import type { Engine } from "../database.ts";
import { columnTypes, withTableOptions } from "../schema.ts";
import { createIndex } from "./migrate.ts";

/** Conversations with models. */
export async function createChatTables(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const { code, key, text, whole } = columnTypes(engine);
  const sessions = db.schema
    .createTable("chat_sessions")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("owner", key, (column) => column.notNull())
    .addColumn("model", key, (column) => column.notNull())
    .addColumn("expert", key)
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    // The message that is being answered, and the process that does it. Empty while nothing happens.
    .addColumn("turn", code)
    .addColumn("instance", code)
    .addColumn("title", text, (column) => column.notNull())
    // JSON
    .addColumn("state", text, (column) => column.notNull());
  await withTableOptions(sessions, engine).execute();
  await createIndex(db, engine, "chat_sessions_by_owner", "chat_sessions", ["owner", "updated_at", "id"]);
  await createIndex(db, engine, "chat_sessions_by_turn", "chat_sessions", ["turn"], { sparse: "turn" });

  const messages = db.schema
    .createTable("chat_messages")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("session_id", code, (column) => column.notNull())
    .addColumn("position", "integer", (column) => column.notNull())
    .addColumn("role", code, (column) => column.notNull())
    .addColumn("status", code, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    .addColumn("updated_at", whole, (column) => column.notNull())
    // JSON: what was said, and what was done
    .addColumn("body", text, (column) => column.notNull());
  await withTableOptions(messages, engine).execute();
  await createIndex(db, engine, "chat_messages_of_session", "chat_messages", ["session_id", "position"]);

  const handoffs = db.schema
    .createTable("chat_handoffs")
    .ifNotExists()
    .addColumn("id", code, (column) => column.primaryKey())
    .addColumn("owner", key, (column) => column.notNull())
    .addColumn("session_id", code, (column) => column.notNull())
    .addColumn("created_at", whole, (column) => column.notNull())
    // JSON: messages that the client has not seen
    .addColumn("messages", text, (column) => column.notNull());
  await withTableOptions(handoffs, engine).execute();
}
