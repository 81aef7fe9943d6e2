export type ChatErrorCode =
  | "chat_session_not_found"
  | "chat_busy"
  | "chat_cancelled"
  | "chat_forbidden"
  | "expert_not_found"
  | "stopping";

/** Something that cannot be done with a conversation. Every surface says so in its own form. */
export class ChatError extends Error {
  readonly code: ChatErrorCode;

  constructor(code: ChatErrorCode, message: string) {
    super(message);
    this.name = "ChatError";
    this.code = code;
  }
}
