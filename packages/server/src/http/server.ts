import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, isIPv6, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "@toolrack/core";
import {
  Authenticator,
  ensureMasterToken,
  openValues,
  ToolSwitches,
  type ToolValues,
} from "../access/index.ts";
import {
  ApprovalInbox,
  type Calls,
  Loops,
  openCalls,
  openSchedules,
  type Schedules,
} from "../calls/index.ts";
import { type Channel, Nodes } from "../fleet/index.ts";
import { joinProtocol, serverProof } from "../helpers/server-address.ts";
import type { McpServers } from "../mcp/connect/index.ts";
import type { Store } from "../store/index.ts";
import type { ConsoleHandler } from "./console.ts";
import { callEvents, publishLibrary, publishRack, publishServices, ReloadLog } from "./event-publishers.ts";
import { EventFeed } from "./events.ts";
import { Metrics } from "./metrics.ts";
import {
  GuardedResponse,
  RequestGuard,
  refuseBrokenRequest,
  refuseConnect,
  unknownExpectation,
} from "./request-guard.ts";
import { Router } from "./router.ts";
import { apiRoutes } from "./routes/index.ts";
import { oauthCallbackMount } from "./routes/mcp-servers.ts";
import { defaultHttpSettings, type HttpServices, type HttpSettings, type ServedApp } from "./services.ts";
import type { Forwarder, HttpExtension, Mount } from "./wire/index.ts";
import { sendError } from "./wire/index.ts";

export interface ServerOptions extends Partial<HttpSettings> {
  readonly app: ServedApp;
  readonly store: Store;
  /** What the nodes on one PostgreSQL tell each other. Default: there are no others. */
  readonly channel?: Channel;
  /** Default: this node alone. */
  readonly nodes?: Nodes;
  readonly lanes?: HttpServices["lanes"];
  readonly forwarder?: Forwarder | undefined;
  /** Called when somebody asks for the end of this node. The caller of `startServer` then closes it. */
  readonly onDrain?: () => void;
  /** The approval inbox of the app. Default: a new inbox, with the questions that wait in the store. */
  readonly approvals?: ApprovalInbox;
  /** The call service, when other surfaces share it. The server closes it. */
  readonly calls?: Calls;
  /** Default: schedules that nothing runs. The server does not close them. */
  readonly schedules?: Schedules;
  /** The upstream MCP servers. The server does not close them. */
  readonly mcpServers?: McpServers;
  /** Returns true when it answered a request for a page of the console; false leaves the request to the API. */
  readonly pages?: ConsoleHandler;
  /** Routes of other surfaces, which follow the API's own routes. */
  readonly extensions?: readonly HttpExtension[];
  /** Default: the workspace's own settings and secrets. */
  readonly values?: ToolValues;
  readonly clients?: HttpServices["clients"];
  /** The command that starts the program from any folder. */
  readonly program?: readonly string[];
  /** Surfaces that are served beside the API. */
  readonly mounts?: readonly Mount[];
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 7300; 0 takes any free port. */
  readonly port?: number;
  readonly logger: Logger;
}

export interface RunningServer {
  readonly url: string;
  /** The workspace's own token, the master token. */
  readonly token: string;
  /**
   * Says that the server is about to stop, and resolves when load balancers have had time to notice. All requests are
   * answered until then.
   */
  drain(): Promise<void>;
  /**
   * Stops accepting requests, waits for calls up to a limit, cancels the rest, and resolves when their records are
   * written. The app and the store stay open; the caller of `startServer` closes them.
   */
  close(): Promise<void>;
}

/** Serves a workspace over HTTP. Rejects when the address is not available. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const {
    app,
    store,
    logger,
    channel,
    nodes = new Nodes(options.store, {
      role: "server",
      calls: () => options.app.registry.activeCalls().length,
    }),
    lanes,
    forwarder,
    onDrain = () => {},
    approvals = await ApprovalInbox.open({ store, logger }),
    calls: openedCalls,
    schedules: openedSchedules,
    mcpServers,
    extensions = [],
    values = await openValues({ directory: join(app.workspace.directory, ".toolrack"), store }),
    clients,
    program,
    mounts = [],
    pages = () => false,
    host = "127.0.0.1",
    port = 7300,
    ...given
  } = options;
  const { registry, files, skills } = app;
  const token = await ensureMasterToken(app.workspace.directory);
  const settings: HttpSettings = { ...defaultHttpSettings, ...withoutUndefined(given) };
  const { maxCallsPerTool, feedSize, heartbeat } = settings;
  const calls =
    openedCalls ??
    openCalls({ book: app.book, store, logger, maxCallsPerTool, learning: app.config.search?.learning });
  const { service, recorder } = calls;
  const schedules = openedSchedules ?? openSchedules({ store, service, book: app.book, logger });
  const feed = new EventFeed({ size: feedSize, heartbeat }, channel);
  const metrics = new Metrics();
  const reloads = new ReloadLog(app.report);
  const publish = publishRack(feed, service);
  const unsubscribe = [
    registry.subscribe(metrics.listen, ["record"]),
    registry.subscribe(publish, ["tools"]),
    ...publishServices(feed, { approvals, files, mcpServers, clients }),
    files.subscribe(reloads.listen),
  ];
  feed.onFirstReader = () => unsubscribe.push(registry.subscribe(publish, callEvents));
  // The switches are opened after the publishers, so that their changes are published after the changes that
  // caused them.
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
  unsubscribe.push(() => switches.close(), ...publishLibrary(feed, skills, switches));
  const loops = new Loops({ registry, store, logger, shared: { book: app.book, channel, nodes } });
  unsubscribe.push(() => void loops.close());
  const authenticator = new Authenticator(token, store.tokens);
  // A token that another node took back stops working here too.
  const followingTokens = store.follower.follow("tokens", {
    refresh: async (isAnnounced) => {
      if (!isAnnounced) return;
      authenticator.forget();
      await Promise.all([service.endWithdrawn(), feed.endWithdrawn()]);
      for (const extension of extensions) await extension.grantsChanged?.();
    },
    failed: (error) => logger.warn("Tokens that others changed could not be read:", error),
  });
  unsubscribe.push(() => void followingTokens.stop());
  const guard = new RequestGuard({ ...settings, authenticator, nodes });
  const services: HttpServices = {
    ...app,
    ...{
      store,
      nodes,
      lanes,
      forwarder,
      approvals,
      schedules,
      switches,
      loops,
      values,
      reloads,
      clients,
      program,
      mcpServers,
      authenticator,
      guard,
    },
    ...{ service, recorder, feed, metrics, settings, logger },
    drain: async (node) => {
      if (node === store.instance.id) onDrain();
      else await channel?.request(node, DRAIN, {});
    },
    grantsChanged: async () => {
      for (const extension of extensions) await extension.grantsChanged?.();
    },
    prove: (at, nonce) => serverProof(token, at, nonce),
  };
  const signIns = mcpServers === undefined ? [] : [oauthCallbackMount(mcpServers)];
  const routes = apiRoutes(services, extensions);
  const router = new Router(services, { routes, mounts: [...mounts, ...signIns], pages });
  const server = makeServer(router, services);
  unsubscribe.push(channel?.listen(DRAIN, () => onDrain()) ?? (() => {}));
  const { drainDelay = channel?.isShared === true ? DRAIN_DELAY : 0 } = settings;
  // Load balancers learn that they should ask others, and clients that they should connect anew.
  const drain = async () => {
    if (drainDelay === 0) return;
    guard.isDraining = true;
    nodes.isDraining = true;
    server.prependListener("request", (_, outgoing) => {
      outgoing.shouldKeepAlive = false;
    });
    await Promise.all([nodes.announce(), wait(drainDelay)]);
  };
  const stop = async () => {
    guard.isStopping = true;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    await calls.close(settings.drainTimeout);
    feed.close();
    await Promise.all(mounts.map((mount) => mount.close?.()));
    for (const end of unsubscribe) end();
    metrics.close();
    // Closes connections as they become idle; those that have not read their last answer in time are closed too.
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP);
    const timeout = setTimeout(() => server.closeAllConnections(), LAST_ANSWERS_TIMEOUT);
    await closed;
    clearInterval(sweep);
    clearTimeout(timeout);
  };
  try {
    await listen(server, host, port);
  } catch (thrown) {
    await stop();
    throw thrown;
  }
  nodes.url = urlOf(server, host);
  forwarder?.serve(nodes.url);
  void nodes.announce();
  let stopped: Promise<void> | undefined;
  return {
    url: urlOf(server, host),
    token,
    drain,
    close() {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** The topic on which a node is asked to end. */
const DRAIN = "drain";
const DRAIN_DELAY = 5_000;

/** How long the last answers may take to be sent after everything else has ended, in milliseconds. */
const LAST_ANSWERS_TIMEOUT = 1_000;
const SWEEP = 10;

/**
 * Whether this Node asks the server which requests may change the protocol, as Node does from 24.9 on. An older one would
 * let all of them, and some programs offer HTTP/2 with every request; so with it none may, and stdio clients cannot join.
 */
const choosesUpgrades = !/^24\.[0-8]\./.test(process.versions.node);

/**
 * Milliseconds for which a connection without requests stays open. Load balancers keep theirs for a minute. With Node's 5
 * seconds, a connection would now and then close just as a request comes, which its client sees as a failure.
 */
const IDLE_CONNECTION = 75_000;

function makeServer(router: Router, services: HttpServices): Server {
  const { headersTimeout, requestTimeout } = services.settings;
  const options = {
    ServerResponse: GuardedResponse,
    headersTimeout,
    requestTimeout,
    keepAliveTimeout: IDLE_CONNECTION,
    connectionsCheckingInterval: Math.min(1_000, headersTimeout),
    // Otherwise Node would refuse requests without a Host header with its own text.
    requireHostHeader: false,
    // A request for any other protocol is answered over HTTP, as if it had not asked.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade === joinProtocol,
  };
  const server = createServer(options, router.answer);
  if (choosesUpgrades)
    server.on("upgrade", (incoming, socket, head) => {
      // It passes all checks of other requests. Then a mount takes the connection over, or it ends with the answer.
      const outgoing = new GuardedResponse(incoming);
      const connection = socket as Socket; // A server of HTTP has sockets of `net`.
      outgoing.shouldKeepAlive = false;
      connection.unshift(head);
      outgoing.assignSocket(connection);
      outgoing.on("finish", () => connection.destroySoon());
      void router.answer(incoming, outgoing, connection);
    });
  // A client may close its side after sending the request. Node's types lack this property, although `net` has always
  // had it.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on("clientError", refuseBrokenRequest);
  server.on("connect", refuseConnect);
  server.on("checkExpectation", (incoming, outgoing) => {
    sendError(unknownExpectation(), incoming, outgoing, services, "(none)");
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

/** The URL for a person on this machine. 0.0.0.0 and :: mean all addresses and cannot be opened. */
function urlOf(server: Server, host: string): string {
  // Only a server on a pipe has no port.
  const { port } = server.address() as AddressInfo;
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
}

function withoutUndefined(settings: Partial<HttpSettings>): Partial<HttpSettings> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
