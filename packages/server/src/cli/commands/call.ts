import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import type { RackEvent, ToolCallRecord, ToolResult } from "@toolrack/core";
import { parseToolReference } from "../../calls/call-service.ts";
import type { App } from "../../index.ts";
import type { ApprovalRule } from "../../store/approvals.ts";
import { parsePairs } from "../arguments/parse-pairs.ts";
import { readArguments } from "../arguments/read-arguments.ts";
import { parametersOf } from "../arguments/schema-parts.ts";
import { approvalPolicy } from "../call/approval-policy.ts";
import { openRecorder } from "../call/open-recorder.ts";
import { isToolxDocument, parseToolx, type ToolxCall } from "../call/parse-toolx.ts";
import { ProgressLine } from "../call/progress-line.ts";
import { describeAttachment, formatBytes, saveOutput } from "../call/save-output.ts";
import { wholeResult } from "../call/whole-result.ts";
import type { Cli } from "../cli.ts";
import { CliError, usageError } from "../cli-error.ts";
import { exitCodeOf, exitCodes } from "../exit-codes.ts";
import { talkFailures } from "../file-problems.ts";
import { manualOf } from "../show/manual-sections.ts";
import { parseDuration } from "../text/duration.ts";
import { printable } from "../text/printable.ts";
import { talkingLogger, withApp } from "../with-app.ts";

export interface CallCommandOptions {
  readonly args?: string;
  readonly yes?: boolean;
  readonly timeout?: string;
  readonly session?: string;
  readonly output?: string;
  readonly dryRun?: boolean;
}

interface Outcome {
  readonly result: ToolResult;
  readonly record: ToolCallRecord | undefined;
}

/** `toolrack call`: runs one tool through the pipeline. */
export async function call(
  cli: Cli,
  given: string,
  pairs: readonly string[],
  options: CallCommandOptions,
): Promise<number> {
  const toolx = await readToolx(given);
  if (toolx?.mode === "manual") return (await import("./show.ts")).show(cli, toolx.tool);
  const name = toolx?.tool ?? given;
  const isDryRun = options.dryRun === true || toolx?.mode === "dryrun";
  const timeout =
    options.timeout === undefined ? toolx?.timeout : parseDuration(options.timeout, "--timeout");
  const args = options.args === undefined ? undefined : await readArguments(options.args);
  const base = toolx === undefined && args === undefined ? undefined : { ...toolx?.parameters, ...args };
  const interrupt = new AbortController();
  // Read from the disk while the workspace is opened; whoever needs it is told when it cannot be had.
  void import("../../store/store.ts").catch(() => {});
  let rules: readonly ApprovalRule[] = [];
  return withApp(cli, { approval: approvalPolicy(cli, options.yes === true, () => rules) }, async (app) => {
    const info = app.registry.get(name);
    // The tool that is missed may be in one of them.
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
      // The tool was told to stop; one that does not listen is not waited for.
      cli.patience = 1_000;
    });
    const { result, record } = await run(cli, app, name, input, {
      caller: "cli",
      signal: interrupt.signal,
      ...(timeout === undefined ? {} : { timeout }),
      ...(options.session === undefined ? {} : { sessionID: options.session }),
      ...(isDryRun ? { extra: { dryRun: true } } : {}),
    });
    if (isDryRun && result.error === undefined) cli.talk("This was a dry run: nothing was sent or kept.");
    if (result.error?.code === "timed_out") cli.patience = 1_000;
    await recorder?.close();
    await report(cli, result, record, options.output);
    if (interrupt.signal.aborted) return exitCodes.interrupted;
    return result.error === undefined ? exitCodes.ok : exitCodeOf(result.error.code);
  });
}

/** The call behind `tool://NAME`, a YAML text, `@FILE` with one, or `-` for one on standard input. */
async function readToolx(given: string): Promise<ToolxCall | undefined> {
  if (parseToolReference(given) !== undefined || isToolxDocument(given)) return parseToolx(given);
  if (given === "-") return parseToolx(await text(process.stdin));
  if (!given.startsWith("@")) return undefined;
  const path = given.slice(1);
  const found = await readFile(path, "utf8").catch((thrown: Error) => {
    throw usageError(`The file ${path} cannot be read: ${thrown.message}`);
  });
  return parseToolx(found);
}

/** What an operator switched off for all is off here too. */
async function heedSwitches(cli: Cli, app: App): Promise<void> {
  const { ToolSwitches } = await import("../../access/switches.ts");
  await ToolSwitches.open({ registry: app.registry, store: await app.store(), logger: talkingLogger(cli) });
}

function noDryRun(name: string): CliError {
  return new CliError(
    `The tool "${name}" has no dry run, and was not called. Only tools that run in the sandbox have one.`,
    { code: "no_dry_run", details: { tool: name } },
  );
}

async function run(
  cli: Cli,
  { registry }: App,
  name: string,
  input: Record<string, unknown>,
  options: Parameters<App["registry"]["execute"]>[2] & { caller: string },
): Promise<Outcome> {
  let record: ToolCallRecord | undefined;
  const progress = new ProgressLine(cli, name);
  const unsubscribe = registry.subscribe((event: RackEvent) => {
    progress.listen(event);
    if (event.type === "record" && event.record.depth === 0 && event.record.caller === options.caller) {
      record = event.record;
    }
  });
  try {
    const result = await registry.execute(name, input, options);
    return { result: wholeResult(result, record, registry), record };
  } finally {
    unsubscribe();
    progress.end();
  }
}

async function report(
  cli: Cli,
  result: ToolResult,
  record: ToolCallRecord | undefined,
  output: string | undefined,
): Promise<void> {
  const { flags } = record ?? {};
  if (flags?.dropped !== undefined) {
    cli.talk(
      `warning: the tool has no ${flags.dropped.map((key) => `"${printable(key)}"`).join(", ")}; left out`,
    );
  }
  if (flags?.outputMismatch !== undefined) cli.talk(`warning: ${printable(flags.outputMismatch)}`);
  if (result.error !== undefined) {
    if (cli.json) cli.printJson({ error: result.error, result, record });
    else cli.talk(cli.styleTalk("red", printable(result.content)));
    return;
  }
  const saved = output === undefined ? undefined : await saveOutput(output, result);
  if (saved !== undefined) cli.talk(`Saved ${formatBytes(saved.bytes)} to ${output}.`);
  if (cli.json) {
    cli.printJson({ result, record });
    return;
  }
  if (saved?.isText !== true && result.content !== "") cli.print(result.content);
  for (const attachment of result.attachments ?? []) {
    const hint = output === undefined ? " (save the first with --output FILE)" : "";
    cli.talk(`Attachment: ${printable(describeAttachment(attachment))}${hint}`);
  }
}
