import { isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { type CallFollower, callLines, LineGatherer, toLogLine } from "../../calls/index.ts";
import type { LoadReport } from "../../files/index.ts";
import type { LaneQueue } from "../../fleet/index.ts";
import { defined, isRecord, shellQuote } from "../../helpers/index.ts";
import type { ServeOptions, Serving } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { amount, formatDuration } from "../text.ts";
import { failuresIn, findWorkspace, opening, talkFailures, talkingLogger, watchMade } from "../workspace.ts";
import { describeChanges } from "./check.ts";
import { formatLogLine } from "./logs.ts";

export interface ServeCommandOptions {
  readonly host?: string;
  readonly port?: number;
  readonly watch: boolean;
  readonly drain?: boolean;
}

/** `toolrack serve`: serves the workspace until it is stopped, which is the normal end. */
export async function serve(cli: Cli, options: ServeCommandOptions): Promise<void> {
  const { host, port, watch } = options;
  if (options.drain === true) return drain(cli);
  const root = findWorkspace(cli);
  const tellMade = watchMade(cli, root);
  // A line for every call: data on standard output with `--json`, otherwise talk.
  const lines = new LineGatherer((waiting) => {
    if (cli.json) cli.write(waiting.join(""));
    else cli.status.above(waiting.join(""));
  });
  if (!cli.json) cli.beforeTalk = () => lines.flush();
  let isReady = false;
  // Refused files, and what a reload changed, are told below in a form of their own.
  const isTold = (line: string, isWarning: boolean) =>
    isWarning ? !line.startsWith("[loader] refused") : !isReady && !cli.json;
  const serving = await start(cli, root, {
    logger: talkingLogger(cli, isTold),
    program: cli.surroundings.program,
    watchdog: true,
    ...defined({ host, port }),
    ...(watch ? { onReload: (report) => tellReload(cli, lines, report) } : {}),
  });
  isReady = true;
  const stopped = cli.untilInterrupt();
  serving.app.book.follow(cli.json ? callLines(lines) : callTeller(cli, lines));
  serving.app.registry.subscribe(
    (event) => {
      if (event.type === "approval" && event.decision === undefined && !cli.json)
        cli.talk(`${event.request.toolName} waits for an answer: ${cli.commandLine("approvals")}`);
    },
    ["approval"],
  );
  tellMade();
  await tellReady(cli, serving, watch);
  tellReach(cli, serving, host ?? serving.app.config.server?.host ?? "127.0.0.1");
  await Promise.race([stopped, serving.whenDraining]);
  cli.talk("Stopping: calls under way may end. Once more stops at once.");
  await serving.close();
  lines.close();
  cli.talk("Stopped.");
}

/** `toolrack serve --drain`: has the server that runs on the workspace hand over and end, and waits for it. */
async function drain(cli: Cli): Promise<void> {
  const { askServer } = await import("../server-client.ts");
  const { readServerAddress, isAlive } = await import("../../helpers/server-address.ts");
  const address = await readServerAddress(findWorkspace(cli));
  const { items } = await askServer<{ items: { id: string; isSelf: boolean }[] }>(cli, "/api/nodes");
  const id = items.find(({ isSelf }) => isSelf)?.id;
  await askServer(cli, `/api/nodes/${id}/drain`, "POST");
  cli.talk(`The server at ${address?.url} ends when its calls have.`);
  while (address !== undefined && isAlive(address)) await wait(100);
  if (cli.json) cli.printJsonLine({ type: "drained", url: address?.url });
  else cli.talk("It has ended.");
}

async function start(cli: Cli, root: string, options: ServeOptions): Promise<Serving> {
  const module = await import("../../rack/index.ts");
  try {
    return await opening(cli, root, () => module.serve(root, options));
  } catch (thrown) {
    throw addressError(cli, thrown) ?? thrown;
  }
}

/** The error for an address that is in use or not permitted, with the command that takes a free port. */
function addressError(cli: Cli, thrown: unknown): CliError | undefined {
  if (!(thrown instanceof Error) || !isRecord(thrown.cause)) return undefined;
  const { code } = thrown.cause;
  if (code !== "EADDRINUSE" && code !== "EACCES") return undefined;
  return new CliError(`${thrown.message} This takes any that is free: ${cli.commandLine("serve --port 0")}`, {
    code: "address_unavailable",
    details: { cause: code },
  });
}

async function tellReady(cli: Cli, serving: Serving, isWatching: boolean): Promise<void> {
  const { app, url, token, interrupted } = serving;
  const { report, registry, workspace } = app;
  const { isHelperTool } = await import("../../calls/index.ts");
  const tools = registry.list().filter(({ name }) => !isHelperTool(name)).length;
  const failures = failuresIn(report);
  if (cli.json) {
    cli.printJsonLine({ type: "ready", url, workspace: workspace.directory, tools, failures, interrupted });
    return;
  }
  const files = report.files.filter((file) => file.tools.length > 0).length;
  cli.talk(`Workspace ${workspace.directory}`);
  const starting = serving.starting().join(", ");
  cli.talk(
    `${amount(tools, "tool")} on the rack${starting && `, and soon those of ${starting}`}; ${amount(files, "tool file")} loaded in ${formatDuration(report.duration)}, ` +
      `${failures.length} failed`,
  );
  talkFailures(cli, report);
  if (interrupted > 0)
    cli.talk(`${amount(interrupted, "call")} of a run that died: settled as "interrupted".`);
  const tokenFile = shellQuote(`${workspace.directory}/.toolrack/token`);
  const curl = `curl -H "Authorization: Bearer $(cat ${tokenFile})"`;
  cli.talk(`
${cli.styleTalk("bold", `Serving at ${url}`)}
Token ${token}

In a browser       ${url}/#token=${token}
MCP clients        ${url}/mcp
The tools          ${curl} ${url}/api/tools
For an agent loop  ${curl} ${url}/openai/tools
Waiting questions  ${cli.commandLine("approvals")}

${isWatching ? "Tool files are loaded anew when they change. " : ""}Ctrl-C stops the server.
`);
}

/** Warns when other machines can reach the server, because it does not encrypt. */
function tellReach(cli: Cli, { url }: Serving, host: string): void {
  if (isOnlyHere(host)) return;
  const addresses = reachOf(host, new URL(url).port).join(", ") || "no address yet";
  cli.talk(
    `warning: others on the network reach this server at ${addresses}. Tokens and results travel unencrypted: ` +
      "put a proxy with TLS in front of it, or listen on 127.0.0.1 only.",
  );
}

/** Whether only programs on this machine reach a server that listens on this host. */
function isOnlyHere(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || /^127\.|^::1$/.test(host);
}

/**
 * The addresses at which other machines reach the server. `0.0.0.0` stands for all of them and is no address
 * to connect to.
 */
export function reachOf(host: string, port: string): string[] {
  if (isOnlyHere(host)) return [];
  return addressesOf(host).map((address) => `http://${isIPv6(address) ? `[${address}]` : address}:${port}`);
}

function addressesOf(host: string): string[] {
  if (host !== "0.0.0.0" && host !== "::") return [host];
  const all = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  // A link-local address needs the name of the interface beside it, which URLs cannot have.
  const outside = all.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  return outside.filter(({ family }) => host === "::" || family === "IPv4").map(({ address }) => address);
}

function tellReload(cli: Cli, lines: LineGatherer, report: LoadReport): void {
  const { added, changed, removed, duration } = report;
  if (cli.json) {
    lines.flush(); // Keeps the order of events.
    cli.printJsonLine({ type: "reload", added, changed, removed, duration, failures: failuresIn(report) });
    return;
  }
  const what = describeChanges({ added, changed, removed });
  cli.talk(`Reloaded in ${formatDuration(duration)}${what === "" ? "" : `: ${what}`}`);
  talkFailures(cli, report);
}

/** Prints each finished call on one line. */
function callTeller(cli: Cli, lines: LineGatherer): CallFollower {
  const style: Cli["style"] = (how, text) => cli.styleTalk(how, text);
  return {
    ended(call, record, _result, _trace, error) {
      lines.add(`${formatLogLine(cli, toLogLine(record, error, call?.via), false, style)}\n`);
    },
  };
}

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
