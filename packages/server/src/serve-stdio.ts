import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import { openRack } from "./open-rack.ts";
import type { LoadReport } from "./sources/load-report.ts";
import type { StdioStreams } from "./surfaces/mcp/stdio/stdio-transport.ts";
import { ToolSwitches } from "./switches/tool-switches.ts";

export interface ServeStdioOptions {
  readonly logger: Logger;
  readonly streams: StdioStreams;
  /** Only what this expert has. */
  readonly expert?: string;
  /** Reloads tool files whenever they change, and tells of it. */
  readonly onReload?: (report: LoadReport) => void;
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
  const { app, store, approvals, calls, mcp, mcpServers, follower } = await openRack(
    resolve(directory),
    { logger, watch: onReload !== undefined },
    opened,
  );
  const { registry } = app;
  const switches = await ToolSwitches.open({ registry, store, logger, names: mcpServers });
  opened.defer(async () => switches.close());
  // Tools are switched on the server, which is another process.
  const unfollow = follower.follow(switches);
  opened.defer(async () => unfollow());
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
