import type { Grant } from "../../auth/grant.ts";
import { ChatError } from "./chat-error.ts";

/** Models are paid for: not everybody who may use a tool may use them. Throws `ChatError`. */
export function requireChatGrant({ mayChat }: Pick<Grant, "mayChat">): void {
  if (mayChat) return;
  throw new ChatError(
    "chat_forbidden",
    "This token may not talk to models. An admin can make one that may: toolrack tokens create NAME --chat.",
  );
}
