import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
  STATUS_CODES,
} from "node:http";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import type { Authentication, Authenticator } from "../access/index.ts";
import { type Grant, masterGrant } from "../access/index.ts";
import { HttpError } from "./wire/index.ts";

interface GuardOptions {
  readonly authenticator: Authenticator;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  /** How many requests each token except the master token may make. `false` sets no limit. */
  readonly rateLimit: false | RateLimit;
  /** Among how many servers the requests of a token are divided. Default: there is no other. */
  readonly nodes?: { readonly servers: number };
}

/** Checks every request before it is handled. Each check refuses by throwing `HttpError`. */
export class RequestGuard {
  readonly #options: GuardOptions;
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #limiter: RateLimiter | undefined;
  /** True once the server was told to stop. */
  isStopping = false;
  /** True once the server is about to stop. It still takes requests, but asks for no more. */
  isDraining = false;

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#hosts = new Set(options.allowedHosts.map((host) => host.toLowerCase()));
    this.#origins = new Set(options.allowedOrigins);
    this.#limiter =
      options.rateLimit === false ? undefined : new RateLimiter(options.rateLimit, undefined, options.nodes);
  }

  /** Whether the Host header names this server. */
  knowsHost({ headers }: IncomingMessage): boolean {
    return isKnownHost(headers.host, this.#hosts);
  }

  /** Checks host and origin. Answers a CORS preflight itself and returns true for it. */
  check(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const { host, origin } = incoming.headers;
    if (!ownHosts.has(host ?? "") && !isKnownHost(host, this.#hosts)) refuseHost(host);
    if (origin === undefined || !checkOrigin(origin, host, this.#origins)) return false;
    outgoing.setHeader("Access-Control-Allow-Origin", origin);
    outgoing.setHeader("Access-Control-Expose-Headers", "*");
    outgoing.setHeader("Vary", "Origin");
    const isPreflight =
      incoming.method === "OPTIONS" && incoming.headers["access-control-request-method"] !== undefined;
    if (isPreflight) outgoing.writeHead(204, preflightHeaders).end();
    return isPreflight;
  }

  /**
   * Returns the grant of the caller's token, at once when the token was seen before. Throws when the token is
   * invalid or makes too many requests, or the server is stopping.
   */
  admit(
    incoming: IncomingMessage,
    queryToken: string | null = null,
    found = this.#options.authenticator.authenticate({
      authorization: incoming.headers.authorization,
      query: queryToken ?? undefined,
    }),
  ): Grant | Promise<Grant> {
    if (found instanceof Promise) return found.then((one) => this.admit(incoming, queryToken, one));
    if (!found.ok) throw unauthorized(found.reason);
    if (found.grant !== masterGrant) this.limitRate(found.grant, 1);
    if (!this.isStopping) return found.grant;
    throw new HttpError("stopping", "The server is stopping and takes no new work.", {
      headers: { Connection: "close" },
    });
  }

  /**
   * Throws when the token makes too many requests. A request that does the work of several counts as several.
   */
  limitRate(grant: Grant, count: number): void {
    // The operator's master token has no limit, so that the operator gets in while others flood the server.
    const wait = grant === masterGrant ? 0 : (this.#limiter?.take(grant.id, count) ?? 0);
    if (wait === 0) return;
    const message = `This token makes too many requests; wait ${wait.toFixed(2)} seconds.`;
    throw new HttpError("rate_limited", message, { headers: { "Retry-After": String(Math.ceil(wait)) } });
  }
}

type Complaint = Extract<Authentication, { ok: false }>["reason"];

const complaints: Record<Complaint, string> = {
  missing: "This request needs a token",
  malformed: "The Authorization header holds no bearer token",
  unknown: "Nobody has this token",
  expired: "This token has expired",
};

function unauthorized(reason: Complaint): HttpError {
  const advice = "Send `Authorization: Bearer <token>`; the workspace keeps its own in .toolrack/token.";
  const challenge = reason === "missing" ? "" : ', error="invalid_token"';
  return new HttpError("unauthorized", `${complaints[reason]}. ${advice}`, {
    details: { reason },
    headers: { "WWW-Authenticate": `Bearer realm="toolrack"${challenge}` },
  });
}

/**
 * Refuses requests for other hosts. In a DNS rebinding attack, the attacker's page still sends its own host
 * name in the Host header. IP addresses cannot be rebound, so they are allowed.
 */
function refuseHost(host: string | undefined): never {
  if (host !== undefined && /[\s/?#@\\]/.test(host.trim())) {
    throw new HttpError("bad_request", "The URL or the Host header of the request cannot be read.");
  }
  const message = `This server does not answer for the host "${hostName(host ?? "")}". Use its address, or add the name to the allowed hosts.`;
  throw new HttpError("host_not_allowed", message);
}

function isKnownHost(host: string | undefined, allowed: ReadonlySet<string>): boolean {
  if (host === undefined) return allowed.has("");
  if (ownHosts.has(host)) return true;
  const name = hostName(host);
  if (!isAddress(name) && name !== "localhost" && !name.endsWith(".localhost")) return allowed.has(name);
  if (ownHosts.size >= MOST_OWN) ownHosts.clear();
  ownHosts.add(host);
  return true;
}

/** Cache of Host headers that name this machine: the same few come with every request. */
const ownHosts = new Set<string>();
const MOST_OWN = 100;

function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name) === 4 || (name.startsWith("[") && name.endsWith("]") && isIP(name.slice(1, -1)) === 6);
}

/** Refuses requests from pages of other origins. Returns whether the answer needs CORS headers. */
function checkOrigin(origin: string, host: string | undefined, allowed: ReadonlySet<string>): boolean {
  if (allowed.has(origin)) return true;
  // The host was checked before, so a page from that host is the server's own.
  if (host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)) return false;
  const message = `Pages of ${origin} may not use this server. Add the origin to the allowed origins if they should.`;
  throw new HttpError("origin_not_allowed", message);
}

const preflightHeaders = {
  "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
  // OpenAI's clients and those of MCP have headers of their own. The asterisk stands for all but Authorization.
  "Access-Control-Allow-Headers": "Authorization, *",
  "Access-Control-Max-Age": "600",
};

interface RateLimit {
  /** How many requests a second are allowed in the long run. */
  readonly perSecond: number;
  /** How many requests may come at once. */
  readonly burst: number;
}

/** Limits requests by a token bucket for each key. */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #nodes: { readonly servers: number };
  readonly #buckets = new Map<string, { tokens: number; filledAt: number }>();

  /** Of the limit, each of several servers lets its part through: callers are divided evenly among them. */
  constructor(limit: RateLimit, now: () => number = () => performance.now(), nodes = { servers: 1 }) {
    this.#limit = limit;
    this.#now = now;
    this.#nodes = nodes;
  }

  /** Takes `count` tokens, all or none. Returns 0, or the seconds until there will be enough. */
  take(key: string, count = 1): number {
    const { servers } = this.#nodes;
    const perSecond = this.#limit.perSecond / servers;
    const burst = Math.max(1, this.#limit.burst / servers);
    const now = this.#now();
    const bucket = this.#buckets.get(key) ?? { tokens: burst, filledAt: now };
    this.#buckets.set(key, bucket);
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond);
    bucket.filledAt = now;
    // A count larger than the bucket passes when the bucket is full.
    const wanted = Math.min(count, burst);
    if (bucket.tokens < wanted) return (wanted - bucket.tokens) / perSecond;
    bucket.tokens -= wanted;
    return 0;
  }
}

/** Answers broken requests: bytes that are not HTTP, headers that are too large, a sender that is too slow. */
export function refuseBrokenRequest(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  refuse(socket, refusalOf(error.code));
}

/** The server is no proxy, so it refuses CONNECT. */
export function refuseConnect(_: IncomingMessage, socket: Duplex): void {
  // The client may be gone already.
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

/** Headers of every answer. Pages of other origins must not run, frame, cache or read what is served. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cache-Control": "no-store",
};

const entries = Object.entries(securityHeaders);
const names: ReadonlySet<string> = new Set(entries.map(([name]) => name.toLowerCase()));
/** As they are written, each with its line end. */
const securityText = entries.map(([name, value]) => `${name}: ${value}\r\n`).join("");

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * A response that always has the security headers. They are added when the head is written, which is cheap
 * for Node when the answer passes its own headers as one list. Headers that the answer sets itself are kept.
 */
export class GuardedResponse extends ServerResponse<IncomingMessage> {
  /** Sent with the head. A header that is set before would make the head slow to write. */
  requestId?: string;
  #isPlain = false;

  override writeHead(status: number, reason?: string | Headers, headers?: Headers): this {
    if (Array.isArray(reason) && this.getHeaderNames().length === 0) {
      // `reason` is a flat list of header names and values.
      let isPlain = storeHeader !== undefined;
      for (let at = 0; at < reason.length; at += 2) {
        const name = reason[at];
        if (name === "Content-Type" || name === "Content-Length") continue;
        if (typeof name !== "string" || names.has(name.toLowerCase())) isPlain = false;
      }
      const own = this.requestId === undefined ? reason : ["X-Request-Id", this.requestId, ...reason];
      this.#isPlain = isPlain;
      if (isPlain) return super.writeHead(status, own);
    }
    if (this.requestId !== undefined) this.setHeader("X-Request-Id", this.requestId);
    for (const [name, value] of entries) if (!this.hasHeader(name)) this.setHeader(name, value);
    return typeof reason === "string"
      ? super.writeHead(status, reason, headers)
      : super.writeHead(status, reason);
  }

  /**
   * Node writes the head here, and its types leave it out. Behind the first line, the security headers come as one text:
   * with seven headers to check and add one by one, a head takes 0.6 µs, and 0.3 so.
   */
  _storeHeader(firstLine: string, headers: unknown): void {
    storeHeader?.call(this, this.#isPlain ? firstLine + securityText : firstLine, headers);
  }
}

/** Undefined if a later Node has it no more. The headers are then set one by one. */
const { _storeHeader: storeHeader } = ServerResponse.prototype as {
  _storeHeader?: (firstLine: string, headers: unknown) => void;
};

const SLASH = "/".charCodeAt(0);

/**
 * Makes sure that a request names one host, as HTTP/1.1 demands, and that its target is a path. When the target is a
 * whole URL, as for a proxy, the host of that URL counts and not the Host header.
 */
export function settleTarget(incoming: IncomingMessage): void {
  const { rawHeaders, headers, httpVersion, url = "" } = incoming;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  if (hosts > 1) throw new HttpError("bad_request", "The request names more than one Host.");
  // HTTP/1.0 has no Host header. Health checks still use HTTP/1.0; browsers, because of which the host is
  // checked, do not.
  if (hosts === 0 && httpVersion !== "1.0") {
    throw new HttpError("bad_request", "The request has no Host header, which HTTP/1.1 demands.");
  }
  if (hosts === 0) headers.host = "localhost";
  if (url.charCodeAt(0) === SLASH || url === "*") return;
  // A user and password before the host are refused, because they can make one host look like another.
  const found = /^https?:\/\/([^/?#@]+)([/?].*)?$/i.exec(url);
  if (found === null) {
    throw new HttpError(
      "bad_request",
      "The target of the request is neither a path nor an address that begins with http://.",
    );
  }
  const [, host, rest = "/"] = found;
  incoming.headers.host = host;
  incoming.url = rest.startsWith("/") ? rest : `/${rest}`;
}
