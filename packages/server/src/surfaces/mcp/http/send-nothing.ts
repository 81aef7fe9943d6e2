import type { ServerResponse } from "node:http";
import type { LegacySession } from "./legacy-sessions.ts";

/** What was cancelled gets no answer: its stream ends with nothing in it, as one ends that the SDK had made. */
export function sendNothing({
  outgoing,
  session,
}: {
  readonly outgoing: ServerResponse;
  readonly session: LegacySession | undefined;
}): void {
  const headers = ["Content-Type", "text/event-stream", "Cache-Control", "no-cache, no-transform"];
  if (session !== undefined) headers.push("mcp-session-id", session.id);
  outgoing.writeHead(200, headers);
  outgoing.end();
}
