import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { ToolSwitches } from "../access/index.ts";
import { importTasks, Loops, openSchedules, SCHEDULE_TOOL } from "../calls/index.ts";
import { type Config, retentionOf } from "../config/index.ts";
import type { LoadReport } from "../files/index.ts";
import { reasonOf } from "../helpers/index.ts";
import { writeServerAddress } from "../helpers/server-address.ts";
import type { HttpSettings } from "../http/index.ts";
import type { StdioStreams } from "../mcp/serve/index.ts";
import type { Store } from "../store/index.ts";
import type { App, Recording } from "./app.ts";
import { openRack } from "./rack.ts";
import { startWatchdog } from "./watchdog.ts";

export interface ServeOptions {
  readonly logger: Logger;
  /** Default: the host in the config. */
  readonly host?: string;
  readonly port?: number;
  /** The command that starts the program again from any folder: Node, its options, and the program. */
  readonly program?: readonly string[];
  /**
   * Watches the event loop from a thread, and ends the process when it should stop and cannot. Only for a process that
   * does nothing else.
   */
  readonly watchdog?: boolean;
  /** A recording that is served in place of the workspace's own tools. */
  readonly recording?: Recording;
  /** Called after tool files changed and were reloaded. Without it, files are not watched. */
  readonly onReload?: (report: LoadReport) => void;
}

export interface Serving {
  readonly app: App;
  readonly store: Store;
  readonly url: string;
  /** The workspace's own token. */
  readonly token: string;
  /** How many calls of dead processes were marked as interrupted. */
  readonly interrupted: number;
  /** Whose tools are not on the rack yet: the keys of MCP servers that are starting, and `skills`. */
  readonly starting: () => string[];
  /** Resolves when somebody asks over the API for the end of this node, which is then to be closed. */
  readonly whenDraining: Promise<void>;
  /** Accepts no more calls, waits a while for running calls, cancels the rest and closes everything. */
  close(): Promise<void>;
}

/** Milliseconds that code which waits for no person may go on after the server was told to stop. */
const CODE_LIMIT = 2_000;
const DAY = 24 * 60 * 60_000;
const SECOND = 1_000;
/** How often it is looked whether records take too many bytes: a server that is kept busy writes some megabytes a second. */
const LOOK = 5 * SECOND;
/** The same where no call has ended since: an idle server leaves its database alone. */
const IDLE_LOOK = 60 * SECOND;
const HOUR = 60 * 60_000;

/** Opens a workspace and serves it over HTTP. Leaves nothing open when it rejects. */
export async function serve(directory: string, options: ServeOptions): Promise<Serving> {
  const root = resolve(directory);
  const { logger } = options;
  // Loaded here, because a rack on stdio needs neither, and while the workspace is opened.
  const surfaces = Promise.all([
    import("../http/index.ts"),
    import("../chat/index.ts"),
    import("./open-chat.ts"),
  ]);
  const draining = Promise.withResolvers<void>();
  // Closes in reverse order what was opened.
  const opened = new AsyncDisposableStack();
  try {
    const { recording } = options;
    const watch = options.onReload !== undefined;
    const rack = await openRack(root, { logger, watch, recording, isPatient: false }, opened);
    const { app, store, channel, nodes, lanes, forwarder, approvals, calls, code, mcp, mcpServers, values } =
      rack;
    const { interrupted } = rack;
    if (options.watchdog === true) {
      const { registry, log } = app;
      opened.defer(startWatchdog({ registry, logFile: log.file, endsWithParent: false }));
    }
    const [{ findConsole, serveConsole, startServer }, { chatExtension }, { openChat }] = await surfaces;
    const chat = await openChat({ app, store, approvals, calls, secrets: values.secrets, logger });
    // The sandbox is opened in the background, so that the first call of a sandboxed tool does not wait for it.
    const isSandboxed = app.registry.getAll().some(({ metadata }) => metadata.singleFile !== undefined);
    if (isSandboxed) void app.sandbox().catch((error) => logger.warn(`[sandbox] ${String(error)}`));
    const { host = app.config.server?.host, port = app.config.server?.port } = options;
    const schedules = openSchedules({ store, service: calls.service, book: app.book, logger });
    const server = await startServer({
      app,
      store,
      channel,
      nodes,
      lanes,
      forwarder,
      onDrain: () => draining.resolve(),
      approvals,
      calls,
      schedules,
      mcpServers,
      extensions: [chatExtension(chat)],
      values,
      clients: mcp.serving.clients,
      mounts: mcp.mounts(),
      pages: serveConsole(findConsole()),
      program: options.program,
      logger,
      host,
      port,
      ...httpSettingsOf(app.config),
    });
    opened.defer(() => server.close());
    let isStopping = false;
    const startSchedules = async () => {
      // Schedules start after the server, which disables the tools that were switched off: overdue runs begin at once.
      if (app.registry.get(SCHEDULE_TOOL) === undefined) {
        await importTasks({ directory: root, registry: app.registry, store, logger });
      }
      schedules.start();
      // The workspace may have a tool of this name.
      if (recording !== undefined) logger.debug("A recording has no schedules.");
      else if (app.registry.get(SCHEDULE_TOOL) === undefined) app.registry.register(schedules.tool);
      else
        logger.warn(
          `The workspace has a tool "${SCHEDULE_TOOL}" of its own, which stays. Schedules that the store has run all the same.`,
        );
    };
    // A schedule may name a tool of a skill.
    const { loading } = app.skills;
    if (loading === undefined) await startSchedules();
    else
      void loading
        .then(() => (isStopping ? undefined : startSchedules()))
        .catch((error) => logger.error(`Schedules could not be started: ${reasonOf(error)}`));
    opened.defer(() => schedules.close());
    // The inbox is stopped before the server waits for calls to end: a call that waits for a person would
    // hold the server up in vain.
    opened.defer(() => approvals.stop());
    opened.defer(() => mcp.close());
    // Code that waits for a person goes on at the next start.
    opened.defer(async () => code?.leave(CODE_LIMIT));
    // The chat is closed before questions are withdrawn, so that a turn that waits for an answer goes on at
    // the next start.
    opened.defer(() => chat.close());

    const { onReload } = options;
    if (onReload !== undefined) app.watch(onReload);
    opened.defer(keepRetention(store, app.config, logger));
    opened.defer(await writeServerAddress(root, server.url));
    // The server says that it is ready first.
    setImmediate(() => app.skills.beginLoading());
    return {
      app,
      store,
      url: server.url,
      token: server.token,
      interrupted,
      starting: () => [
        ...(app.skills.loading === undefined ? [] : ["skills"]),
        ...mcpServers.list().flatMap(({ key, state }) => (state === "starting" ? [key] : [])),
      ],
      whenDraining: draining.promise,
      async close() {
        isStopping = true;
        await server.drain();
        await opened.disposeAsync();
      },
    };
  } catch (thrown) {
    await opened.disposeAsync();
    throw thrown;
  }
}

function httpSettingsOf({ server = {} }: Config): Partial<HttpSettings> {
  const { host: _host, port: _port, rateLimit, ...settings } = server;
  if (rateLimit === undefined) return settings;
  return { ...settings, rateLimit: rateLimit > 0 && { perSecond: rateLimit, burst: 2 * rateLimit } };
}

/**
 * Deletes records beyond the retention: in a moment and every hour, and soon when they take too many bytes. Returns a function
 * that stops it.
 */
function keepRetention(store: Store, config: Config, logger: Logger): () => Promise<void> {
  const { days, maxBytes } = retentionOf(config);
  const stopping = new AbortController();
  const { signal } = stopping;
  let pruning: Promise<void> | undefined;
  const run = (work: () => Promise<void>) => {
    pruning ??= work()
      .catch((error) => logger.warn(`Old records could not be deleted: ${reasonOf(error)}`))
      .finally(() => {
        pruning = undefined;
      });
  };
  const prune = () => run(() => store.prune({ maxAge: days * DAY, maxBytes, signal }));
  let looked = { calls: 0, at: performance.now() };
  const look = () => {
    const now = { calls: store.calls.finishedCount, at: performance.now() };
    if (now.calls === looked.calls && now.at - looked.at < IDLE_LOOK) return;
    looked = now;
    run(() => store.trim(maxBytes, signal));
  };
  const timers = [
    // The server is ready first, however many records have expired while none ran.
    setTimeout(prune, SECOND),
    setInterval(prune, HOUR),
    setInterval(look, LOOK),
  ];
  return async () => {
    for (const timer of timers) clearInterval(timer);
    stopping.abort();
    await pruning;
  };
}

export interface ServeStdioOptions
  extends Pick<ServeOptions, "logger" | "onReload" | "watchdog" | "recording"> {
  readonly streams: StdioStreams;
  /** Serves only the tools of this expert. */
  readonly expert?: string;
  /** Ends the connection from this side. */
  readonly signal: AbortSignal;
}

/**
 * Milliseconds that running calls may go on after the client has gone. Clients kill a server that has not ended after
 * two seconds.
 */
const DRAIN = 500;

/** Opens a workspace and serves it to the process at the other end of the streams, until either side ends it. */
export async function serveStdio(directory: string, options: ServeStdioOptions): Promise<void> {
  const { logger, streams, expert, onReload, signal } = options;
  await using opened = new AsyncDisposableStack();
  const { app, store, channel, nodes, approvals, calls, code, mcp, mcpServers } = await openRack(
    resolve(directory),
    { logger, watch: onReload !== undefined, recording: options.recording },
    opened,
  );
  const { registry } = app;
  if (options.watchdog === true)
    opened.defer(startWatchdog({ registry, logFile: app.log.file, endsWithParent: true }));
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
  opened.defer(async () => switches.close());
  const loops = new Loops({ registry, store, logger, shared: { book: app.book, channel, nodes } });
  opened.defer(() => loops.close());
  opened.defer(() => calls.close(DRAIN));
  // The inbox is stopped before `calls.close` waits for calls to end: a call that waits for a person would
  // hold it up in vain.
  opened.defer(() => approvals.stop());
  opened.defer(() => mcp.close());
  opened.defer(async () => code?.leave(DRAIN));
  const connection = await mcp.stdio(streams, expert);
  if (onReload !== undefined) app.watch(onReload);
  const stop = () => void connection.close();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  await connection.closed;
}
