import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import type { Logger } from "@toolrack/core";
import { ApprovalInbox } from "../../approvals/approval-inbox.ts";
import { Authenticator } from "../../auth/authenticator.ts";
import { ensureMasterToken } from "../../auth/master-token.ts";
import { serverProof } from "../../auth/server-proof.ts";
import { type CallOffice, openCallOffice } from "../../calls/open-call-office.ts";
import type { App, McpServers } from "../../index.ts";
import { openSecrets, type Secrets } from "../../secrets/open-secrets.ts";
import type { Store } from "../../store/store.ts";
import { ToolSwitches } from "../../switches/tool-switches.ts";
import type { ChatService } from "../chat/chat-service.ts";
import { createHttpApp } from "./create-http-app.ts";
import { openDoor } from "./door.ts";
import { EventFeed } from "./events/event-feed.ts";
import { publishClients } from "./events/publish-clients.ts";
import { publishLibrary } from "./events/publish-library.ts";
import { publishApprovals, publishLoads, publishMcpServers, publishRack } from "./events/publish-rack.ts";
import { ReloadLog } from "./events/reload-log.ts";
import { GuardedResponse } from "./guarded-response.ts";
import { HttpError } from "./http-error.ts";
import { Metrics } from "./metrics/metrics.ts";
import { type Mount, mountServer } from "./mount.ts";
import { oauthCallbackMount } from "./oauth-callback.ts";
import type { HttpParts } from "./parts.ts";
import { RateLimiter } from "./rate-limiter.ts";
import { refuseBrokenRequest, refuseConnect, unknownExpectation } from "./refuse-broken-request.ts";
import { sendError } from "./send.ts";
import { defaultHttpSettings, type HttpSettings } from "./settings.ts";
import { settleHost } from "./settle-host.ts";
import { settleTarget } from "./settle-target.ts";

export interface ServerOptions extends Partial<HttpSettings> {
  readonly app: Pick<App, "workspace" | "config" | "registry" | "files" | "skills" | "report" | "sandbox">;
  readonly store: Store;
  /** Where the app's own questions wait. Without it the inbox shows those that others left in the store. */
  readonly approvals?: ApprovalInbox;
  /** Where calls are handed in, when other surfaces share it. It is closed with the server. */
  readonly calls?: CallOffice;
  /** The upstream MCP servers. They belong to whoever opened them. */
  readonly mcpServers?: McpServers;
  /** Takes up what other processes on the same store switch. */
  readonly follower?: { follow(part: { refresh(): Promise<void> }): () => void };
  /** Answers a request for a page of the console and says so, or leaves it to the API. */
  readonly pages?: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;
  /** Conversations with models. They belong to whoever opened them. */
  readonly chat?: ChatService;
  /** Those of the workspace are opened when not given. */
  readonly secrets?: Secrets;
  /** The MCP clients that were seen. */
  readonly clients?: HttpParts["clients"];
  /** The words that start the program again, from any folder. */
  readonly program?: readonly string[];
  /** What is served beside the API. */
  readonly mounts?: readonly Mount[];
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 7300; 0 takes any free one. */
  readonly port?: number;
  readonly logger: Logger;
}

export interface RunningServer {
  readonly url: string;
  /** The workspace's own token. */
  readonly token: string;
  /**
   * Stops taking work, lets calls end for a while, cancels the rest, and resolves when their records are written.
   * The app and the store stay open: they belong to whoever opened them.
   */
  close(): Promise<void>;
}

/** Serves a workspace over HTTP. Rejects when the address cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const {
    app,
    store,
    approvals: given,
    calls: openOffice,
    mcpServers,
    follower,
    chat,
    secrets,
    clients,
    program,
    mounts = [],
    pages = () => false,
    logger,
    ...others
  } = options;
  const { host = "127.0.0.1", port = 7300, ...settings } = others;
  const { registry, files } = app;
  const token = await ensureMasterToken(app.workspace.directory);
  const approvals = given ?? (await ApprovalInbox.open({ store, logger }));
  let stopping = false;

  const whole: HttpSettings = { ...defaultHttpSettings, ...withoutUndefined(settings) };
  const { maxCallsPerTool } = whole;
  const { calls, tokens } = store;
  const office = openOffice ?? openCallOffice({ registry, calls, tokens, logger, maxCallsPerTool });
  const { desk, recorder } = office;
  const feed = new EventFeed({ size: whole.feedSize, heartbeat: whole.heartbeat });
  const metrics = new Metrics();
  const reloads = new ReloadLog(app.report);
  const unsubscribe = [metrics.listen, publishRack(feed, desk)].map((listen) => registry.subscribe(listen));
  unsubscribe.push(approvals.subscribe(publishApprovals(feed)), files.subscribe(publishLoads(feed)));
  if (mcpServers !== undefined) unsubscribe.push(mcpServers.subscribe(publishMcpServers(feed, mcpServers)));
  if (clients !== undefined) unsubscribe.push(clients.subscribe(publishClients(feed)));
  unsubscribe.push(files.subscribe(reloads.listen));
  // After those who tell of changes: its own changes are told after the ones that it answers.
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
  if (follower !== undefined) unsubscribe.push(follower.follow(switches));
  unsubscribe.push(() => switches.close(), publishLibrary(feed, { skills: app.skills, switches }));
  const { directory } = app.workspace;
  const parts: HttpParts = {
    workspace: app.workspace,
    config: app.config,
    registry,
    files,
    sandbox: app.sandbox,
    skills: app.skills,
    store,
    approvals,
    switches,
    secrets: secrets ?? (await openSecrets({ directory: join(directory, ".toolrack"), store })),
    reloads,
    clients,
    program,
    mcpServers,
    chat,
    authenticator: new Authenticator(token, store.tokens),
    desk,
    recorder,
    feed,
    metrics,
    limiter: whole.rateLimit === false ? undefined : new RateLimiter(whole.rateLimit),
    settings: whole,
    logger,
    prove: (at, nonce) => serverProof(token, at, nonce),
    stopping: () => stopping,
  };

  const server = makeServer(
    parts,
    mcpServers === undefined ? mounts : [...mounts, oauthCallbackMount(mcpServers)],
    pages,
  );
  const stop = async () => {
    stopping = true;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    await office.close(whole.drainTimeout);
    feed.close();
    await Promise.all(mounts.map((mount) => mount.close?.()));
    for (const end of unsubscribe) end();
    metrics.close();
    // Answers are on their way; who has not taken them in a moment holds the connection for nothing.
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP);
    const patience = setTimeout(() => server.closeAllConnections(), LAST_WORDS);
    await closed;
    clearInterval(sweep);
    clearTimeout(patience);
  };
  try {
    await listen(server, host, port);
  } catch (thrown) {
    await stop();
    throw thrown;
  }
  let stopped: Promise<void> | undefined;
  return {
    url: urlOf(server, host),
    token,
    close() {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** How long an answer may take to leave once everything else has ended. */
const LAST_WORDS = 1_000;
const SWEEP = 10;

function makeServer(
  parts: HttpParts,
  mounts: readonly Mount[],
  pages: NonNullable<ServerOptions["pages"]>,
): Server {
  const { headersTimeout, requestTimeout } = parts.settings;
  const door = openDoor(parts);
  const http = createHttpApp(parts, door);
  const serveMount = mountServer(mounts, door, parts);
  const answer = getRequestListener(http.fetch, {
    // Tools run in this process: its globals stay what Node makes them.
    overrideGlobalObjects: false,
    errorHandler(thrown) {
      const error = new HttpError("bad_request", "The URL or the Host header of the request cannot be read.");
      parts.logger.debug("A request was refused:", thrown);
      return Response.json(error.toEnvelope(), { status: error.status });
    },
  });
  const options = {
    ServerResponse: GuardedResponse,
    headersTimeout,
    requestTimeout,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
    // Node would refuse it in words of its own.
    requireHostHeader: false,
  };
  const server = createServer(options, (incoming, outgoing) => {
    outgoing.on("error", () => {}); // The caller went away; whoever waits for it is told by `close`.
    const unclear = settleHost(incoming) ?? settleTarget(incoming);
    if (unclear !== undefined) return sendError(unclear, incoming, outgoing, parts, "(none)");
    if (serveMount(incoming, outgoing)) return;
    if (!door.knowsHost(incoming) || !pages(incoming, outgoing)) void answer(incoming, outgoing);
  });
  // A caller may close its side once it has asked. Node's types do not know this property; `net` has had it always.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on("clientError", refuseBrokenRequest);
  server.on("connect", refuseConnect);
  server.on("checkExpectation", (incoming, outgoing) => {
    sendError(unknownExpectation(), incoming, outgoing, parts, "(none)");
  });
  return server;
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(describe(error, host, port)));
    server.listen(port, host, resolve);
  });
}

function describe(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const place = `${host}:${port}`;
  switch (error.code) {
    case "EADDRINUSE":
      return new Error(`Another program listens on ${place}. Stop it, or choose another port.`, {
        cause: error,
      });
    case "EACCES":
      return new Error(`This user may not listen on ${place}. Choose a port above 1023.`, { cause: error });
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new Error(`This machine has no address ${host}. Choose one that it has.`, { cause: error });
    default:
      return error;
  }
}

/** Where a person on this machine finds it: an address that stands for all is none. */
function urlOf(server: Server, host: string): string {
  // Only a server on a pipe has no port.
  const { port } = server.address() as AddressInfo;
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
}

function withoutUndefined(settings: Partial<HttpSettings>): Partial<HttpSettings> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
