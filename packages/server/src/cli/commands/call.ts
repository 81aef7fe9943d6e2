import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type {
  ApprovalPolicy,
  FilePart,
  ProgressUpdate,
  RackEvent,
  ToolCallRecord,
  ToolRegistry,
  ToolResult,
} from "@toolrack/core";
import type { CallRecorder } from "../../calls/index.ts";
import { runToolName, verdictByRules } from "../../calls/index.ts";
import { defined, reasonOf } from "../../helpers/values.ts";
import type { App } from "../../rack/index.ts";
import type { ApprovalRule, CallTrace } from "../../store/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodeOf, exitCodes, isCliError } from "../cli-error.ts";
import { parametersOf, parsePairs, readArguments, readGiven } from "../parameters.ts";
import { addOthers, callAt, toolAt } from "../rack-tools.ts";
import { ServerClient } from "../server-client.ts";
import { formatDuration, parseDuration, printable, traceLines } from "../text.ts";
import { talkFailures, talkingLogger, withApp } from "../workspace.ts";
import { manualOf, show } from "./tools.ts";
import { readToolx } from "./toolx.ts";

export interface CallCommandOptions {
  readonly args?: string;
  readonly yes?: boolean;
  readonly timeout?: string;
  readonly session?: string;
  readonly output?: string;
  readonly dryRun?: boolean;
  /** The text of a result for people. Default: its content. */
  readonly shown?: (result: ToolResult) => string;
}

/** `toolrack call`: runs one tool through the pipeline. */
export async function call(
  cli: Cli,
  given: string,
  pairs: readonly string[],
  options: CallCommandOptions,
): Promise<void> {
  const toolx = await readToolx(cli, given);
  if (toolx?.mode === "manual") return show(cli, toolx.tool);
  const name = toolx?.tool ?? given;
  const isDryRun = options.dryRun === true || toolx?.mode === "dryrun";
  const timeout =
    options.timeout === undefined ? toolx?.timeout : parseDuration(options.timeout, "--timeout");
  const args = options.args === undefined ? undefined : await readArguments(cli, options.args);
  const base = toolx === undefined && args === undefined ? undefined : { ...toolx?.parameters, ...args };
  const interrupt = new AbortController();
  // Loads the store's code while the workspace opens. `openRecorder` reports a failure.
  void import("../../store/index.ts").catch(() => {});
  let rules: readonly ApprovalRule[] = [];
  // The workspace's approval rules apply here too.
  const approval: ApprovalPolicy = {
    decide: (request, tool) => verdictByRules(rules, tool, request, request.caller),
    ask: askerOf(cli, options.yes === true),
  };
  return withApp(cli, { approval }, async (app) => {
    await using others = new AsyncDisposableStack();
    const isHere = app.registry.get(name) !== undefined;
    const server = isHere ? undefined : await ServerClient.findIfAny(cli);
    // A name that the server does not know either is refused below, so that the refusal is recorded.
    const tool = server && (await toolAt(server, name).catch(forgetMissing));
    if (server !== undefined && tool !== undefined) {
      // Only the running server has the tool, such as one of an MCP server.
      if (isDryRun) throw noDryRun(tool.name);
      cli.onInterrupt(() => interrupt.abort("interrupted"));
      const { signal } = interrupt;
      const { yes = false, session: sessionID } = options;
      const input = parsePairs(pairs, parametersOf(tool), base);
      const tell = (text: string) => cli.talk(printable(text));
      const wanted = { input, timeout, sessionID, signal, yes, tell };
      const { result, trace } = await callAt(server, tool.name, wanted);
      return report(cli, { result, record: undefined, trace }, signal, options);
    }
    if (!isHere && server === undefined) {
      others.defer(await addOthers(cli, app));
      if (name === runToolName && app.config.code?.mode !== "off")
        await (await import("../../rack/index.ts")).addRunTool(app);
    }
    const info = app.registry.get(name);
    // The tool may be in one of the files that failed.
    if (info === undefined) talkFailures(cli, app.report);
    if (isDryRun && info !== undefined && manualOf(info) === undefined) throw noDryRun(info.name);
    const recorder = await openRecorder(cli, app);
    if (recorder !== undefined) {
      await heedSwitches(cli, app);
      rules = await (await app.store()).approvals.listRules();
    }
    const input = parsePairs(pairs, info === undefined ? {} : parametersOf(info), base);
    cli.onInterrupt(() => {
      interrupt.abort("interrupted");
      // The tool was told to stop and gets only a short time.
      cli.patience = 1_000;
    });
    const ran = await perform(cli, app, name, input, {
      caller: "cli",
      signal: interrupt.signal,
      ...defined({ timeout, sessionID: options.session, extra: isDryRun ? { dryRun: true } : undefined }),
    });
    const { error } = ran.result;
    if (isDryRun && error === undefined) cli.talk("This was a dry run: nothing was sent or kept.");
    if (error?.code === "timed_out") cli.patience = 1_000;
    await recorder?.close();
    await report(cli, ran, interrupt.signal, options);
  });
}

function forgetMissing(thrown: unknown): undefined {
  if (!isCliError(thrown, "tool_not_found")) throw thrown;
}

/**
 * Returns the function that decides whether a dangerous tool may run: `--yes` allows it, else the person at
 * the terminal is asked; without a terminal it is denied.
 */
function askerOf(cli: Cli, yes: boolean): NonNullable<ApprovalPolicy["ask"]> {
  if (yes) return async () => ({ decision: "allow", reason: "--yes" });
  if (!cli.interactive) {
    const reason = "nobody can be asked without a terminal; add --yes to approve it";
    return async () => ({ decision: "deny", reason });
  }
  return async (request, signal) => {
    cli.status.clear();
    const { askApproval } = await import("./approvals.ts");
    return askApproval(cli, request, signal);
  };
}

/**
 * Records the calls of this process in the workspace's store, beside those of the server. Without a store the call is
 * made all the same, and the user is told that only the log has it.
 */
async function openRecorder(cli: Cli, app: App): Promise<CallRecorder | undefined> {
  try {
    const [store, { CallRecorder }] = await Promise.all([app.store(), import("../../calls/index.ts")]);
    return new CallRecorder(app.book, store.calls, talkingLogger(cli));
  } catch (thrown) {
    const reason = reasonOf(thrown);
    cli.talk(`warning: the call is kept in ${app.log.file} only. ${reason}`);
    return undefined;
  }
}

/** Switches off in this process the tools that are switched off on the server. */
async function heedSwitches(cli: Cli, app: App): Promise<void> {
  const { ToolSwitches } = await import("../../access/index.ts");
  await ToolSwitches.open({ registry: app.registry, store: await app.store(), logger: talkingLogger(cli) });
}

function noDryRun(name: string): CliError {
  return new CliError(
    `The tool "${name}" has no dry run, and was not called. Only tools that run in the sandbox have one.`,
    { code: "no_dry_run", details: { tool: name } },
  );
}

interface RanCall {
  readonly result: ToolResult;
  readonly record: ToolCallRecord | undefined;
  readonly trace: CallTrace | undefined;
}

async function perform(
  cli: Cli,
  { registry, book }: App,
  name: string,
  input: Record<string, unknown>,
  options: Parameters<App["registry"]["execute"]>[2] & { caller: string },
): Promise<RanCall> {
  let record: ToolCallRecord | undefined;
  let trace: CallTrace | undefined;
  const progress = new ProgressLine(cli, name);
  const unsubscribe = registry.subscribe((event: RackEvent) => progress.listen(event));
  const unfollow = book.follow({
    ended(_call, ended, _result, where) {
      if (ended.depth > 0 || ended.caller !== options.caller) return;
      record = ended;
      trace = where;
    },
  });
  try {
    const result = await registry.execute(name, input, options);
    return { result: wholeResult(result, record, registry), record, trace };
  } finally {
    unsubscribe();
    unfollow();
    progress.end();
  }
}

/** The result with its whole text; only models get it shortened. */
function wholeResult(
  result: ToolResult,
  record: ToolCallRecord | undefined,
  registry: ToolRegistry,
): ToolResult {
  if (record?.flags?.truncated !== true) return result;
  const page = registry.readResult(record.callId, { limit: Number.POSITIVE_INFINITY });
  if (page === undefined || page.nextOffset !== undefined) return result;
  const [first, ...others] = result.blocks ?? [];
  const { truncated: _, ...metadata } = result.metadata ?? {};
  return {
    ...result,
    content: page.text,
    metadata,
    ...(first?.type === "text" ? { blocks: [{ type: "text", text: page.text }, ...others] } : {}),
  };
}

/** Milliseconds. A faster call shows no progress line. */
const QUIET = 300;
const EVERY = 100;

/** Shows a running call on a terminal: the tool, the time and its progress. */
class ProgressLine {
  readonly #cli: Cli;
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #tool: string;
  #update: ProgressUpdate | undefined;
  #isPaused = false;

  constructor(cli: Cli, tool: string) {
    this.#cli = cli;
    this.#tool = tool;
    this.#timer = setInterval(() => this.#draw(), EVERY);
  }

  listen(event: RackEvent): void {
    if (event.type === "progress") {
      this.#tool = event.toolName;
      this.#update = event.update;
    } else if (event.type === "approval") {
      // Nothing else is drawn while a question is open.
      this.#isPaused = event.decision === undefined;
    }
  }

  end(): void {
    clearInterval(this.#timer);
    this.#cli.status.clear();
  }

  #draw(): void {
    const elapsed = performance.now() - this.#startedAt;
    if (this.#isPaused || elapsed < QUIET) return;
    const { progress = "", total, message = "" } = this.#update ?? {};
    const count = total === undefined ? progress : `${progress}/${total}`;
    this.#cli.status.set(`${this.#tool}  ${formatDuration(elapsed)}  ${count}  ${message}`);
  }
}

/** Prints what became of a call, and sets the exit code. */
async function report(
  cli: Cli,
  { result, record, trace }: RanCall,
  signal: AbortSignal,
  { output, shown = ({ content }) => content }: CallCommandOptions,
): Promise<void> {
  const { dropped = [], outputMismatch, overran } = record?.flags ?? {};
  if (dropped.length > 0) {
    cli.talk(`warning: the tool has no ${dropped.map((key) => `"${printable(key)}"`).join(", ")}; left out`);
  }
  if (outputMismatch !== undefined) cli.talk(`warning: ${printable(outputMismatch)}`);
  if (overran !== undefined) {
    cli.talk(`warning: it ended after its limit of ${overran.limit} ms, and kept the process busy meanwhile`);
  }
  const { error, attachments = [] } = result;
  const content = shown(result);
  if (signal.aborted) cli.exitCode = exitCodes.interrupted;
  else if (error !== undefined) cli.exitCode = exitCodeOf(error.code);
  if (error !== undefined) {
    cli.answer({ error, result, record, trace }, () => {
      cli.talk(cli.styleTalk("red", printable(content)));
      if (trace !== undefined)
        cli.talk(traceLines(trace, (how, text) => cli.styleTalk(how, text)).join("\n"));
    });
    return;
  }
  if (output !== undefined) {
    const bytes = attachments[0] === undefined ? Buffer.from(content) : bytesOf(attachments[0]);
    await writeFile(resolve(cli.cwd, output), bytes).catch((failure: Error) => {
      throw new CliError(`The result could not be saved: ${failure.message}`, { code: "not_saved" });
    });
    cli.talk(`Saved ${formatBytes(bytes.length)} to ${output}.`);
  }
  cli.answer({ result, record }, () => {
    const isSaved = output !== undefined && attachments.length === 0;
    if (!isSaved && content !== "") cli.print(content);
    for (const attachment of attachments) {
      const hint = output === undefined ? " (save the first with --output FILE)" : "";
      cli.talk(`Attachment: ${printable(describeAttachment(attachment))}${hint}`);
    }
  });
}

function describeAttachment({ mime, url, filename }: FilePart): string {
  const size = url.startsWith("data:") ? formatBytes(dataOf(url)?.length ?? 0) : url;
  return [filename, mime, size].filter((part) => part !== undefined && part !== "").join(", ");
}

function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

function bytesOf({ url }: FilePart): Buffer {
  const data = dataOf(url);
  if (data !== undefined) return data;
  throw new CliError(`The attachment is an address, not data: ${url}. Download it from there.`, {
    code: "not_saved",
    details: { url },
  });
}

function dataOf(url: string): Buffer | undefined {
  const [, encoding, data] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(url) ?? [];
  if (data === undefined) return undefined;
  return encoding === undefined ? Buffer.from(decodeURIComponent(data)) : Buffer.from(data, "base64");
}

type RunCommandOptions = Pick<CallCommandOptions, "yes" | "timeout" | "session" | "output">;

/** `toolrack run`: runs code over the tools, on the running server or here. */
export async function run(cli: Cli, file: string, { timeout, ...options }: RunCommandOptions): Promise<void> {
  const code = await readGiven(cli, file === "-" ? file : `@${file}`);
  const limit = timeout === undefined ? {} : { timeout: parseDuration(timeout, "--timeout") };
  const args = JSON.stringify({ code, ...limit });
  return call(cli, runToolName, [], { ...options, args, shown: withoutConsole });
}

/**
 * A result without what the code printed, which the terminal has shown line by line, and without the hint for models that
 * the code returned nothing.
 */
function withoutConsole({ content, metadata = {}, error }: ToolResult): string {
  const { consoleLines: lines = 0 } = error?.details ?? metadata;
  if (error === undefined && metadata.returned === false) return "";
  if (typeof lines !== "number" || lines === 0 || metadata.truncated !== undefined) return content;
  // Before them are an empty line and one that says what follows.
  return content
    .split("\n")
    .slice(0, -(lines + 2))
    .join("\n");
}
