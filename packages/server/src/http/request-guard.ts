import { type IncomingMessage, ServerResponse, STATUS_CODES } from "node:http";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import { type CompiledSchema, compileSchema, type JsonSchemaObject } from "@toolrack/core";
import type { Authentication } from "../access/index.ts";
import { type Grant, masterGrant } from "../access/index.ts";
import type { HttpParts } from "./app.ts";
import type { Route } from "./wire/index.ts";
import { HttpError, readQuery } from "./wire/index.ts";

/** What every request passes before anything is done for it. Both refuse by throwing `HttpError`. */
export interface Door {
  /** Whether the server answers for the host that the request names. */
  knowsHost(incoming: IncomingMessage): boolean;
  /**
   * Which host is meant, and whose page asks. Answers with headers when the request only asks whether it may be made;
   * those are the whole answer.
   */
  check(incoming: IncomingMessage, outgoing: ServerResponse): Record<string, string> | undefined;
  /** Lets in who bears a token, no more often than it may: at once when the token is known. */
  admit(incoming: IncomingMessage, queryToken?: string | null): Grant | Promise<Grant>;
}

export function openDoor({ authenticator, settings, limiter, stopping }: HttpParts): Door {
  const hosts = new Set(settings.allowedHosts.map((host) => host.toLowerCase()));
  const origins = new Set(settings.allowedOrigins);
  const letIn = (found: Authentication): Grant => {
    if (!found.ok) throw unauthorized(found.reason);
    const { grant } = found;
    charge(limiter, grant, 1);
    if (stopping()) {
      throw new HttpError("stopping", "The server is stopping and takes no new work.", {
        headers: { Connection: "close" },
      });
    }
    return grant;
  };
  return {
    knowsHost: ({ headers }) => isKnownHost(headers.host, hosts),
    check(incoming, outgoing) {
      const { host, origin } = incoming.headers;
      checkHost(host, hosts);
      if (!checkOrigin(origin, host, origins) || origin === undefined) return undefined;
      for (const [name, value] of Object.entries(corsHeaders(origin))) outgoing.setHeader(name, value);
      const asks =
        incoming.method === "OPTIONS" && incoming.headers["access-control-request-method"] !== undefined;
      return asks ? preflightHeaders() : undefined;
    },
    admit(incoming, queryToken) {
      const { authorization } = incoming.headers;
      const found = authenticator.authenticate({ authorization, query: queryToken ?? undefined });
      return found instanceof Promise ? found.then(letIn) : letIn(found);
    },
  };
}

/** Throws when the bearer makes more requests than it may. A request that does the work of several counts as several. */
export function charge(limiter: RateLimiter | undefined, grant: Grant, count: number): void {
  // The master is the operator, who must get in when somebody else is flooding the server.
  const wait = grant === masterGrant ? 0 : (limiter?.take(grant.id, count) ?? 0);
  if (wait > 0) throw rateLimited(wait);
}

function rateLimited(wait: number): HttpError {
  const message = `This token makes too many requests; wait ${wait.toFixed(2)} seconds.`;
  return new HttpError("rate_limited", message, { headers: { "Retry-After": String(Math.ceil(wait)) } });
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

interface RequestCheck {
  params(values: Record<string, string>): Promise<unknown>;
  query(search: string): Promise<unknown>;
  body(value: unknown): Promise<unknown>;
}

/** Checks what a request says with the schemas of its route; those that the API's description shows. */
export function checkerOf({ params = {}, query = {}, body }: Route): RequestCheck {
  const paramSchema = compileSchema(objectOf(params, Object.keys(params)));
  const querySchema = compileSchema(objectOf(query, []));
  const bodySchema = body === undefined ? undefined : compileSchema(body.schema);
  return {
    params: (values) => checked("path", paramSchema, values),
    query: (search) => checked("query", querySchema, readQuery(search, query)),
    async body(value) {
      if (bodySchema === undefined) return undefined;
      if (value === undefined && body?.required) {
        throw new HttpError("invalid_request", "This request needs a body.", {
          details: { in: "body", issues: [] },
        });
      }
      return checked("body", bodySchema, value ?? {});
    },
  };
}

function objectOf(
  properties: Readonly<Record<string, JsonSchemaObject>>,
  required: readonly string[],
): JsonSchemaObject {
  return { type: "object", properties, required, additionalProperties: false };
}

async function checked(place: string, schema: CompiledSchema, value: unknown): Promise<unknown> {
  const outcome = await schema.validate(value, { strict: true });
  if (outcome.ok) return outcome.value;
  const { issues } = outcome;
  const list = issues.map(({ path, message }) => (path === "" ? message : `${path}: ${message}`)).join("; ");
  const message = `The ${place} of the request does not fit: ${list}`;
  throw new HttpError("invalid_request", message, { details: { in: place, issues } });
}

/**
 * Refuses requests for other hosts. A page of an attacker whose name was pointed at this machine (DNS rebinding)
 * still names its own host. IP addresses cannot be pointed elsewhere, so they are taken as they are.
 */
function checkHost(host: string | undefined, allowed: ReadonlySet<string>): void {
  if (isKnownHost(host, allowed)) return;
  const name = host === undefined ? "" : hostName(host);
  throw new HttpError(
    "host_not_allowed",
    `This server does not answer for the host "${name}". Use its address, or add the name to the allowed hosts.`,
  );
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

/** Headers that were found to name this machine itself, whatever is allowed: the same few come with every request. */
const ownHosts = new Set<string>();
const MOST_OWN = 100;

function hostName(host: string): string {
  return host.trim().toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name) === 4 || (name.startsWith("[") && name.endsWith("]") && isIP(name.slice(1, -1)) === 6);
}

/** Refuses what pages of other origins send. Says whether the answer needs CORS headers. */
function checkOrigin(
  origin: string | undefined,
  host: string | undefined,
  allowed: ReadonlySet<string>,
): boolean {
  if (origin === undefined) return false;
  if (allowed.has(origin)) return true;
  // The host itself has been checked before, so a page that it served is the server's own.
  if (host !== undefined && (origin === `http://${host}` || origin === `https://${host}`)) return false;
  throw new HttpError(
    "origin_not_allowed",
    `Pages of ${origin} may not use this server. Add the origin to the allowed origins if they should.`,
  );
}

const lifetime = "600";

function corsHeaders(origin: string): Record<string, string> {
  return {
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Expose-Headers": "Retry-After, Allow",
    Vary: "Origin",
  };
}

function preflightHeaders(): Record<string, string> {
  return {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": lifetime,
  };
}

interface Bucket {
  tokens: number;
  filledAt: number;
}

interface RateLimit {
  /** How many a second in the long run. */
  readonly perSecond: number;
  /** How many at once. */
  readonly burst: number;
}

/** A token bucket for each key. */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Takes as many, all or none. Answers 0, or after how many seconds there will be enough. */
  take(key: string, count = 1): number {
    const { perSecond, burst } = this.#limit;
    const now = this.#now();
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: burst, filledAt: now };
      this.#buckets.set(key, bucket);
    }
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.filledAt) / 1000) * perSecond);
    bucket.filledAt = now;
    // More than fit into the bucket at once are let through when it is full.
    const wanted = Math.min(count, burst);
    if (bucket.tokens < wanted) return (wanted - bucket.tokens) / perSecond;
    bucket.tokens -= wanted;
    return 0;
  }
}

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

/** On every answer. What is served here is data: nothing of it is to be run, framed, cached or read by other pages. */
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
