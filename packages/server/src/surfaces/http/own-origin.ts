import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";

/** The server's address as its caller knows it; the host was checked before. */
export function originOf({ headers, socket }: IncomingMessage): string {
  const isSecure = (socket as TLSSocket).encrypted === true || headers["x-forwarded-proto"] === "https";
  return `${isSecure ? "https" : "http"}://${headers.host ?? "localhost"}`;
}
