import type { JsonSchema } from "../../schema/types.ts";
import { schemaText } from "./schema-text.ts";

/** What search knows of a tool. */
export interface SearchDocument {
  /** What `search` answers with. A second document with the same key replaces the first. */
  readonly key: string;
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
  /** A function is called once, when the document is added; if it throws, the tool is found by the rest. */
  readonly parameters?: JsonSchema | (() => JsonSchema);
  readonly tags?: readonly string[];
  readonly category?: string;
}

export interface SearchField {
  /** How much one occurrence counts beside one in the description. */
  readonly weight: number;
  /** How strongly a longer text discounts each of its words (BM25's `b`); short fields vary by chance. */
  readonly lengthDiscount: number;
  /** Names and titles keep words such as `who` and `not`; in prose they only add noise. */
  readonly keepsStopWords: boolean;
}

/** In the order of `fieldTexts`. */
export const SEARCH_FIELDS: readonly SearchField[] = [
  { weight: 3, lengthDiscount: 0.5, keepsStopWords: true }, // name and aliases
  { weight: 2, lengthDiscount: 0.5, keepsStopWords: true }, // title and display name
  { weight: 1, lengthDiscount: 0.75, keepsStopWords: false }, // description
  { weight: 1, lengthDiscount: 0.5, keepsStopWords: false }, // names of parameters
  { weight: 0.5, lengthDiscount: 0.75, keepsStopWords: false }, // descriptions and values of parameters
  { weight: 1, lengthDiscount: 0.5, keepsStopWords: false }, // tags and category
];

/** The texts of each field, none of them longer in sum than `MAX_FIELD_LENGTH` characters. */
export function fieldTexts(document: SearchDocument): readonly (readonly string[])[] {
  const parameters = parameterText(document.parameters);
  return [
    [document.name, ...(document.aliases ?? [])],
    [document.title ?? "", document.displayName ?? ""],
    [document.description ?? ""],
    parameters.names,
    parameters.descriptions,
    [...(document.tags ?? []), document.category ?? ""],
  ].map(withinLimit);
}

function parameterText(parameters: SearchDocument["parameters"]): ReturnType<typeof schemaText> {
  try {
    return schemaText(typeof parameters === "function" ? parameters() : (parameters ?? true));
  } catch {
    // A schema that cannot be made is reported where it is used; here it must not hide the tool.
    return { names: [], descriptions: [] };
  }
}

function withinLimit(texts: readonly string[]): readonly string[] {
  const kept: string[] = [];
  let room = MAX_FIELD_LENGTH;
  for (const text of texts) {
    if (room <= 0) break;
    kept.push(text.slice(0, room));
    room -= text.length;
  }
  return kept;
}

const MAX_FIELD_LENGTH = 20_000;
