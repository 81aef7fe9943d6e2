import type { RackEvent, ToolCallRecord, ToolResult } from "@toolrack/core";
import type { App } from "../../../index.ts";
import { parsePairs } from "../arguments/parse-pairs.ts";
import { readArguments } from "../arguments/read-arguments.ts";
import { parametersOf } from "../arguments/schema-parts.ts";
import { approvalPolicy } from "../call/approval-policy.ts";
import { ProgressLine } from "../call/progress-line.ts";
import { describeAttachment, formatBytes, saveOutput } from "../call/save-output.ts";
import { wholeResult } from "../call/whole-result.ts";
import type { Cli } from "../cli.ts";
import { exitCodeOf, exitCodes } from "../exit-codes.ts";
import { talkFailures } from "../file-problems.ts";
import { parseDuration } from "../text/duration.ts";
import { printable } from "../text/printable.ts";
import { withApp } from "../with-app.ts";

export interface CallCommandOptions {
  readonly args?: string;
  readonly yes?: boolean;
  readonly timeout?: string;
  readonly session?: string;
  readonly output?: string;
}

interface Outcome {
  readonly result: ToolResult;
  readonly record: ToolCallRecord | undefined;
}

/** `toolrack call`: runs one tool through the pipeline. */
export async function call(
  cli: Cli,
  name: string,
  pairs: readonly string[],
  options: CallCommandOptions,
): Promise<number> {
  const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "--timeout");
  const base = options.args === undefined ? undefined : await readArguments(options.args);
  const interrupt = new AbortController();
  return withApp(cli, { approval: approvalPolicy(cli, options.yes === true) }, async (app) => {
    const info = app.registry.get(name);
    // The tool that is missed may be in one of them.
    if (info === undefined) talkFailures(cli, app.report);
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
    });
    if (result.error?.code === "timed_out") cli.patience = 1_000;
    await report(cli, result, record, options.output);
    if (interrupt.signal.aborted) return exitCodes.interrupted;
    return result.error === undefined ? exitCodes.ok : exitCodeOf(result.error.code);
  });
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
