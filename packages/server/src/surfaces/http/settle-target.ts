import type { IncomingMessage } from "node:http";
import { HttpError } from "./http-error.ts";

const SLASH = "/".charCodeAt(0);

/**
 * Brings the target of a request into its usual form, a path. A request that names the whole address, as those to a proxy
 * do, is for the host of that address, whatever its Host header says. To be called when that has been settled.
 */
export function settleTarget(incoming: IncomingMessage): HttpError | undefined {
  const { url = "" } = incoming;
  if (url.charCodeAt(0) === SLASH || url === "*") return undefined;
  // Whoever puts a name and password before the host wants it to look like another one.
  const found = /^https?:\/\/([^/?#@]+)([/?].*)?$/i.exec(url);
  if (found === null) {
    return new HttpError(
      "bad_request",
      "The target of the request is neither a path nor an address that begins with http://.",
    );
  }
  const [, host, rest = "/"] = found;
  incoming.headers.host = host;
  incoming.url = rest.startsWith("/") ? rest : `/${rest}`;
  return undefined;
}
