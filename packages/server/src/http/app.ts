import type { IncomingMessage, ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { type Context, Hono } from "hono";
import type { Authenticator, Grant, Secrets, ToolSwitches } from "../access/index.ts";
import type { ApprovalInbox, CallDesk, CallLog, CallRecorder } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import type { ToolFiles } from "../files/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { ConnectedClient } from "../mcp/wire/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import type { EventFeed } from "./events.ts";
import { identityRoutes } from "./identity.ts";
import type { Metrics } from "./metrics.ts";
import type { ReloadLog } from "./publish.ts";
import { checkerOf, type Door, type RateLimiter } from "./request-guard.ts";
import { approvalRoutes, approvalRuleRoutes } from "./routes/approvals.ts";
import { callRoutes } from "./routes/calls.ts";
import { mcpServerRoutes } from "./routes/mcp-servers.ts";
import { openaiRoutes } from "./routes/openai.ts";
import {
  clientRoutes,
  eventRoutes,
  healthRoutes,
  reloadRoutes,
  scheduleRoutes,
  serverRoutes,
  settingsRoutes,
  statsRoutes,
} from "./routes/server.ts";
import { skillToolRoutes } from "./routes/skill-tools.ts";
import { skillTransferRoutes } from "./routes/skill-transfer.ts";
import { expertRoutes, skillRoutes } from "./routes/skills.ts";
import { secretRoutes, tokenRoutes } from "./routes/tokens.ts";
import { toolRoutes } from "./routes/tools.ts";
import type { HttpSettings } from "./server.ts";
import type { HttpExtension, Mount, Reply, Route, RouteRequest } from "./wire/index.ts";
import { HttpError, json, jsonText, readBody, sendError, sendText } from "./wire/index.ts";

type HttpEnv = { Bindings: HttpBindings };

/** The HTTP surface as a Hono app, for a Node server. Everything in it comes from one table of routes. */
export function createHttpApp(
  parts: HttpParts,
  door: Door,
  extensions: readonly HttpExtension[],
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const routes: Route[] = [
    ...healthRoutes(parts),
    ...identityRoutes(parts),
    ...serverRoutes(
      parts,
      () => routes,
      Object.assign({}, ...extensions.map((extension) => extension.schemas)),
    ),
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
    ...extensions.flatMap((extension) => extension.routes(parts)),
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
  mayApprove: () => false,
  isApprover: false,
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

/** What the routes work with. */
export interface HttpParts {
  readonly workspace: Pick<Workspace, "directory">;
  readonly config: Pick<Config, "retention">;
  readonly registry: ToolRegistry;
  readonly files: Pick<ToolFiles, "load" | "report">;
  /** Where sandboxed tools run. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly store: Store;
  readonly log: Pick<CallLog, "held" | "lost">;
  readonly skills: SkillLibrary;
  readonly approvals: ApprovalInbox;
  readonly switches: ToolSwitches;
  readonly secrets: Secrets;
  readonly reloads: ReloadLog;
  /** The MCP clients; undefined where none are served. */
  readonly clients: ConnectedClients | undefined;
  /** The words that start the program again, from any folder; undefined where the server is a part of another program. */
  readonly program: readonly string[] | undefined;
  /** The upstream MCP servers; undefined where none are kept. */
  readonly mcpServers: McpServers | undefined;
  /** Tells the extensions that tokens changed what they may do. */
  readonly grantsChanged: () => Promise<void>;
  readonly authenticator: Authenticator;
  readonly desk: CallDesk;
  readonly feed: EventFeed;
  readonly metrics: Metrics;
  readonly limiter: RateLimiter | undefined;
  readonly settings: HttpSettings;
  readonly logger: Logger;
  readonly recorder: CallRecorder;
  /** Shows to who has the workspace's token that this is its server; see `serverProof`. */
  readonly prove: (port: number, nonce: string) => string;
  /** True once the server was told to stop. */
  readonly stopping: () => boolean;
}

/** Answers whether some mount took the request. */
export function mountServer(
  mounts: readonly Mount[],
  door: Door,
  parts: HttpParts,
): (incoming: IncomingMessage, outgoing: ServerResponse) => boolean {
  const serve = async (mount: Mount, incoming: IncomingMessage, outgoing: ServerResponse, path: string) => {
    try {
      const preflight = door.check(incoming, outgoing);
      if (preflight !== undefined) {
        outgoing.writeHead(204, preflight).end();
        return;
      }
      // Whom it knows need not wait, which costs more than to look.
      const admitted = mount.access === "open" ? undefined : admit(mount, incoming);
      const grant = admitted instanceof Promise ? await admitted : admitted;
      await mount.handle(incoming, outgoing, grant);
    } catch (thrown) {
      sendError(thrown, incoming, outgoing, parts, path);
    }
  };
  const admit = (mount: Mount, incoming: IncomingMessage): Grant | Promise<Grant> => {
    const refuse = (thrown: unknown) => {
      throw withChallenge(thrown, mount, incoming);
    };
    try {
      const admitted = door.admit(incoming);
      return admitted instanceof Promise ? admitted.catch(refuse) : admitted;
    } catch (thrown) {
      return refuse(thrown);
    }
  };
  return (incoming, outgoing) => {
    const { url = "/", method = "GET" } = incoming;
    const end = url.indexOf("?");
    const path = end === -1 ? url : url.slice(0, end);
    const mount = mounts.find((candidate) => candidate.owns(path, method));
    if (mount === undefined) return false;
    void serve(mount, incoming, outgoing, path);
    return true;
  };
}

/** What a mount says to who has no token stands beside what the server says. */
function withChallenge(thrown: unknown, mount: Mount, incoming: IncomingMessage): unknown {
  if (!(thrown instanceof HttpError) || thrown.code !== "unauthorized") return thrown;
  const challenge = mount.challenge?.(incoming);
  if (challenge === undefined) return thrown;
  const challenges = [thrown.headers["WWW-Authenticate"], challenge].filter((one) => one !== undefined);
  return new HttpError(thrown.code, thrown.message, {
    details: thrown.details,
    headers: { "WWW-Authenticate": challenges.join(", ") },
  });
}

/** The MCP clients that were seen lately. */
interface ConnectedClients {
  list(): ConnectedClient[];
  /** Returns a function that stops it. */
  subscribe(listener: (client: ConnectedClient) => void): () => void;
}
