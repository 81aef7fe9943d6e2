import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, isIPv6 } from "node:net";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import type { Logger, ToolRegistry } from "@toolrack/core";
import {
  Authenticator,
  ensureMasterToken,
  openSecrets,
  type Secrets,
  serverProof,
  ToolSwitches,
} from "../access/index.ts";
import type { CallLog } from "../calls/index.ts";
import { ApprovalInbox, type CallBook, type CallOffice, openCallOffice } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import type { LoadReport, ToolFiles } from "../files/index.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { SkillLibrary } from "../skills/index.ts";
import type { Store } from "../store/index.ts";
import { createHttpApp, type HttpParts, mountServer } from "./app.ts";
import { EventFeed } from "./events.ts";
import { oauthCallbackMount } from "./identity.ts";
import { Metrics } from "./metrics.ts";
import {
  publishApprovals,
  publishClients,
  publishLibrary,
  publishLoads,
  publishMcpServers,
  publishRack,
  ReloadLog,
} from "./publish.ts";
import {
  GuardedResponse,
  openDoor,
  RateLimiter,
  refuseBrokenRequest,
  refuseConnect,
  unknownExpectation,
} from "./request-guard.ts";
import type { HttpExtension, Mount } from "./wire/index.ts";
import { HttpError, sendError } from "./wire/index.ts";

/** The part of an opened workspace that is served. */
export interface ServedApp {
  readonly workspace: Workspace;
  readonly config: Config;
  readonly registry: ToolRegistry;
  readonly files: ToolFiles;
  readonly skills: SkillLibrary;
  /** What opening it found. */
  readonly report: LoadReport;
  readonly sandbox: () => Promise<Sandbox>;
  /** Who is behind a call. */
  readonly book: CallBook;
  readonly log: CallLog;
}

export interface ServerOptions extends Partial<HttpSettings> {
  readonly app: ServedApp;
  readonly store: Store;
  /** Where the app's own questions wait. Without it the inbox shows those that others left in the store. */
  readonly approvals?: ApprovalInbox;
  /** Where calls are handed in, when other surfaces share it. It is closed with the server. */
  readonly calls?: CallOffice;
  /** The upstream MCP servers. They belong to whoever opened them. */
  readonly mcpServers?: McpServers;
  /** Answers a request for a page of the console and says so, or leaves it to the API. */
  readonly pages?: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;
  /** Routes of other surfaces, after the API's own. */
  readonly extensions?: readonly HttpExtension[];
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
    extensions = [],
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
  const office = openOffice ?? openCallOffice({ book: app.book, store, logger, maxCallsPerTool });
  const { desk, recorder } = office;
  const feed = new EventFeed({ size: whole.feedSize, heartbeat: whole.heartbeat });
  const metrics = new Metrics();
  const reloads = new ReloadLog(app.report);
  const unsubscribe = [
    registry.subscribe(metrics.listen, ["record"]),
    registry.subscribe(publishRack(feed, desk)),
  ];
  unsubscribe.push(approvals.subscribe(publishApprovals(feed)), files.subscribe(publishLoads(feed)));
  if (mcpServers !== undefined) unsubscribe.push(mcpServers.subscribe(publishMcpServers(feed, mcpServers)));
  if (clients !== undefined) unsubscribe.push(clients.subscribe(publishClients(feed)));
  unsubscribe.push(files.subscribe(reloads.listen));
  // After those who tell of changes: its own changes are told after the ones that it answers.
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
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
    log: app.log,
    approvals,
    switches,
    secrets: secrets ?? (await openSecrets({ directory: join(directory, ".toolrack"), store })),
    reloads,
    clients,
    program,
    mcpServers,
    grantsChanged: async () => {
      for (const extension of extensions) await extension.grantsChanged?.();
    },
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
    extensions,
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
  extensions: readonly HttpExtension[],
  mounts: readonly Mount[],
  pages: NonNullable<ServerOptions["pages"]>,
): Server {
  const { headersTimeout, requestTimeout } = parts.settings;
  const door = openDoor(parts);
  const http = createHttpApp(parts, door, extensions);
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

/**
 * Sees to it that a request names one host, as HTTP/1.1 demands. HTTP/1.0 does not know the header; health checks still
 * speak it, and browsers, against which the host is checked, do not.
 */
function settleHost(incoming: IncomingMessage): HttpError | undefined {
  const { rawHeaders, headers, httpVersion } = incoming;
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  if (hosts === 1) return undefined;
  if (hosts > 1) return new HttpError("bad_request", "The request names more than one Host.");
  if (httpVersion !== "1.0") {
    return new HttpError("bad_request", "The request has no Host header, which HTTP/1.1 demands.");
  }
  headers.host = "localhost";
  return undefined;
}

const SLASH = "/".charCodeAt(0);

/**
 * Brings the target of a request into its usual form, a path. A request that names the whole address, as those to a proxy
 * do, is for the host of that address, whatever its Host header says. To be called when that has been settled.
 */
function settleTarget(incoming: IncomingMessage): HttpError | undefined {
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

/** How the HTTP surface behaves. Every value has a safe default. */
export interface HttpSettings {
  /** Host names under which the server is reached, beside `localhost` and IP addresses. */
  readonly allowedHosts: readonly string[];
  /** Origins such as `https://app.example` whose pages may use the API. Default: only the server's own pages. */
  readonly allowedOrigins: readonly string[];
  /** The largest body, in bytes. Default 10 MiB. */
  readonly maxBody: number;
  /** Requests a second, and at once, for each token but the master. `false` sets no limit. */
  readonly rateLimit: false | { readonly perSecond: number; readonly burst: number };
  /** How many calls of one tool may be under way through this surface. Default 256. */
  readonly maxCallsPerTool: number;
  /** How long the headers, and the whole request, may take to arrive, in milliseconds. */
  readonly headersTimeout: number;
  readonly requestTimeout: number;
  /** How long calls may go on after the server was told to stop, in milliseconds. Default 10,000. */
  readonly drainTimeout: number;
  /** How often a silent event stream shows that it lives, in milliseconds. Default 15,000. */
  readonly heartbeat: number;
  /** How many events a reader that lost its connection can catch up with. Default 10,000. */
  readonly feedSize: number;
}

const defaultHttpSettings: HttpSettings = {
  allowedHosts: [],
  allowedOrigins: [],
  maxBody: 10 * 1024 * 1024,
  rateLimit: { perSecond: 100, burst: 200 },
  maxCallsPerTool: 256,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  drainTimeout: 10_000,
  heartbeat: 15_000,
  feedSize: 10_000,
};
