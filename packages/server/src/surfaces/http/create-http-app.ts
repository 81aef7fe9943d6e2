import type { IncomingMessage, ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { type Context, Hono } from "hono";
import type { Authentication } from "../../auth/authenticator.ts";
import { type Grant, masterGrant } from "../../auth/grant.ts";
import { checkerOf } from "./check-request.ts";
import { checkHost } from "./host-check.ts";
import { HttpError } from "./http-error.ts";
import { jsonText } from "./json-text.ts";
import { checkOrigin, corsHeaders, preflightHeaders } from "./origin-check.ts";
import type { HttpParts } from "./parts.ts";
import { RateLimiter } from "./rate-limiter.ts";
import { readBody } from "./read-body.ts";
import type { Reply, Route, RouteRequest } from "./route.ts";
import { approvalRuleRoutes } from "./routes/approval-rules.ts";
import { approvalRoutes } from "./routes/approvals.ts";
import { callRoutes } from "./routes/calls.ts";
import { eventRoutes } from "./routes/events.ts";
import { healthRoutes } from "./routes/health.ts";
import { openaiRoutes } from "./routes/openai.ts";
import { serverRoutes } from "./routes/server.ts";
import { toolRoutes } from "./routes/tools.ts";

export type HttpEnv = { Bindings: HttpBindings };

/** The HTTP surface as a Hono app, for a Node server. Everything in it comes from one table of routes. */
export function createHttpApp(parts: HttpParts): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const routes: Route[] = [
    ...healthRoutes(parts),
    ...serverRoutes(parts, () => routes),
    ...toolRoutes(parts),
    ...callRoutes(parts),
    ...approvalRoutes(parts),
    ...approvalRuleRoutes(parts),
    ...eventRoutes(parts),
    ...openaiRoutes(parts),
  ];
  const admit = doorkeeper(parts);
  app.use(guard(parts));
  for (const [path, siblings] of Map.groupBy(routes, (route) => route.path)) {
    const pattern = path.replaceAll(/\{(\w+)\}/g, ":$1");
    for (const route of siblings) app.on(route.method, pattern, handlerOf(route, parts, admit));
    app.all(pattern, async (context) => {
      if (!siblings.some(({ access }) => access === "open")) await admit(context.env.incoming);
      const methods = siblings.map(({ method }) => method).join(", ");
      throw new HttpError("method_not_allowed", `${path} takes ${methods}.`, { headers: { Allow: methods } });
    });
  }
  app.notFound(async (context) => {
    try {
      await admit(context.env.incoming);
      throw new HttpError(
        "not_found",
        `There is nothing at ${context.req.path}. GET /openapi.json lists what there is.`,
      );
    } catch (thrown) {
      return answerError(thrown, context, parts);
    }
  });
  app.onError((thrown, context) => answerError(thrown, context, parts));
  return app;
}

/** What comes before any route: which host is meant, and whose page asks. */
function guard({ settings }: HttpParts) {
  const hosts = new Set(settings.allowedHosts.map((host) => host.toLowerCase()));
  const origins = new Set(settings.allowedOrigins);
  return async (context: Context<HttpEnv>, next: () => Promise<void>): Promise<Response | undefined> => {
    const { incoming, outgoing } = context.env;
    const { host, origin } = incoming.headers;
    checkHost(host, hosts);
    if (checkOrigin(origin, host, origins) && origin !== undefined) {
      setHeaders(outgoing, corsHeaders(origin));
      if (incoming.method === "OPTIONS" && incoming.headers["access-control-request-method"] !== undefined) {
        return new Response(null, { status: 204, headers: preflightHeaders() });
      }
    }
    await next();
    return undefined;
  };
}

type Admit = (incoming: IncomingMessage, queryToken?: string | null) => Promise<Grant>;

/** Lets in who bears a token, no more often than it may. */
function doorkeeper({ authenticator, settings, stopping }: HttpParts): Admit {
  const limiter = settings.rateLimit === false ? undefined : new RateLimiter(settings.rateLimit);
  return async (incoming, queryToken) => {
    const { authorization } = incoming.headers;
    const found = await authenticator.authenticate({ authorization, query: queryToken ?? undefined });
    if (!found.ok) throw unauthorized(found.reason);
    const { grant } = found;
    // The master is the operator, who must get in when somebody else is flooding the server.
    const wait = grant === masterGrant ? 0 : (limiter?.take(grant.id) ?? 0);
    if (wait > 0) {
      throw new HttpError(
        "rate_limited",
        `This token makes too many requests; wait ${wait.toFixed(2)} seconds.`,
        {
          headers: { "Retry-After": String(Math.ceil(wait)) },
        },
      );
    }
    if (stopping()) {
      throw new HttpError("stopping", "The server is stopping and takes no new work.", {
        headers: { Connection: "close" },
      });
    }
    return grant;
  };
}

const complaints: Record<Extract<Authentication, { ok: false }>["reason"], string> = {
  missing: "This request needs a token",
  malformed: "The Authorization header holds no bearer token",
  unknown: "Nobody has this token",
  expired: "This token has expired",
};

function unauthorized(reason: Extract<Authentication, { ok: false }>["reason"]): HttpError {
  const advice = "Send `Authorization: Bearer <token>`; the workspace keeps its own in .toolrack/token.";
  const challenge = reason === "missing" ? "" : ', error="invalid_token"';
  return new HttpError("unauthorized", `${complaints[reason]}. ${advice}`, {
    details: { reason },
    headers: { "WWW-Authenticate": `Bearer realm="toolrack"${challenge}` },
  });
}

/** Nobody: only open routes, which do not ask, are given it. */
const nobody: Grant = {
  id: "",
  name: "",
  admin: false,
  caller: "",
  mayUse: () => false,
  mayUseExpert: () => false,
};

function handlerOf(
  route: Route,
  parts: HttpParts,
  admit: Admit,
): (context: Context<HttpEnv>) => Promise<Response> {
  const check = checkerOf(route);
  // The schemas have let through exactly what the route's own types say.
  const handle = route.handle as (request: RouteRequest<unknown, unknown, unknown>) => Reply | Promise<Reply>;
  const respond = async (context: Context<HttpEnv>): Promise<Response> => {
    const { incoming, outgoing } = context.env;
    const search = searchOf(incoming);
    const queryToken = route.tokenInQuery ? new URLSearchParams(search).get("token") : undefined;
    const grant = route.access === "open" ? nobody : await admit(incoming, queryToken);
    if (route.access === "admin" && !grant.admin) {
      throw new HttpError("forbidden", "Only an admin's token may do this.");
    }
    const params = await check.params(context.req.param());
    const query = await check.query(search);
    const body = route.body && (await check.body(await readBody(incoming, parts.settings.maxBody)));
    const reply = await handle({ params, query, body, grant, incoming, outgoing });
    const status = reply === "sent" ? outgoing.statusCode : (reply.status ?? 200);
    parts.metrics.countRequest(route.method, route.path, status);
    if (reply === "sent") return RESPONSE_ALREADY_SENT;
    const text = reply.contentType === undefined ? jsonText(reply.body) : String(reply.body);
    return send(outgoing, status, text, { "Content-Type": reply.contentType ?? json, ...reply.headers });
  };
  return (context) => respond(context).catch((thrown) => answerError(thrown, context, parts, route.path));
}

function answerError(
  thrown: unknown,
  context: Context<HttpEnv>,
  parts: HttpParts,
  route = "(none)",
): Response {
  const error = thrown instanceof HttpError ? thrown : hideFailure(thrown, parts);
  const { outgoing, incoming } = context.env;
  parts.metrics.countRequest(incoming.method ?? "", route, error.status);
  if (outgoing.headersSent) {
    // A stream that has begun cannot be given another status; a break is all that its reader can notice.
    outgoing.destroy();
    return RESPONSE_ALREADY_SENT;
  }
  return send(outgoing, error.status, jsonText(error.toEnvelope()), {
    "Content-Type": json,
    ...error.headers,
  });
}

const json = "application/json; charset=utf-8";

/** Straight to Node: a `Response` would only be taken apart again on its way. */
function send(
  outgoing: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string>,
): Response {
  outgoing.writeHead(status, { ...headers, "Content-Length": Buffer.byteLength(text) });
  outgoing.end(text);
  return RESPONSE_ALREADY_SENT;
}

/** What failed inside is for the log, not for whoever asked. */
function hideFailure(thrown: unknown, { logger }: HttpParts): HttpError {
  logger.error("A request failed:", thrown);
  return new HttpError("internal_error", "The server failed to answer this request. Its log says why.");
}

function searchOf({ url = "" }: IncomingMessage): string {
  const start = url.indexOf("?");
  return start === -1 ? "" : url.slice(start + 1);
}

function setHeaders(outgoing: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
}
