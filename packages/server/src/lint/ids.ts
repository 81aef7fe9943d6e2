import type { ToolInfo } from "@toolrack/core";
import type { ToolDefinition } from "@toolrack/core/format";
import { definitionOf, searchTerms, splitWords } from "@toolrack/core/internal";
import { requiredOf } from "@toolrack/core/internal/schema";
import { actionOf, type Found, ownNameOf, parametersOf } from "./tool-facts.ts";

const idWords: ReadonlySet<string> = new Set(["id", "ids", "uuid", "guid", "uid"]);
/** Says in the description where the id comes from, or in which form a person gives it. */
const hasOrigin =
  /\b(?:from|return(?:ed|s)|obtain(?:ed)?|found|listed|shown|see|using|via|e\.?g|i\.?e|such as|for example|example|like|URL|link|arbitrary|chosen|choose|any|your own|default|current)\b|[`"'(]\S*\d|例如|比如|返回|来自|从|获取|通过|使用|链接|任意|自定义|默认/i;

/** What a tool needs to know before it can be called: the noun of each id that it requires. */
interface RequiredId {
  readonly parameter: string;
  /** Search terms of what the id names: those of `project` for `project_id`. */
  readonly nouns: readonly string[];
  readonly description: string;
}

/**
 * Finds ids that a model cannot know: a tool requires them, no other tool of the same source speaks of what they name
 * without requiring them too, and the description does not say where they come from.
 */
export class IdSources {
  /** By source: for each term, the tools that speak of it and do not require its id. */
  readonly #tellers = new Map<string, Map<string, Set<string>>>();

  add(tool: ToolInfo): void {
    const required = new Set(requiredIds(tool, definitionOf(tool)).flatMap(({ nouns }) => nouns));
    const spoken = [...searchTerms(textOf(tool)).keys()].filter((term) => !required.has(term));
    // Tools of one's own may take the ids of any other.
    for (const source of ["", sourceOf(tool)]) {
      const tellers = this.#tellers.get(source) ?? new Map<string, Set<string>>();
      this.#tellers.set(source, tellers);
      for (const term of spoken) tellers.set(term, (tellers.get(term) ?? new Set()).add(tool.name));
    }
  }

  findingsOn(tool: ToolInfo, definition: ToolDefinition | undefined): Found[] {
    const tellers = this.#tellers.get(sourceOf(tool));
    const isTold = (term: string) => {
      const names = tellers?.get(term);
      return names !== undefined && names.size > Number(names.has(tool.name));
    };
    return (
      requiredIds(tool, definition)
        // Without a noun nobody can tell what the id names.
        .filter(
          ({ nouns, description }) => nouns.length > 0 && !hasOrigin.test(description) && !nouns.some(isTold),
        )
        .map(({ parameter }) => ({
          code: "unknown_id",
          reason: `It requires \`${parameter}\`, an id that a model cannot know: no other tool lists or finds it.`,
          remedy: `Add a tool that lists these ids, take a name instead, or say in the description of \`${parameter}\` where it comes from.`,
          parameters: [parameter],
        }))
    );
  }
}

function requiredIds(tool: ToolInfo, definition: ToolDefinition | undefined): RequiredId[] {
  if (definition === undefined) return [];
  const required = new Set(requiredOf(definition.inputSchema));
  return parametersOf(definition.inputSchema).flatMap(({ path, name, schema: own, description }) => {
    const words = splitWords(name);
    const isGiven = ["enum", "const", "default", "examples", "example"].some((keyword) => keyword in own);
    if (path !== name || !required.has(name) || isGiven || !idWords.has(words.at(-1) ?? "")) return [];
    const before = words.filter((word) => !idWords.has(word));
    const nouns =
      before.length > 0 ? before : splitWords(ownNameOf(tool)).filter((word) => actionOf(word) === undefined);
    return [{ parameter: name, nouns: [...searchTerms(nouns.join(" ")).keys()], description }];
  });
}

function textOf(tool: ToolInfo): string {
  const { title = "", description = "" } = tool;
  return `${ownNameOf(tool)} ${title} ${description}`;
}

/** An upstream or a skill; empty for tools of one's own. */
function sourceOf({ origin = "" }: ToolInfo): string {
  return /^(?:mcp server|api|skill) [^/]+/.exec(origin)?.[0] ?? "";
}
