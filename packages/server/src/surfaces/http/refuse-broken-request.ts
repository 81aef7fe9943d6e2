import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { HttpError } from "./http-error.ts";

/** Answers what never became a request: bytes that are no HTTP, headers that are too large, a sender that is too slow. */
export function refuseBrokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  refuse(socket, refusalOf(error.code));
}

/** Nobody is connected to anywhere from here. */
export function refuseConnect(_: IncomingMessage, socket: Duplex): void {
  // Whoever asked may be gone already.
  socket.on("error", () => {});
  refuse(socket, new HttpError("method_not_allowed", "This server is no proxy: CONNECT leads nowhere."));
}

export function unknownExpectation(): HttpError {
  return new HttpError("expectation_failed", "Of what `Expect` can ask for, this server knows 100-continue.");
}

function refuse(socket: Duplex, refusal: HttpError): void {
  const body = JSON.stringify(refusal.toEnvelope());
  socket.end(
    [
      `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
      "",
      body,
    ].join("\r\n"),
  );
}

function refusalOf(code: string | undefined): HttpError {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new HttpError("request_timeout", "The request did not arrive in time.");
    case "HPE_HEADER_OVERFLOW":
      return new HttpError("headers_too_large", "The headers are larger than this server takes.");
    default:
      return new HttpError("bad_request", "This is not a request that HTTP/1.1 knows.");
  }
}
