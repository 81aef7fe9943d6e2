import { join } from "node:path";
import { shellQuote, watchFiles } from "../../helpers/index.ts";
import type { App } from "../../rack/index.ts";
import type { MockMode, SavedTest, TestFile, TestReport, TestRunner } from "../../tests/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes, isCliError } from "../cli-error.ts";
import { addOthers } from "../rack-tools.ts";
import { ServerClient } from "../server-client.ts";
import { amount } from "../text.ts";
import { findWorkspace, talkFailures, withApp } from "../workspace.ts";
import { unknownCall } from "./logs.ts";

export interface TestCommandOptions {
  readonly mock: MockMode;
  readonly update?: boolean;
  readonly reporter?: "pretty" | "json" | "junit";
  readonly watch?: boolean;
  readonly from?: string;
  readonly name?: string;
  readonly file?: string;
  readonly schema?: boolean;
}

/** `toolrack test`: runs the saved calls of the workspace, or saves one. */
export async function test(
  cli: Cli,
  pattern: string | undefined,
  options: TestCommandOptions,
): Promise<void> {
  if (options.schema === true) {
    const { testFileSchema } = await import("../../tests/index.ts");
    cli.print(JSON.stringify(testFileSchema, undefined, 2));
    return;
  }
  if (options.from !== undefined) return save(cli, options.from, options);
  return withApp(cli, { log: false }, async (app) => {
    await using started = new AsyncDisposableStack();
    const room = await import("../../tests/index.ts");
    const { testRunnerOf } = await import("../../rack/index.ts");
    const runner = await testRunnerOf(app, async () => void started.defer(await addOthers(cli, app)));
    const files = await room.readTestFiles(app.workspace.directory);
    const selected = room.selectTests(files, pattern);
    const report = await run(cli, runner, selected, options);
    if (report.results.some(({ problems }) => problems.length > 0)) talkFailures(cli, app.report);
    if (report.results.length + report.failures.length === 0) tellNone(cli, files, pattern);
    if (options.watch === true) return follow(cli, app, runner, { pattern, files, options });
    if (report.failed > 0) cli.exitCode = exitCodes.toolError;
  });
}

function tellNone(cli: Cli, files: readonly TestFile[], pattern: string | undefined): void {
  const there = files.reduce((sum, { tests }) => sum + tests.length, 0);
  if (pattern !== undefined && there > 0)
    throw new CliError(`No test fits "${pattern}"; there are ${amount(there, "test")}.`, {
      code: "no_tests",
      exitCode: exitCodes.usage,
    });
  cli.talk(
    `There are no tests in tests/*.calls.yaml. Make one of a call: ${cli.commandLine("test --from CALLID")}`,
  );
}

async function run(
  cli: Cli,
  runner: TestRunner,
  files: readonly TestFile[],
  { mock: mode, update = false, reporter = cli.json ? "json" : "pretty" }: TestCommandOptions,
): Promise<TestReport> {
  const { failureLines, resultLines, summaryLine, toJUnit } = await import("../../tests/index.ts");
  const style: Cli["style"] = (how, text) => cli.style(how, text);
  const isPretty = reporter === "pretty";
  const report = await runner.run(files, {
    mode,
    update,
    onResult: (result) => {
      if (isPretty) cli.print(resultLines(result, style).join("\n"));
    },
  });
  if (reporter === "json") cli.print(JSON.stringify(report, undefined, 2));
  else if (reporter === "junit") cli.print(toJUnit(report));
  else {
    for (const failure of report.failures) cli.print(failureLines(failure, style).join("\n"));
    if (report.results.length + report.failures.length > 0) cli.print(summaryLine(report, style));
  }
  return report;
}

interface Followed {
  readonly pattern: string | undefined;
  files: readonly TestFile[];
  readonly options: TestCommandOptions;
}

/** Runs the tests that a changed file touches, until Ctrl-C. */
async function follow(cli: Cli, app: App, runner: TestRunner, followed: Followed): Promise<void> {
  const { readTestFiles, selectTests, TEST_FOLDER } = await import("../../tests/index.ts");
  const { directory } = app.workspace;
  const interrupted = cli.untilInterrupt();
  let running: Promise<unknown> = Promise.resolve();
  const rerun = (files: readonly TestFile[]) => {
    if (files.length === 0) return running;
    running = running
      .then(() => run(cli, runner, files, followed.options))
      .catch((thrown) => cli.talk(String(thrown)));
    return running;
  };
  app.watch((report) => {
    const changed = new Set([...report.added, ...report.changed, ...report.removed]);
    const failed = report.files.filter(({ failure }) => failure !== undefined);
    if (failed.length > 0) talkFailures(cli, report);
    if (changed.size === 0) return;
    cli.talk(`Changed: ${[...changed].join(", ")}`);
    const isTouched = ({ tool, calls = [] }: TestFile["tests"][number]) =>
      changed.has(tool) || calls.some((call) => changed.has(call.tool));
    void rerun(
      selectTests(followed.files, followed.pattern, isTouched).filter(({ tests }) => tests.length > 0),
    );
  });
  const watcher = watchFiles([join(directory, TEST_FOLDER)], async () => {
    const before = new Map(followed.files.map((file) => [file.file, JSON.stringify(file)]));
    followed.files = await readTestFiles(directory);
    const changed = followed.files.filter((file) => before.get(file.file) !== JSON.stringify(file));
    await rerun(selectTests(changed, followed.pattern));
  });
  cli.talk("Watching tools and tests; Ctrl-C ends it.");
  await interrupted;
  await watcher.close();
  await running;
}

/** `toolrack test --from CALLID`: writes a test of a recorded call. */
async function save(cli: Cli, callId: string, { name, file }: TestCommandOptions): Promise<void> {
  const server = await ServerClient.findIfAny(cli);
  const saved =
    server === undefined
      ? await saveHere(cli, callId, name, file)
      : await server
          .ask<SavedTest>(`/api/calls/${encodeURIComponent(callId)}/test`, "POST", { name, file })
          .catch((thrown) => {
            throw isCliError(thrown, "call_not_found") ? unknownCall(cli, callId) : thrown;
          });
  cli.answer(saved, () => {
    cli.print(`${saved.file}: ${saved.name}`);
    if (!saved.tried)
      cli.talk(`It was not tried: ${saved.test.tool} is not marked readOnly, so it may change something.`);
    cli.talk(`Run it with: ${cli.commandLine(`test ${shellQuote(saved.name)}`)}`);
  });
}

/** Where no server runs, with what the workspace's store has. */
async function saveHere(
  cli: Cli,
  callId: string,
  name: string | undefined,
  file: string | undefined,
): Promise<SavedTest> {
  return withApp(cli, { log: false }, async (app) => {
    await using others = new AsyncDisposableStack();
    const { recordTest, saveTest, settleTest, UnwritableCall } = await import("../../tests/index.ts");
    const { testRunnerOf } = await import("../../rack/index.ts");
    const store = await app.store();
    const { items } = await store.calls.list({ root: callId, limit: 500 });
    // Tools of other servers are known only while these run.
    if (items.some(({ toolName }) => app.registry.get(toolName) === undefined))
      others.defer(await addOthers(cli, app));
    try {
      const parts = { calls: store.calls, tokens: store.tokens, registry: app.registry };
      const runner = await testRunnerOf(app, async () => {});
      const settled = await settleTest(await recordTest(callId, parts, name), runner, app.registry);
      return await saveTest(findWorkspace(cli), settled, { file, isNamed: name !== undefined });
    } catch (thrown) {
      if (!(thrown instanceof UnwritableCall)) throw thrown;
      throw new CliError(thrown.message, { code: "call_unwritable", details: { callId, path: thrown.path } });
    }
  });
}
