import { compileSchema, type ToolInfo } from "@toolrack/core";
import { schemaText, searchTerms, splitWords, ToolIndex } from "@toolrack/core/internal";
import { actionOf, type Found, ownNameOf } from "./tool-facts.ts";

/** A tool is a twin when search, asked for the words of one, finds the other this well, compared with the one itself. */
const TWIN_SHARE = 0.86;
/** Above this share, names that say different things do not help. */
const SAME_SHARE = 0.97;
/** How many of the best tools are compared. */
const MOST_COMPARED = 6;
/** Longer descriptions are cut: what a tool is for stands at the beginning. */
const LONGEST_TEXT = 600;
/** Descriptions with fewer words of their own say too little to be compared. */
const LEAST_TERMS = 2;
const MOST_WORDS = 6;

/** How well search finds another tool by the words of one, compared with the one itself. */
interface Likeness {
  readonly other: ToolInfo;
  readonly share: number;
}

/**
 * Finds tools that a model will confuse, with the rack's own search: a request in the words of one tool finds the other
 * nearly as well. Only descriptions are compared, because names differ, if only by the server that tools come from; and
 * words for the same action count as one.
 */
export class Twins {
  readonly #index = new ToolIndex();
  readonly #tools = new Map<string, ToolInfo>();
  readonly #known = new Map<ToolInfo, readonly Likeness[]>();

  add(tool: ToolInfo): void {
    this.#tools.set(tool.name, tool);
    this.#index.add({ key: tool.name, name: "", description: comparedText(tool) });
  }

  findingsOn(tool: ToolInfo): Found[] {
    return this.#nearest(tool).flatMap(({ other, share }) => {
      // Both ways: a tool that does one thing of many is no twin of the one that does them all.
      const back = this.#nearest(other).find((found) => found.other.name === tool.name);
      const both = Math.min(share, back?.share ?? 0);
      const isTwin = both >= SAME_SHARE || (both >= TWIN_SHARE && actionIn(tool) === actionIn(other));
      return isTwin ? [twinFinding(tool, other, both)] : [];
    });
  }

  /** Found once for each tool, because tools that are alike ask for each other. */
  #nearest(tool: ToolInfo): readonly Likeness[] {
    const known = this.#known.get(tool) ?? this.#search(tool);
    this.#known.set(tool, known);
    return known;
  }

  #search(tool: ToolInfo): Likeness[] {
    const text = comparedText(tool);
    if (searchTerms(text).size < LEAST_TERMS) return [];
    const matches = this.#index.search(text, { limit: MOST_COMPARED });
    const own = matches.find(({ key }) => key === tool.name)?.score ?? matches[0]?.score ?? 0;
    return matches.flatMap(({ key, score }) => {
      const other = this.#tools.get(key);
      const share = Math.min(1, score / own);
      return other === undefined || key === tool.name || share < TWIN_SHARE ? [] : [{ other, share }];
    });
  }
}

function comparedText({ description = "" }: ToolInfo): string {
  return description
    .slice(0, LONGEST_TEXT)
    .replace(/[a-z]+/gi, (word) => actionOf(word.toLowerCase()) ?? word);
}

/** What the tool does by its name; undefined when that does not say. */
function actionIn(tool: ToolInfo): string | undefined {
  return splitWords(ownNameOf(tool))
    .map(actionOf)
    .find((action) => action !== undefined);
}

function twinFinding(tool: ToolInfo, other: ToolInfo, share: number): Found {
  const [here, there] = [wordsOf(tool), wordsOf(other)];
  const only = (own: Map<string, string>, others: Map<string, string>) =>
    [...own].flatMap(([term, word]) => (others.has(term) ? [] : [word])).slice(0, MOST_WORDS);
  const apart = [[tool.name, only(here, there)] as const, [other.name, only(there, here)] as const].flatMap(
    ([name, words]) => (words.length === 0 ? [] : [`${name}: ${words.join(", ")}`]),
  );
  const words =
    apart.length === 0
      ? "Their texts have no word that tells them apart. Keep one of them, or add what is different."
      : `Words that tell them apart, ${apart.join("; ")}.`;
  return {
    code: "near_twin",
    reason: `A model will confuse it with ${other.name}: the words of one find the other ${Math.round(share * 100)} % as well.`,
    remedy: `Say in the descriptions of both when to use which. ${words}`,
    twin: other.name,
  };
}

/** The words of the whole definition: those of the parameters may tell tools apart, though no description has them yet. */
function wordsOf({ name, title = "", description = "", parameters }: ToolInfo): Map<string, string> {
  const texts = [name, title, description];
  try {
    const { names, descriptions } = schemaText(compileSchema(parameters).jsonSchema());
    texts.push(...names, ...descriptions);
  } catch {
    // A schema without a JSON Schema form has no words.
  }
  return searchTerms(texts.join(" . "));
}
