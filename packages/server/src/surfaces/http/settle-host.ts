import type { IncomingMessage } from "node:http";
import { HttpError } from "./http-error.ts";

/**
 * Sees to it that a request names one host, as HTTP/1.1 demands. HTTP/1.0 does not know the header; health checks still
 * speak it, and browsers, against which the host is checked, do not.
 */
export function settleHost(incoming: IncomingMessage): HttpError | undefined {
  const { rawHeaders, headers, httpVersion } = incoming;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  if (hosts === 1) return undefined;
  if (hosts > 1) return new HttpError("bad_request", "The request names more than one Host.");
  if (httpVersion !== "1.0") {
    return new HttpError("bad_request", "The request has no Host header, which HTTP/1.1 demands.");
  }
  headers.host = "localhost";
  return undefined;
}
