import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { isIP } from "node:net";
import { plainHost } from "../../helpers/index.ts";
import { AddressRefusedError, type AddressRules, guardedLookup, redirectHeaders } from "./address.ts";

const LONGEST_CHAIN = 5;

export interface OpenRequest {
  readonly url: string;
  readonly method: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  readonly followRedirects: boolean;
  /** Further headers that no other origin is sent after a redirect. Those whose names tell of a secret never are. */
  readonly ownHeaders?: readonly string[] | undefined;
  readonly rules: AddressRules;
  /** Keeps connections for later requests under the same rules. Default: each request has a connection of its own. */
  readonly agents?: KeptConnections | undefined;
  readonly signal: AbortSignal;
}

/** Connections that are kept open for a moment. All of them must be opened under the same rules. */
export class KeptConnections {
  readonly http = new http.Agent({ keepAlive: true, maxFreeSockets: 16, timeout: 30_000 });
  readonly https = new https.Agent({ keepAlive: true, maxFreeSockets: 16, timeout: 30_000 });

  close(): void {
    this.http.destroy();
    this.https.destroy();
  }
}

export interface OpenedResponse {
  readonly message: IncomingMessage;
  readonly status: number;
  /** Where the answer came from, without a user name or password. */
  readonly url: string;
  readonly method: string;
  readonly redirects: number;
}

interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

/**
 * Sends a request and follows its redirects; every hop is checked like the first. Resolves with the last response, its
 * body unread: the caller reads or destroys it.
 */
export async function openUrl({
  rules,
  signal,
  followRedirects,
  ownHeaders = [],
  agents,
  ...request
}: OpenRequest): Promise<OpenedResponse> {
  let hop: Hop = withCredentials({ ...request, url: parseUrl(request.url), body: request.body });
  for (let redirects = 0; ; redirects++) {
    const message = await send(hop, rules, signal, agents);
    const status = message.statusCode ?? 0;
    const location = [301, 302, 303, 307, 308].includes(status) ? message.headers.location : undefined;
    if (!followRedirects || location === undefined) {
      return { message, status, url: shownUrl(hop.url), method: hop.method, redirects };
    }
    message.destroy();
    if (redirects === LONGEST_CHAIN) {
      throw new Error(
        `${shownUrl(parseUrl(request.url))} redirected more than ${LONGEST_CHAIN} times, last to ${shownUrl(parseUrl(location, hop.url))}. Set followRedirects to false to see each step.`,
      );
    }
    hop = nextHop(hop, status, parseUrl(location, hop.url), ownHeaders);
  }
}

/** Parses a URL. Throws unless it is http or https. */
export function parseUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href);
  if (url === null)
    throw new Error(`"${text}" is not a URL. Give a whole address, for example https://example.com/data.`);
  if (url.protocol === "http:" || url.protocol === "https:") return url;
  throw new Error(`Refused ${url.protocol}//…: only http and https addresses can be requested.`);
}

function shownUrl(url: URL): string {
  const shown = new URL(url);
  shown.username = "";
  shown.password = "";
  return shown.href;
}

/**
 * Turns the user name and password in `https://user:password@host/` into a header for basic authentication,
 * as every client does.
 */
function withCredentials(hop: Hop): Hop {
  const { username, password } = hop.url;
  if (username === "" && password === "") return hop;
  const plain = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const authorization = `Basic ${Buffer.from(plain).toString("base64")}`;
  return { ...hop, headers: { authorization, ...hop.headers } };
}

async function send(
  hop: Hop,
  rules: AddressRules,
  signal: AbortSignal,
  agents: KeptConnections | undefined,
): Promise<IncomingMessage> {
  const { url, method, headers, body } = hop;
  const host = plainHost(url.hostname);
  // A URL with an IP address needs no lookup, so `guardedLookup` would not see it.
  const reason = isIP(host) === 0 ? undefined : rules.refusal(host, host);
  if (reason !== undefined) throw new AddressRefusedError(host, host, reason);
  const isSecure = url.protocol === "https:";
  const { request } = isSecure ? https : http;
  return new Promise((resolve, reject) => {
    // Without agents a connection of its own: a pooled one might have been opened under other rules.
    const outgoing = request(url, {
      method,
      headers,
      auth: "",
      agent: (isSecure ? agents?.https : agents?.http) ?? false,
      lookup: guardedLookup(rules),
      signal,
    });
    outgoing.once("response", resolve);
    outgoing.once("error", (error: NodeJS.ErrnoException) => {
      // The server closed a kept connection just when it was used again, and has seen nothing of the request.
      const isStale = outgoing.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
      if (isStale && !signal.aborted) resolve(send(hop, rules, signal, undefined));
      else reject(unreachable(error, url, signal));
    });
    outgoing.end(body);
  });
}

function nextHop(
  { url, method, headers, body }: Hop,
  status: number,
  target: URL,
  ownHeaders: readonly string[],
): Hop {
  const becomesGet =
    status === 303 ? method !== "HEAD" : (status === 301 || status === 302) && method === "POST";
  if (target.hash === "") target.hash = url.hash;
  const isSameOrigin = target.origin === url.origin;
  const kept = Object.entries(headers).filter(([name]) => isSameOrigin || !ownHeaders.includes(name));
  return withCredentials({
    url: target,
    method: becomesGet ? "GET" : method,
    headers: redirectHeaders(Object.fromEntries(kept), isSameOrigin, !becomesGet),
    body: becomesGet ? undefined : body,
  });
}

function unreachable(error: NodeJS.ErrnoException, url: URL, signal: AbortSignal): Error {
  if (error instanceof AddressRefusedError) return error;
  if (signal.aborted) return signal.reason instanceof Error ? signal.reason : error;
  const reason = reasons[error.code ?? ""] ?? `${error.message || error.code}.`;
  return new Error(`Could not reach ${url.host}: ${reason}`);
}

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: "no such host name. Check its spelling.",
  EAI_AGAIN: "its name could not be resolved just now; the machine's DNS does not answer.",
  ECONNREFUSED: "nothing listens on that port. Check the port and whether the service runs.",
  ECONNRESET: "the connection was closed before an answer came.",
  ETIMEDOUT: "the connection attempt got no answer.",
  EHOSTUNREACH: "there is no route to it from this machine.",
  ENETUNREACH: "there is no route to it from this machine.",
  CERT_HAS_EXPIRED: "its TLS certificate has expired.",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its TLS certificate is self-signed, which is not trusted.",
  SELF_SIGNED_CERT_IN_CHAIN: "its TLS certificate chain is self-signed, which is not trusted.",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its TLS certificate cannot be verified.",
  ERR_TLS_CERT_ALTNAME_INVALID: "its TLS certificate is for another host name.",
};
