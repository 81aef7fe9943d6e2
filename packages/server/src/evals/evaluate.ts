import { type SearchSettings, type ToolInfo, ToolRegistry } from "@toolrack/core";
import { definitionTokens, nearestNames } from "@toolrack/core/internal";
import type { ModelUsage } from "../chat/index.ts";
import { toolMatcher } from "../config/index.ts";
import { YamlFileError } from "../helpers/yaml-file.ts";
import { CURRENT, type EvalCase, type EvalFile } from "./eval-file.ts";
import {
  type AskModel,
  type CaseRuns,
  type Confusion,
  Confusions,
  difference,
  type HitRate,
  type Interval,
  tryModel,
} from "./model-runs.ts";

export interface CaseReport {
  readonly name: string;
  /** `FILE:LINE` */
  readonly place: string;
  readonly expected: readonly string[];
  /** At which place search finds each expected tool; absent for one that it does not find. */
  readonly ranks: Readonly<Record<string, number>>;
  /** The tools that search puts before the first that is expected. */
  readonly ahead: readonly string[];
  readonly model?: CaseRuns;
  readonly passed: boolean;
}

export interface VersionReport {
  /** `current`: the tools as they are. */
  readonly version: string;
  /** What the definitions of all tools that take part cost a model's context. */
  readonly tokens: number;
  readonly cases: readonly CaseReport[];
  /** Cases in which search finds the expected tools, of those that expect any. */
  readonly found: number;
  readonly searched: number;
  readonly confusions: readonly Confusion[];
  readonly model?: HitRate & { readonly usage: ModelUsage };
  /** How the hit rate differs from that of `current`; `isSure`: by more than chance. */
  readonly change?: { readonly interval: Interval; readonly isSure: boolean };
}

export interface EvalReport {
  readonly file: string;
  /** `PROVIDER/MODEL`; absent when no model was asked. */
  readonly model?: string;
  /** The first is `current`. */
  readonly versions: readonly VersionReport[];
  /** Whether all cases of `current` passed. */
  readonly passed: boolean;
}

export interface EvaluateOptions {
  readonly tools: readonly ToolInfo[];
  /** How the rack of these tools searches. */
  readonly search?: SearchSettings;
  /** Not given: only search is tried. */
  readonly model?: { readonly name: string; readonly ask: AskModel };
  readonly runs?: number | undefined;
}

/** Tools that search finds later are as good as not found. */
const DEEPEST_RANK = 100;

/** Tries the cases of a file. Throws `YamlFileError` for tools that do not exist, and the provider's error when it fails. */
export async function evaluate(file: EvalFile, options: EvaluateOptions): Promise<EvalReport> {
  const takesPart = toolMatcher(file.tools);
  const tools = options.tools.filter((tool) => !tool.disabled && takesPart(tool));
  const versions: VersionReport[] = [];
  // A list, because an object has keys such as "1" before all others.
  const tried = [[CURRENT, {}] as const, ...Object.entries(file.versions)];
  for (const [version, descriptions] of tried) {
    const registry = new ToolRegistry({ search: options.search });
    registry.apply({ put: tools });
    describe(registry, descriptions, `versions.${version}`, file);
    await registry.prepareSearch();
    const report = await evaluateVersion(version, registry, file, options);
    versions.push({ ...report, ...changeFrom(versions[0], report) });
  }
  const passed = versions[0]!.cases.every((one) => one.passed);
  return { file: file.file, ...(options.model && { model: options.model.name }), versions, passed };
}

/** Gives tools other descriptions. */
function describe(
  registry: ToolRegistry,
  descriptions: Readonly<Record<string, string>>,
  path: string,
  file: EvalFile,
): void {
  for (const [name, description] of Object.entries(descriptions))
    registry.update(requireTool(registry, name, `${path}["${name}"]`, file).name, { description });
}

function requireTool(registry: ToolRegistry, name: string, path: string, file: EvalFile): ToolInfo {
  const tool = registry.get(name);
  if (tool !== undefined) return tool;
  const nearest = nearestNames(
    name,
    registry.getAll().map((one) => one.name),
  );
  const hint = nearest.length === 0 ? "" : ` Did you mean ${nearest.join(" or ")}?`;
  throw new YamlFileError(
    file.file,
    file.lineOf(path),
    `No tool that takes part has the name "${name}".${hint}`,
  );
}

async function evaluateVersion(
  version: string,
  registry: ToolRegistry,
  file: EvalFile,
  { model, runs = file.runs }: EvaluateOptions,
): Promise<VersionReport> {
  const confusions = new Confusions();
  const found = file.cases.map((one, at) => searched(one, at, registry, file, confusions));
  const tried = model && (await tryModel(registry, file, model.ask, runs, confusions));
  const cases = found.map(({ isFound, ...report }, at): CaseReport => {
    const own = tried?.cases[at];
    if (own === undefined) return { ...report, passed: isFound };
    return { ...report, model: own, passed: own.runs > 0 && own.hits / own.runs >= file.rate };
  });
  const expecting = found.filter(({ expected }) => expected.length > 0);
  return {
    version,
    tokens: registry.getAll().reduce((sum, tool) => sum + definitionTokens(tool), 0),
    cases,
    found: expecting.filter(({ isFound }) => isFound).length,
    searched: expecting.length,
    confusions: confusions.list(),
    ...(tried && { model: tried.total }),
  };
}

function changeFrom(
  first: VersionReport | undefined,
  { model }: VersionReport,
): Pick<VersionReport, "change"> {
  if (first?.model === undefined || model === undefined) return {};
  const interval = difference(first.model, model);
  return { change: { interval, isSure: interval[0] > 0 || interval[1] < 0 } };
}

/** Where search finds the expected tools of a case. */
function searched(one: EvalCase, at: number, registry: ToolRegistry, file: EvalFile, confusions: Confusions) {
  const path = `cases[${at}]`;
  const expected = one.expect.map(({ tool }) => requireTool(registry, tool, `${path}.expect`, file).name);
  const order = registry.search(one.prompt, DEEPEST_RANK);
  const rankOf = (name: string) => order.findIndex((tool) => tool.name === name) + 1;
  const ranks = Object.fromEntries(
    expected.map((name) => [name, rankOf(name)]).filter(([, rank]) => rank !== 0),
  );
  const best = Math.min(...Object.values<number>(ranks), order.length + 1);
  const ahead = expected.length === 0 ? [] : order.slice(0, best - 1);
  const first = ahead[0];
  if (first !== undefined && expected[0] !== undefined) confusions.add(expected[0], first.name, "search");
  const isForbidden = toolMatcher(one.forbid);
  const isFound =
    expected.every((name) => rankOf(name) > 0 && rankOf(name) <= file.within) && !ahead.some(isForbidden);
  return {
    name: one.name,
    place: `${file.file}:${file.lineOf(path)}`,
    expected,
    ranks,
    ahead: ahead.slice(0, file.within).map(({ name }) => name),
    isFound,
  };
}
