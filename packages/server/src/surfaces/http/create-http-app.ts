import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { type Context, Hono } from "hono";
import type { Grant } from "../../auth/grant.ts";
import { checkerOf } from "./check-request.ts";
import type { Door } from "./door.ts";
import { HttpError } from "./http-error.ts";
import { identityRoutes } from "./identity-route.ts";
import { jsonText } from "./json-text.ts";
import type { HttpParts } from "./parts.ts";
import { readBody } from "./read-body.ts";
import type { Reply, Route, RouteRequest } from "./route.ts";
import { approvalRuleRoutes } from "./routes/approval-rules.ts";
import { approvalRoutes } from "./routes/approvals.ts";
import { callRoutes } from "./routes/calls.ts";
import { chatRoutes } from "./routes/chat.ts";
import { clientRoutes } from "./routes/clients.ts";
import { completionRoutes } from "./routes/completions.ts";
import { eventRoutes } from "./routes/events.ts";
import { expertRoutes } from "./routes/experts.ts";
import { healthRoutes } from "./routes/health.ts";
import { mcpServerRoutes } from "./routes/mcp-servers.ts";
import { openaiRoutes } from "./routes/openai.ts";
import { reloadRoutes } from "./routes/reloads.ts";
import { scheduleRoutes } from "./routes/schedules.ts";
import { secretRoutes } from "./routes/secrets.ts";
import { serverRoutes } from "./routes/server.ts";
import { settingsRoutes } from "./routes/settings.ts";
import { skillToolRoutes } from "./routes/skill-tools.ts";
import { skillTransferRoutes } from "./routes/skill-transfer.ts";
import { skillRoutes } from "./routes/skills.ts";
import { statsRoutes } from "./routes/stats.ts";
import { tokenRoutes } from "./routes/tokens.ts";
import { toolRoutes } from "./routes/tools.ts";
import { json, sendError, sendText } from "./send.ts";

export type HttpEnv = { Bindings: HttpBindings };

/** The HTTP surface as a Hono app, for a Node server. Everything in it comes from one table of routes. */
export function createHttpApp(parts: HttpParts, door: Door): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const routes: Route[] = [
    ...healthRoutes(parts),
    ...identityRoutes(parts),
    ...serverRoutes(parts, () => routes),
    ...settingsRoutes(parts),
    ...reloadRoutes(parts),
    ...clientRoutes(parts),
    ...tokenRoutes(parts),
    ...secretRoutes(parts),
    ...toolRoutes(parts),
    ...callRoutes(parts),
    ...statsRoutes(parts),
    ...approvalRoutes(parts),
    ...approvalRuleRoutes(parts),
    ...scheduleRoutes(parts),
    ...mcpServerRoutes(parts),
    // Before the paths with an id, which would take `import` for one.
    ...skillTransferRoutes(parts),
    ...skillRoutes(parts),
    ...skillToolRoutes(parts),
    ...expertRoutes(parts),
    ...eventRoutes(parts),
    ...openaiRoutes(parts),
    ...completionRoutes(parts),
    ...chatRoutes(parts),
  ];
  const { admit } = door;
  app.use(async ({ env }, next) => {
    const preflight = door.check(env.incoming, env.outgoing);
    if (preflight !== undefined) return new Response(null, { status: 204, headers: preflight });
    await next();
    return undefined;
  });
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

/** Nobody: only open routes, which do not ask, are given it. */
const nobody: Grant = {
  id: "",
  name: "",
  admin: false,
  caller: "",
  mayUse: () => false,
  mayUseExpert: () => false,
  mayChat: false,
};

function handlerOf(
  route: Route,
  parts: HttpParts,
  admit: Door["admit"],
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
    sendText(outgoing, status, text, { "Content-Type": reply.contentType ?? json, ...reply.headers });
    return RESPONSE_ALREADY_SENT;
  };
  return (context) => respond(context).catch((thrown) => answerError(thrown, context, parts, route.path));
}

function answerError(
  thrown: unknown,
  context: Context<HttpEnv>,
  parts: HttpParts,
  route = "(none)",
): Response {
  const { outgoing, incoming } = context.env;
  sendError(thrown, incoming, outgoing, parts, route);
  return RESPONSE_ALREADY_SENT;
}

function searchOf({ url = "" }: IncomingMessage): string {
  const start = url.indexOf("?");
  return start === -1 ? "" : url.slice(start + 1);
}
