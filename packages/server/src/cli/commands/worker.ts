import type { LaneQueue } from "../../fleet/index.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { amount } from "../text.ts";
import { findWorkspace, opening, talkFailures, talkingLogger } from "../workspace.ts";

export interface WorkerCommandOptions {
  readonly lane?: readonly string[];
  readonly concurrency: number;
  readonly watch: boolean;
}

/** `toolrack worker`: performs the calls of lanes until it is stopped, which is the normal end. */
export async function worker(cli: Cli, { lane, concurrency, watch }: WorkerCommandOptions): Promise<void> {
  const root = findWorkspace(cli);
  const { loadEnvironment } = await import("../../config/index.ts");
  // `.env` may name Redis.
  const unload = await loadEnvironment(root, talkingLogger(cli));
  const isSet = (process.env.REDIS_URL ?? "") !== "";
  unload();
  if (!isSet) {
    throw new CliError(
      "A worker takes its calls from Redis. Set REDIS_URL to the same address as for the servers, such as redis://127.0.0.1:6379.",
      { code: "no_redis" },
    );
  }
  const { work } = await import("../../rack/index.ts");
  let isReady = false;
  const working = await opening(cli, root, () =>
    work(root, {
      logger: talkingLogger(cli),
      lanes: lane,
      concurrency,
      watchdog: true,
      onQueues: (queues) => {
        if (isReady) tellQueues(cli, queues, lane);
      },
      ...(watch && { onReload: (report) => talkFailures(cli, report) }),
    }),
  );
  isReady = true;
  const stopped = cli.untilInterrupt();
  talkFailures(cli, working.app.report);
  if (!cli.json) cli.talk(`Worker of ${root}, ${amount(concurrency, "call")} at once`);
  if (working.engine === "sqlite" && !cli.json)
    cli.talk(
      "The store is SQLite: servers and workers must use this folder on this machine. For several machines, set DATABASE_URL.",
    );
  tellQueues(cli, working.queues, lane);
  await stopped;
  cli.talk("Stopping: calls under way may end. Once more stops at once.");
  await working.close();
  cli.talk("Stopped.");
}

/** Says of which tools the worker takes calls. */
function tellQueues(cli: Cli, queues: readonly LaneQueue[], wanted: readonly string[] | undefined): void {
  if (cli.json) {
    const lanes = queues.map(({ lane, tools, isIdempotent }) => ({ lane, tools, isIdempotent }));
    cli.printJsonLine({ type: "ready", lanes });
    return;
  }
  const names = [...new Set([...(wanted ?? []), ...queues.map(({ lane }) => lane)])];
  if (names.length === 0)
    cli.talk("No tool names a lane: set metadata.lane in a tool, or workers.lanes in the config.");
  for (const name of names) {
    const tools = queues.filter(({ lane }) => lane === name).flatMap((queue) => Object.keys(queue.tools));
    const what = tools.length === 0 ? "no tool of this workspace is in it" : tools.sort().join(", ");
    cli.talk(`Lane ${name}: ${what}`);
  }
}
