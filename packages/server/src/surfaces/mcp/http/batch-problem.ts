import type { IncomingHttpHeaders } from "node:http";
import type { LegacySession } from "./legacy-sessions.ts";

/** The versions that took batches away again, as far as they have sessions. */
const unbatched: ReadonlySet<unknown> = new Set(["2025-06-18", "2025-11-25"]);

/** Why a body cannot be taken, when it is a batch in a version that has none. The session's version comes first. */
export function batchProblem(
  body: object,
  session: LegacySession | undefined,
  headers: IncomingHttpHeaders,
): string | undefined {
  if (!Array.isArray(body)) return undefined;
  const version = session?.server.getNegotiatedProtocolVersion() ?? headers["mcp-protocol-version"];
  if (!unbatched.has(version)) return undefined;
  return `${version} has no batches, and this body is one. Send each message in a request of its own.`;
}
