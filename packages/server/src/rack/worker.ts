import { resolve } from "node:path";
import type { Logger } from "@toolrack/core";
import type { LoadReport } from "../files/index.ts";
import type { LaneQueue, LaneWorker } from "../fleet/index.ts";
import type { Store } from "../store/index.ts";
import type { App } from "./app.ts";
import { openLaneWorker } from "./lanes.ts";
import { openRack } from "./rack.ts";
import { startWatchdog } from "./watchdog.ts";

export interface WorkOptions {
  readonly logger: Logger;
  /** The lanes to take calls of. Default: all. */
  readonly lanes?: readonly string[] | undefined;
  readonly concurrency: number;
  /** Ends the process when it should stop and cannot. Only for a process that does nothing else. */
  readonly watchdog?: boolean;
  /** Called when the queues were chosen anew, because tools have changed. */
  readonly onQueues?: (queues: readonly LaneQueue[]) => void;
  /** Called after tool files changed and were reloaded. Without it, files are not watched. */
  readonly onReload?: (report: LoadReport) => void;
}

export interface Working {
  readonly app: App;
  readonly engine: Store["engine"];
  readonly queues: readonly LaneQueue[];
  /** Takes no more calls, waits a while for those under way, cancels the rest and closes everything. */
  close(): Promise<void>;
}

/** Milliseconds that calls under way have after a worker was told to stop. */
const DRAIN_LIMIT = 30_000;

/** Opens a workspace and performs calls of its lanes: the rack without surfaces. Leaves nothing open when it rejects. */
export async function work(directory: string, options: WorkOptions): Promise<Working> {
  const { logger, lanes, concurrency, onReload, onQueues } = options;
  const opened = new AsyncDisposableStack();
  try {
    const watch = onReload !== undefined;
    let worker: LaneWorker | undefined;
    const role = { isWorker: true, lanesServed: () => worker?.lanes ?? [] };
    const rack = await openRack(resolve(directory), { logger, watch, ...role }, opened);
    const { app, store, values, calls, approvals } = rack;
    if (options.watchdog === true) {
      const { registry, log } = app;
      opened.defer(startWatchdog({ registry, logFile: log.file, endsWithParent: false }));
    }
    opened.defer(() => calls.close(0));
    opened.defer(() => approvals.stop());
    // Calls of unreviewed tools should not wait for the sandbox.
    const isSandboxed = app.registry.getAll().some(({ metadata }) => metadata.singleFile !== undefined);
    if (isSandboxed) void app.sandbox().catch((error) => logger.warn(`[sandbox] ${String(error)}`));
    const performer = await openLaneWorker({ app, store, values, logger }, { lanes, concurrency });
    worker = performer;
    if (onQueues !== undefined) performer.onQueues = onQueues;
    opened.defer(() => performer.close(app.config.workers?.drainTimeout ?? DRAIN_LIMIT));
    void rack.nodes.announce();
    if (onReload !== undefined) app.watch(onReload);
    return {
      app,
      engine: store.engine,
      get queues() {
        return performer.queues;
      },
      close: () => opened.disposeAsync(),
    };
  } catch (thrown) {
    await opened.disposeAsync();
    throw thrown;
  }
}
