import type { ToolCallRecord, ToolError } from "@toolrack/core";
import { LineGatherer } from "../../calls/log.ts";
import { logText, toLogLine } from "../../calls/log-line.ts";
import { isMetaTool } from "../../calls/meta-tools.ts";
import { shellQuote } from "../../helpers/values.ts";
import type { LoadReport } from "../../index.ts";
import type { ServeOptions, Serving } from "../../rack/serve.ts";
import type { Cli } from "../cli.ts";
import { CliError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { failuresIn, talkFailures } from "../file-problems.ts";
import { findWorkspace } from "../find-workspace.ts";
import { formatLogLine } from "../logs/format-log-line.ts";
import { ownProgram } from "../serve/own-program.ts";
import { isOnlyHere, reachOf } from "../serve/reach.ts";
import { formatDuration } from "../text/duration.ts";
import { configError, talkingLogger } from "../with-app.ts";

export interface ServeCommandOptions {
  readonly host?: string;
  readonly port?: number;
  readonly watch: boolean;
}

/** `toolrack serve`: serves the workspace until it is told to stop, which is no failure. */
export async function serve(cli: Cli, { host, port, watch }: ServeCommandOptions): Promise<number> {
  const root = findWorkspace(cli.directory);
  const lines = new LineGatherer((waiting) => cli.write(waiting.join("")));
  const serving = await start(cli, root, {
    logger: talkingLogger(cli),
    program: ownProgram(),
    watchdog: true,
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(watch ? { onReload: (report) => tellReload(cli, lines, report) } : {}),
  });
  const stopped = new Promise<void>((resolve) => cli.onInterrupt(resolve));
  serving.app.registry.subscribe((event) => {
    if (event.type === "record") tellCall(cli, lines, event.record, event.error);
    if (event.type === "approval" && event.decision === undefined) tellQuestion(cli, event.request.toolName);
  });
  tellReady(cli, serving, watch);
  tellReach(cli, serving, host ?? serving.app.config.server?.host ?? "127.0.0.1");
  await stopped;
  cli.talk("Stopping: calls under way may end. Once more stops at once.");
  await serving.close();
  lines.close();
  cli.talk("Stopped.");
  return exitCodes.ok;
}

async function start(cli: Cli, root: string, options: ServeOptions): Promise<Serving> {
  const module = await import("../../rack/serve.ts");
  try {
    return await module.serve(root, options);
  } catch (thrown) {
    throw configError(thrown, root) ?? addressError(cli, thrown) ?? thrown;
  }
}

/** What the system says when an address cannot be had, with what to type instead. */
function addressError(cli: Cli, thrown: unknown): CliError | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const { code } = (thrown.cause ?? {}) as { code?: unknown };
  if (code !== "EADDRINUSE" && code !== "EACCES") return undefined;
  return new CliError(`${thrown.message} This takes any that is free: ${cli.commandLine("serve --port 0")}`, {
    code: "address_unavailable",
    details: { cause: code },
  });
}

function tellReady(cli: Cli, { app, url, token, interrupted }: Serving, isWatching: boolean): void {
  const { report, registry, workspace } = app;
  // Models find and call the others with them; lists leave them out.
  const tools = registry.list().filter(({ name }) => !isMetaTool(name)).length;
  if (cli.json) {
    const failures = failuresIn(report);
    cli.printJsonLine({ type: "ready", url, workspace: workspace.directory, tools, failures, interrupted });
    return;
  }
  const files = report.files.filter((file) => file.tools.length > 0).length;
  cli.talk(`Workspace ${workspace.directory}`);
  cli.talk(
    `${amount(tools, "tool")} on the rack; ${amount(files, "tool file")} loaded in ${formatDuration(report.duration)}, ` +
      `${failuresIn(report).length} failed`,
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

/** Who listens for others is told what that means: there is no encryption here. */
function tellReach(cli: Cli, { url }: Serving, host: string): void {
  const { port } = new URL(url);
  if (isOnlyHere(host)) return;
  const addresses = reachOf(host, port).join(", ") || "no address yet";
  cli.talk(
    `warning: others on the network reach this server at ${addresses}. Tokens and results travel unencrypted: ` +
      "put a proxy with TLS in front of it, or listen on 127.0.0.1 only.",
  );
}

function tellReload(cli: Cli, lines: LineGatherer, report: LoadReport): void {
  if (cli.json) {
    lines.flush(); // What happened before is told before.
    const { added, changed, removed, duration } = report;
    cli.printJsonLine({ type: "reload", added, changed, removed, duration, failures: failuresIn(report) });
    return;
  }
  const { added, changed, removed } = report;
  const parts = Object.entries({ added, changed, removed }).filter(([, names]) => names.length > 0);
  const what = parts.map(([how, names]) => `${how} ${names.join(", ")}`).join("; ");
  cli.talk(`Reloaded in ${formatDuration(report.duration)}${what === "" ? "" : `: ${what}`}`);
  talkFailures(cli, report);
}

function tellCall(cli: Cli, lines: LineGatherer, record: ToolCallRecord, error: ToolError | undefined): void {
  // The text of the line in the log, with its type before all the rest.
  if (cli.json) lines.add(`{"type":"call",${logText(record, error).slice(1)}\n`);
  else
    cli.talk(
      formatLogLine(cli, toLogLine(record, error), false, (style, text) => cli.styleTalk(style, text)),
    );
}

function tellQuestion(cli: Cli, toolName: string): void {
  if (!cli.json) cli.talk(`${toolName} waits for an answer: ${cli.commandLine("approvals")}`);
}

function amount(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
