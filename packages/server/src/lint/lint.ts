import { readFile, stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { ToolInfo } from "@toolrack/core";
import { definitionOf } from "@toolrack/core/internal";
import { type Config, type LintRule, lintRules, toolMatcher } from "../config/index.ts";
import { inSlices } from "../helpers/index.ts";
import { annotationFindings, costFindings, nameFindings, providerFindings } from "./definition-rules.ts";
import { IdSources } from "./ids.ts";
import { parameterFindings, textFindings } from "./text-rules.ts";
import type { Finding } from "./tool-facts.ts";
import { Twins } from "./twins.ts";

/** The rules that tool files switch off for their own tools, by the origin of the tools. */
export type LintSwitches = ReadonlyMap<string, ReadonlySet<LintRule>>;

/** Finds what misleads models in the definitions of tools. Reads no files and asks nobody. */
export class Linter {
  readonly #tools: readonly ToolInfo[];
  readonly #maxTokens: number | undefined;
  readonly #isOff: ReadonlyMap<LintRule, (tool: ToolInfo) => boolean>;
  readonly #twins = new Twins();
  readonly #ids = new IdSources();

  private constructor(tools: readonly ToolInfo[], { off = {}, maxTokens }: NonNullable<Config["lint"]>) {
    this.#tools = tools;
    this.#maxTokens = maxTokens;
    const matcherOf = (rule: LintRule) => toolMatcher([...(off[rule] ?? []), ...(off.all ?? [])]);
    this.#isOff = new Map(lintRules.map((rule) => [rule, matcherOf(rule)]));
  }

  /** `tools`: all that a model may be offered together, because a tool is also judged by the others. */
  static async open(tools: readonly ToolInfo[], config: Config["lint"] = {}): Promise<Linter> {
    const linter = new Linter(tools, config);
    await inSlices(tools.values(), (tool) => {
      linter.#twins.add(tool);
      linter.#ids.add(tool);
    });
    return linter;
  }

  /**
   * The findings on these tools, or on all. Two tools that are each other's twins are reported once. Rejects when `signal`
   * aborts meanwhile: each of very many tools is compared with all others.
   */
  async lint(
    switches: LintSwitches,
    tools: readonly ToolInfo[] = this.#tools,
    signal?: AbortSignal,
  ): Promise<Finding[]> {
    const found: Finding[] = [];
    const pairs = new Set<string>();
    await inSlices(tools.values(), (tool) => {
      signal?.throwIfAborted();
      for (const finding of this.#findingsOn(tool)) {
        const { code, twin } = finding;
        const isOff = this.#isOff.get(code)?.(tool) || switches.get(tool.origin ?? "")?.has(code);
        if (isOff || (twin !== undefined && pairs.has(`${twin} ${tool.name}`))) continue;
        if (twin !== undefined) pairs.add(`${tool.name} ${twin}`);
        found.push({ tool: tool.name, ...finding });
      }
    });
    return found;
  }

  #findingsOn(tool: ToolInfo) {
    const definition = definitionOf(tool);
    return [
      ...textFindings(tool),
      ...parameterFindings(definition),
      ...this.#twins.findingsOn(tool),
      ...this.#ids.findingsOn(tool, definition),
      ...providerFindings(tool, definition),
      ...nameFindings(tool),
      ...costFindings(tool, this.#maxTokens),
      ...annotationFindings(tool),
    ];
  }
}

/** Larger files are not read: no tool file that a person wrote is as long. */
const LARGEST_FILE = 1024 * 1024;
const comment = /\btoolrack lint off:((?:[ \t]*[a-z_]+,?)+)/g;

/**
 * Reads which rules the files of the tools switch off, by comments such as `toolrack lint off: near_twin, tokens_high`. A
 * comment holds for all tools of its file. `directory`: the workspace.
 */
export async function readSwitches(directory: string, tools: readonly ToolInfo[]): Promise<LintSwitches> {
  const origins = new Set(tools.map(({ origin = "" }) => origin).filter((origin) => toolFile.test(origin)));
  const entries: [string, ReadonlySet<LintRule>][] = [];
  for (const origin of origins) {
    const rules = rulesIn(await textOf(resolve(directory, origin)));
    if (rules.size > 0) entries.push([origin, rules]);
  }
  return new Map(entries);
}

const toolFile = /^(?!(?:mcp server|api|skill|built-in) ).*\.[mc]?[jt]sx?$/;

function rulesIn(text: string): ReadonlySet<LintRule> {
  const named = [...text.matchAll(comment)].flatMap(([, codes = ""]) => codes.split(/[\s,]+/));
  return new Set(lintRules.filter((rule) => named.includes(rule)));
}

async function textOf(path: string): Promise<string> {
  try {
    return (await stat(path)).size > LARGEST_FILE ? "" : await readFile(path, "utf8");
  } catch {
    return ""; // The file was removed a moment ago.
  }
}
