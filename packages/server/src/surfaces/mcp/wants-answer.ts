/** Notifications and answers are never answered, whatever is wrong with them. */
export function wantsAnswer(message: unknown): boolean {
  if (typeof message !== "object" || message === null) return true;
  if ("result" in message || "error" in message) return false;
  return "id" in message || !("method" in message) || typeof message.method !== "string";
}
