import { type IncomingMessage, ServerResponse } from "node:http";
import { securityHeaders } from "./security-headers.ts";

const entries = Object.entries(securityHeaders);
const flat = entries.flat();
const names: ReadonlySet<string> = new Set(entries.map(([name]) => name.toLowerCase()));

/**
 * An answer that has the security headers, whoever gives it. They are added when its head is written, which happens once
 * whatever way it is given: an answer whose other headers come as one list then costs Node no header object. A header
 * that the answer itself has stays as it is.
 */
export class GuardedResponse extends ServerResponse<IncomingMessage> {
  override writeHead(status: number, ...given: unknown[]): this {
    const [headers] = given;
    // What was given is passed on as it came; the types of Node's two forms do not fit into one.
    if (isPlainList(headers) && this.getHeaderNames().length === 0) {
      return super.writeHead(status, flat.concat(headers) as never);
    }
    for (const [name, value] of entries) if (!this.hasHeader(name)) this.setHeader(name, value);
    return super.writeHead(status, ...(given as [never]));
  }
}

/** Names and values in turn, none of which is said for every answer. */
function isPlainList(headers: unknown): headers is string[] {
  if (!Array.isArray(headers)) return false;
  for (let at = 0; at < headers.length; at += 2) {
    const name: unknown = headers[at];
    if (name === "Content-Type" || name === "Content-Length") continue;
    if (typeof name !== "string" || names.has(name.toLowerCase())) return false;
  }
  return true;
}
