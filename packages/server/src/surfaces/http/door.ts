import type { IncomingMessage, ServerResponse } from "node:http";
import type { Authentication } from "../../auth/authenticator.ts";
import { type Grant, masterGrant } from "../../auth/grant.ts";
import { checkHost, isKnownHost } from "./host-check.ts";
import { HttpError } from "./http-error.ts";
import { checkOrigin, corsHeaders, preflightHeaders } from "./origin-check.ts";
import type { HttpParts } from "./parts.ts";
import type { RateLimiter } from "./rate-limiter.ts";

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
