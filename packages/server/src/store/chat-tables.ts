import { sql } from "kysely";
import type { Page } from "./store.ts";
import { fromJson } from "./values.ts";

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

type ChatMessageStatus = "running" | "completed" | "stopped" | "interrupted" | "error";

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

export interface ChatStore {
  addSession(session: NewChatSession): Promise<ChatSession>;
  getSession(id: string): Promise<ChatSession | undefined>;
  /** Throws `InvalidCursorError`. */
  listSessions(query: SessionQuery): Promise<Page<ChatSession>>;
  updateSession(id: string, changes: SessionChanges): Promise<ChatSession | undefined>;
  /** With its messages. Says whether there was one. */
  removeSession(id: string): Promise<boolean>;
  /** Oldest first. */
  listMessages(sessionId: string): Promise<ChatMessage[]>;
  /** The last ones of the session, or of those before one: as many as fit into some megabytes, at least one. */
  pageMessages(sessionId: string, query: MessageQuery): Promise<MessagePage>;
  getMessage(id: string): Promise<ChatMessage | undefined>;
  /**
   * Adds the messages with which a turn begins, the last of them running, and marks the session as busy: in one step, so
   * that no other process begins one too. Undefined, and nothing is added, while a turn of it runs anywhere.
   */
  beginTurn(sessionId: string, messages: readonly NewChatMessage[]): Promise<ChatMessage[] | undefined>;
  /** Resolves when it is safely written. With a status other than `running`, the session is free again. */
  saveMessage(id: string, changes: MessageChanges): Promise<void>;
  /** Asks whichever process answers a message of the session to stop. The id of that message, if there is one. */
  requestStop(sessionId: string): Promise<string | undefined>;
  /** Those of the given messages, still running, that somebody asked to stop. */
  findStopped(ids: readonly string[]): Promise<string[]>;
  /** The message of the session that is being answered, here or elsewhere, as it was last saved. */
  getRunning(sessionId: string): Promise<ChatMessage | undefined>;
  /** The running messages of processes that have ended. Each becomes this process's, and is given to one caller only. */
  claimOrphans(): Promise<ChatMessage[]>;
  /** Whether a turn of the session runs, here or elsewhere. */
  isBusy(sessionId: string): Promise<boolean>;
  /** In the place of one of the same id and owner. */
  addHandoff(handoff: Handoff): Promise<void>;
  getHandoff(id: string, owner: string): Promise<Handoff | undefined>;
}

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

/** The tables of conversations as queries see them. */
export interface ChatTables {
  chat_sessions: ChatSessionRow;
  chat_messages: ChatMessageRow;
  chat_handoffs: { id: string; owner: string; session_id: string; created_at: number; messages: string };
}

export interface ChatSessionRow {
  id: string;
  owner: string;
  model: string;
  expert: string | null;
  created_at: number;
  updated_at: number;
  turn: string | null;
  instance: string | null;
  title: string;
  state: string;
}

export interface ChatMessageRow {
  id: string;
  session_id: string;
  position: number;
  role: "user" | "assistant";
  /** `stopping`: it runs, and somebody asked to stop it. */
  status: ChatMessageStatus | "stopping";
  created_at: number;
  updated_at: number;
  body: string;
}
