import { glob } from "node:fs/promises";
import { relative, resolve } from "node:path";
import { isHelperTool } from "../../calls/index.ts";
import type { AskModel, EvalFile, EvalReport, HitRate, VersionReport } from "../../evals/index.ts";
import type { App } from "../../rack/index.ts";
import type { Cli } from "../cli.ts";
import { CliError, exitCodes } from "../cli-error.ts";
import { withAllTools } from "../rack-tools.ts";
import { amount, clipDisplay, oneLine, printable, renderTable } from "../text.ts";
import { entryAt, findWorkspace } from "../workspace.ts";

export interface EvalOptions {
  readonly model?: string;
  readonly runs?: number;
  readonly offline?: boolean;
}

/** `toolrack eval`: whether prompts lead to the right tools, by search and, where one is configured, by a model. */
export async function evaluateFiles(cli: Cli, given: readonly string[], options: EvalOptions): Promise<void> {
  const { evaluate, readEvalFile } = await import("../../evals/index.ts");
  const paths = await filesOf(cli, given);
  const files = await Promise.all(paths.map((path) => readEvalFile(path, shown(cli, path)))).catch(wrongFile);
  await withAllTools(cli, async (app) => {
    const tools = app.registry.list().filter(({ name }) => !isHelperTool(name));
    const stopping = new AbortController();
    cli.onInterrupt(() => stopping.abort(new Error("It was interrupted.")));
    const reports: EvalReport[] = [];
    for (const file of files) {
      const model =
        options.offline === true ? undefined : await modelOf(cli, app, file, options, stopping.signal);
      reports.push(
        await evaluate(file, {
          tools,
          search: app.search,
          runs: options.runs,
          ...(model && { model }),
        }).catch(wrongFile),
      );
      cli.status.clear();
    }
    cli.answer({ files: reports }, () => {
      for (const report of reports) printReport(cli, report);
    });
    if (reports.some(({ passed }) => !passed)) cli.exitCode = exitCodes.toolError;
  });
}

/** The files that are named, those of folders, or all of `evals/`. Patterns that no shell has filled in are filled in here. */
async function filesOf(cli: Cli, given: readonly string[]): Promise<string[]> {
  const isGiven = given.length > 0;
  const cwd = isGiven ? cli.cwd : findWorkspace(cli);
  const found: string[] = [];
  for (const named of isGiven ? given : ["evals"]) {
    const entry = entryAt(resolve(cwd, named));
    const pattern = entry?.isDirectory() === true ? `${named}/*.{yaml,yml}` : named;
    if (entry?.isFile() === true) found.push(resolve(cwd, named));
    else for await (const match of glob(pattern, { cwd })) found.push(resolve(cwd, match));
  }
  // A pipe or a device could be read without end.
  const paths = found.filter((path) => entryAt(path)?.isFile());
  if (paths.length > 0) return [...new Set(paths)].sort();
  const where = isGiven ? given.join(", ") : "evals/*.yaml";
  throw new CliError(`There is no file of evals at ${where}.`, {
    code: "no_evals",
    details: { path: where },
  });
}

function shown(cli: Cli, path: string): string {
  return relative(cli.cwd, path) || path;
}

function wrongFile(thrown: unknown): never {
  if (!(thrown instanceof Error) || thrown.name !== "YamlFileError") throw thrown;
  const { message, file, line, reason } = Object(thrown);
  throw new CliError(message, { code: "eval_invalid", details: { file, line, reason } });
}

/** How the model of a file is asked; undefined when no provider is configured. */
async function modelOf(
  cli: Cli,
  app: App,
  file: EvalFile,
  { model, runs = file.runs }: EvalOptions,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly ask: AskModel } | undefined> {
  const [{ providersOf }, { Trials }] = await Promise.all([
    import("../../rack/index.ts"),
    import("../../chat/index.ts"),
  ]);
  const providers = await providersOf(app);
  const wanted = model ?? file.model;
  // A model that was asked for by name must be there.
  if (!providers.isConfigured && wanted === undefined) return undefined;
  const endpoint = await providers.resolve(wanted);
  const store = await app.store();
  const settings = {
    budget: app.config.chat?.toolBudget,
    noteUsage: store.usage.add.bind(store.usage),
  };
  const all = file.cases.length * runs * (1 + Object.keys(file.versions).length);
  const name = `${endpoint.provider}/${endpoint.model}`;
  cli.talk(
    `Asking ${name} ${amount(all, "time")} for ${file.file}. No tool is run; --offline asks no model.`,
  );
  let asked = 0;
  const ask: AskModel = async (registry, { prompt, answers }) => {
    cli.status.set(`${++asked} of ${all}  ${oneLine(prompt)}`);
    const system = file.system === undefined ? [] : [{ role: "system" as const, content: file.system }];
    return new Trials(registry, providers, settings).run({
      endpoint,
      messages: [...system, { role: "user", content: prompt }],
      answerOf: (tool) => (Object.hasOwn(answers, tool) ? answers[tool] : undefined),
      signal,
    });
  };
  return { name, ask };
}

function printReport(cli: Cli, { file, model, versions }: EvalReport): void {
  cli.print(cli.style("bold", file) + (model === undefined ? "" : `  ${model}`));
  for (const version of versions) printVersion(cli, version, versions.length > 1);
}

const WIDEST_PROMPT = 48;

function printVersion(cli: Cli, report: VersionReport, isOneOfMany: boolean): void {
  if (isOneOfMany) cli.print(`  ${cli.style("bold", report.version)}`);
  const rows = report.cases.map(({ name, expected, ranks, ahead, model, passed }) => [
    passed ? "ok" : "miss",
    ...(model === undefined ? [] : [rateText(model)]),
    expected.length === 0 ? "-" : expected.map((tool) => ranks[tool] ?? "none").join(", "),
    clipDisplay(oneLine(name), WIDEST_PROMPT),
    expected.length === 0 ? "no tool" : expected.join(", "),
    why(model?.misses, ahead),
  ]);
  const head = ["", ...(report.model === undefined ? [] : ["HITS"]), "RANK", "PROMPT", "EXPECTED", ""];
  const styleHead = (text: string) => cli.style("dim", text);
  for (const line of renderTable(
    rows.map((row) => row.map((cell) => oneLine(String(cell)))),
    { head, styleHead },
  ))
    cli.print(`  ${line}`.trimEnd());
  cli.print(`  ${summary(report)}`);
  for (const { expected, instead, by, count } of report.confusions) {
    const how = by === "search" ? `search finds ${instead} first` : `the model calls ${instead}`;
    cli.print(`  Confused: for ${expected}, ${how} (${count}).`);
  }
}

function why(misses: Readonly<Record<string, number>> | undefined, ahead: readonly string[]): string {
  if (misses === undefined) return ahead.length === 0 ? "" : `behind ${ahead.join(", ")}`;
  const [most] = Object.entries(misses).sort(([, one], [, other]) => other - one);
  return most === undefined ? "" : printable(most[0]);
}

function rateText({ hits, runs, interval: [low, high] }: HitRate): string {
  return `${hits}/${runs} (${percent(low)}–${percent(high)})`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function summary({ found, searched, tokens, model, change }: VersionReport): string {
  const parts = [
    `Search finds the tools of ${found} of ${searched} prompts.`,
    `The definitions cost about ${tokens} tokens.`,
  ];
  if (model !== undefined) {
    const { prompt_tokens, completion_tokens, cost } = model.usage;
    const price = cost === undefined ? "" : `, cost ${cost.toPrecision(3)}`;
    parts.push(
      `The model hits ${rateText(model)}: ${prompt_tokens} tokens in, ${completion_tokens} out${price}.`,
    );
  }
  if (change !== undefined) {
    const [low, high] = change.interval.map((share) => `${share > 0 ? "+" : ""}${Math.round(share * 100)}`);
    const verdict = change.isSure ? "" : ", which may be chance";
    parts.push(`Against current: ${low} to ${high} points${verdict}.`);
  }
  return parts.join(" ");
}
