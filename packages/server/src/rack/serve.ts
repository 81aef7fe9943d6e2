import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { ToolSwitches } from "../access/index.ts";
import { importTasks, SCHEDULE_TOOL, startSchedules } from "../calls/index.ts";
import { chatExtension } from "../chat/index.ts";
import { type Config, retentionOf, writeServerAddress } from "../config/index.ts";
import type { LoadReport } from "../files/index.ts";
import { findConsole, type HttpSettings, serveConsole, startServer } from "../http/index.ts";
import type { StdioStreams } from "../mcp/serve/index.ts";
import type { Store } from "../store/index.ts";
import type { App } from "./app.ts";
import { openChat } from "./chat.ts";
import { openRack } from "./rack.ts";
import { startWatchdog } from "./watchdog.ts";

export interface ServeOptions {
  readonly logger: Logger;
  /** Default: what the config says. */
  readonly host?: string;
  readonly port?: number;
  /** The words that start the program again, from any folder: a Node, its options, and the program. */
  readonly program?: readonly string[];
  /** Watches the event loop from a thread, and ends the process when it is to stop and cannot. For a process of its own. */
  readonly watchdog?: boolean;
  /** Reloads tool files whenever they change, and tells of it. */
  readonly onReload?: (report: LoadReport) => void;
}

/** A workspace that is being served. */
export interface Serving {
  readonly app: App;
  readonly store: Store;
  readonly url: string;
  /** The workspace's own token. */
  readonly token: string;
  /** How many calls a process that died had left running. */
  readonly interrupted: number;
  /** Takes no more work, lets calls end for a while, cancels the rest and closes everything. */
  close(): Promise<void>;
}

const DAY = 24 * 60 * 60_000;
const HOUR = 60 * 60_000;

/** Opens a workspace with all that outlives a call, and serves it. Leaves nothing open when it rejects. */
export async function serve(directory: string, options: ServeOptions): Promise<Serving> {
  const root = resolve(directory);
  const { logger } = options;
  // What was opened last is closed first.
  const opened = new AsyncDisposableStack();
  try {
    const rack = await openRack(root, { logger, watch: options.onReload !== undefined }, opened);
    const { app, store, approvals, calls, mcp, mcpServers, secrets, interrupted } = rack;
    if (options.watchdog === true) {
      const { registry, log } = app;
      opened.defer(startWatchdog({ registry, logFile: log.file, endsWithParent: false }));
    }
    const chat = await openChat({ app, store, approvals, calls, secrets, logger });
    // In the background, so that the first call of a sandboxed tool does not wait for it.
    const isSandboxed = app.registry.getAll().some(({ metadata }) => metadata.singleFile !== undefined);
    if (isSandboxed) void app.sandbox().catch((error) => logger.warn(`[sandbox] ${String(error)}`));
    const { host = app.config.server?.host, port = app.config.server?.port } = options;
    const server = await startServer({
      app,
      store,
      approvals,
      calls,
      mcpServers,
      extensions: [chatExtension(chat)],
      secrets,
      clients: mcp.serving.clients,
      mounts: mcp.mounts(),
      pages: serveConsole(findConsole()),
      ...(options.program === undefined ? {} : { program: options.program }),
      logger,
      ...(host === undefined ? {} : { host }),
      ...(port === undefined ? {} : { port }),
      ...httpSettingsOf(app.config),
    });
    opened.defer(() => server.close());
    // After the server, which records what overdue schedules begin at once.
    if (app.registry.get(SCHEDULE_TOOL) === undefined) {
      await importTasks({ directory: root, registry: app.registry, store, logger });
    }
    const schedules = await startSchedules({
      registry: app.registry,
      store,
      service: calls.service,
      book: app.book,
      logger,
    });
    for (const tool of schedules.tools) {
      // A team may bring the tool that it has.
      if (app.registry.get(tool.name) === undefined) app.registry.register(tool);
      else
        logger.warn(
          `The workspace has a tool "${tool.name}" of its own, which stays. Schedules that the store has run all the same.`,
        );
    }
    opened.defer(() => schedules.close());
    // Before the server drains: a call that waits for a person would hold it up for nothing.
    opened.defer(() => approvals.stop());
    opened.defer(async () => mcp.close());
    // Before questions are withdrawn: a turn that waits for an answer is left as it is, and goes on at the next start.
    opened.defer(() => chat.close());

    const { onReload } = options;
    if (onReload !== undefined) app.watch(onReload);
    opened.defer(keepHouse(store, app.config, logger));
    opened.defer(await writeServerAddress(root, server.url));
    return {
      app,
      store,
      url: server.url,
      token: server.token,
      interrupted,
      close: () => opened.disposeAsync(),
    };
  } catch (thrown) {
    await opened.disposeAsync();
    throw thrown;
  }
}

/** What the config says about the HTTP surface; the rest has its defaults. */
function httpSettingsOf({ server = {} }: Config): Partial<HttpSettings> {
  const { host: _host, port: _port, rateLimit, ...settings } = server;
  if (rateLimit === undefined) return settings;
  return { ...settings, rateLimit: rateLimit > 0 && { perSecond: rateLimit, burst: 2 * rateLimit } };
}

/** Deletes what is too old or too much, now and every hour. Answers how to end it. */
function keepHouse(store: Store, config: Config, logger: Logger): () => Promise<void> {
  const { days, maxBytes } = retentionOf(config);
  const prune = () =>
    store.prune({ maxAge: days * DAY, maxBytes }).catch((error) => {
      logger.warn(`Old records could not be deleted: ${error instanceof Error ? error.message : error}`);
    });
  let pruning = prune();
  const timer = setInterval(() => {
    pruning = prune();
  }, HOUR);
  return async () => {
    clearInterval(timer);
    await pruning;
  };
}

export interface ServeStdioOptions {
  readonly logger: Logger;
  readonly streams: StdioStreams;
  /** Only what this expert has. */
  readonly expert?: string;
  /** Reloads tool files whenever they change, and tells of it. */
  readonly onReload?: (report: LoadReport) => void;
  /** Watches the event loop from a thread, and ends the process when it is to stop and cannot. For a process of its own. */
  readonly watchdog?: boolean;
  /** Ends it from this side. */
  readonly signal: AbortSignal;
}

/**
 * How long calls that nobody waited for may go on after the client has gone, in milliseconds. Clients kill a server that
 * has not ended after two seconds.
 */
const DRAIN = 500;

/** Opens a workspace and serves it to the process at the other end of the streams, until either side ends it. */
export async function serveStdio(directory: string, options: ServeStdioOptions): Promise<void> {
  const { logger, streams, expert, onReload, signal } = options;
  await using opened = new AsyncDisposableStack();
  const { app, store, approvals, calls, mcp, mcpServers } = await openRack(
    resolve(directory),
    { logger, watch: onReload !== undefined },
    opened,
  );
  const { registry } = app;
  if (options.watchdog === true)
    opened.defer(startWatchdog({ registry, logFile: app.log.file, endsWithParent: true }));
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
  opened.defer(async () => switches.close());
  opened.defer(() => calls.close(DRAIN));
  // Before the calls drain: one that waits for a person would hold them up for nothing.
  opened.defer(() => approvals.stop());
  opened.defer(async () => mcp.close());
  const connection = await mcp.stdio(streams, expert);
  if (onReload !== undefined) app.watch(onReload);
  const stop = () => void connection.close();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  await connection.closed;
}
