import type { IncomingMessage, ServerResponse } from "node:http";
import { isFullDisk } from "../../store/database/error-kind.ts";
import { HttpError } from "./http-error.ts";
import { jsonText } from "./json-text.ts";
import type { HttpParts } from "./parts.ts";

export const json = "application/json; charset=utf-8";

/** Straight to Node: a `Response` would only be taken apart again on its way. */
export function sendText(
  outgoing: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  outgoing.writeHead(status, { ...headers, "Content-Length": Buffer.byteLength(text) });
  outgoing.end(text);
}

/** The one place in which whatever was thrown becomes an answer. */
export function sendError(
  thrown: unknown,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { metrics, logger }: Pick<HttpParts, "metrics" | "logger">,
  route: string,
): void {
  const error = HttpError.from(thrown) ?? hideFailure(thrown, logger);
  metrics.countRequest(incoming.method ?? "", route, error.status);
  if (outgoing.headersSent) {
    // A stream that has begun cannot be given another status; a break is all that its reader can notice.
    outgoing.destroy();
    return;
  }
  sendText(outgoing, error.status, jsonText(error.toEnvelope()), { "Content-Type": json, ...error.headers });
}

/** What failed inside is for the log, not for whoever asked. */
function hideFailure(thrown: unknown, logger: HttpParts["logger"]): HttpError {
  logger.error("A request failed:", thrown);
  if (isFullDisk(thrown)) {
    return new HttpError(
      "internal_error",
      "The disk on which the rack keeps its data is full, so this was not done, or not all of it. Make room there, look what there is now, and do the rest.",
    );
  }
  return new HttpError("internal_error", "The server failed to answer this request. Its log says why.");
}
