import type { ChatMessageStatus } from "./chat-store.ts";

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
