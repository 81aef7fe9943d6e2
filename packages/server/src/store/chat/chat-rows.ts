import { sql } from "kysely";
import { fromJson } from "../database/stored-json.ts";
import type { ChatMessage, ChatSession } from "./chat-store.ts";
import type { ChatMessageRow, ChatSessionRow } from "./chat-tables.ts";

export function toSession(row: ChatSessionRow): ChatSession {
  return {
    id: row.id,
    owner: row.owner,
    title: row.title,
    model: row.model,
    ...(row.expert === null ? {} : { expert: row.expert }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    running: row.turn !== null,
    state: fromJson<ChatSession["state"]>(row.state) ?? {},
  };
}

/** What a body may take to be read, and what the bodies of a page take together, in bytes. */
const MOST_READ = 100_000_000;
const MOST_IN_PAGE = 4_000_000;

/** How many bytes a body takes: every engine knows without reading it. */
export const octets = sql<number | string>`octet_length(body)`;
/** The body, unless it is too large: reading one like that would take the whole process with it. */
export const readableBody = sql<
  string | null
>`case when octet_length(body) <= ${sql.lit(MOST_READ)} then body end`;

/** At least one; those that are not read take nothing. */
export function howManyFit(sizes: readonly number[]): number {
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

export function toMessage(row: ReadMessageRow): ChatMessage {
  return {
    id: row.id,
    sessionId: row.session_id,
    position: row.position,
    role: row.role,
    status: row.status === "stopping" ? "running" : row.status,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    body: fromJson<ChatMessage["body"]>(row.body) ?? {},
    ...(row.body === null ? { unread: Number(row.octets) } : {}),
  };
}
