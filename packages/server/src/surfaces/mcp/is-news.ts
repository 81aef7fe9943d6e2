/** Whether a message, once it is read as JSON, says no more when it is said twice: that something has changed. */
export function isNews(message: object): boolean {
  if ("id" in message || !("method" in message) || typeof message.method !== "string") return false;
  return message.method.endsWith("/list_changed") || message.method === "notifications/resources/updated";
}
