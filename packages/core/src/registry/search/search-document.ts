import { isRecord, type JsonSchema, keysOf, listOf, walkSchemas } from "../../schema/visit.ts";
import { editDistance } from "../../tool/name.ts";

/** What search knows of a tool. */
export interface SearchDocument {
  /** Returned by `search`. A second document with the same key replaces the first. */
  readonly key: string;
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
  /** A function is called once, when the document is added; if it throws, the tool is indexed without parameters. */
  readonly parameters?: JsonSchema | (() => JsonSchema);
  readonly tags?: readonly string[];
  readonly category?: string;
}

/** A word, and how much it counts in its text. */
export type WeightedWord = readonly [word: string, weight: number];

/**
 * What documents mean, each by its slot number. Kept outside core, because it needs vectors of words: `@toolrack/words` has them
 * for English and Chinese. Must give the same answers whatever documents came and went before.
 */
export interface Meanings {
  /** The slot must be empty. Words are in lower case; text without spaces is one word. */
  add(slot: number, words: Iterable<WeightedWord>): void;
  /** Does nothing for an empty slot. */
  remove(slot: number): void;
  /** What a text means; undefined when no word of it is known. */
  vectorOf(words: Iterable<string>): Float32Array | undefined;
  /** The slots of about `count` documents that mean most nearly the same. */
  nearest(vector: Float32Array, count: number): Iterable<number>;
  /** How near a document is to the nearest of the vectors: at most 1, and 0 or less when it has nothing in common. */
  similarity(vectors: readonly Float32Array[], slot: number): number;
}

/** Vectors of words in which words of like meaning lie close together, in whatever language. */
export interface WordVectors {
  /** An index of documents, empty at first. */
  newIndex(): Meanings;
}

interface SearchField {
  /** The weight of an occurrence, relative to the description. A multiple of 0.5. */
  readonly weight: number;
  /** Names and titles keep words such as `who` and `not`; in prose, such words only add noise. */
  readonly keepsStopWords: boolean;
  /** How much its words count for what the tool means. */
  readonly meaning: number;
}

/** In the order of `fieldTexts`. */
export const SEARCH_FIELDS: readonly SearchField[] = [
  { weight: 3, keepsStopWords: true, meaning: 1.5 }, // name and aliases
  { weight: 2, keepsStopWords: true, meaning: 1.5 }, // title and display name
  { weight: 1, keepsStopWords: false, meaning: 1 }, // description
  { weight: 0.5, keepsStopWords: false, meaning: 0.5 }, // names of parameters
  { weight: 0.5, keepsStopWords: false, meaning: 0.25 }, // descriptions and values of parameters
  { weight: 1, keepsStopWords: false, meaning: 1 }, // tags and category
];

/** The texts of each field in `SEARCH_FIELDS`, cut to `MAX_FIELD_LENGTH` characters per field. */
export function fieldTexts(document: SearchDocument): readonly (readonly string[])[] {
  const { name, aliases = [], title = "", displayName = "", description = "", tags = [] } = document;
  const parameters = parameterText(document.parameters);
  return [
    [name, ...aliases],
    [title, displayName],
    [description],
    parameters.names,
    parameters.descriptions,
    [...tags, document.category ?? ""],
  ].map(withinLimit);
}

function parameterText(parameters: SearchDocument["parameters"]): SchemaText {
  try {
    return schemaText(typeof parameters === "function" ? parameters() : (parameters ?? true));
  } catch {
    // A broken schema is reported elsewhere; here it must not hide the tool.
    return { names: [], descriptions: [] };
  }
}

function withinLimit(texts: readonly string[]): readonly string[] {
  let room = MAX_FIELD_LENGTH;
  return texts.map((text) => {
    const kept = text.slice(0, Math.max(0, room));
    room -= text.length;
    return kept;
  });
}

const MAX_FIELD_LENGTH = 20_000;

interface SchemaText {
  readonly names: readonly string[];
  /** Descriptions and titles, and the values of enumerations. */
  readonly descriptions: readonly string[];
}

/**
 * Collects the names and descriptions of a parameter schema, however deep they are nested. Reads at most
 * `MAX_DEPTH` levels and `MAX_NODES` schemas, so that reading a huge or recursive schema ends. Never throws
 * for a malformed schema: parts that it does not understand are left out.
 */
export function schemaText(schema: JsonSchema): SchemaText {
  const names: string[] = [];
  const descriptions: string[] = [];
  let nodes = 0;
  const addText = (text: unknown) => {
    if (typeof text === "string" && text !== "") descriptions.push(text);
  };
  if (isRecord(schema)) {
    walkSchemas(schema, ({ schema: node, depth, steps: [keyword] }) => {
      if (keyword !== undefined && !READ_KEYWORDS.has(keyword)) return false;
      if (nodes >= MAX_NODES || depth > MAX_DEPTH) return false;
      nodes++;
      names.push(...keysOf(node.properties).slice(0, MAX_NODES - names.length));
      for (const text of [node.title, node.description, node.const]) addText(text);
      for (const value of listOf(node.enum).slice(0, MAX_ENUM_VALUES)) addText(value);
      return true;
    });
  }
  return { names, descriptions };
}

const MAX_DEPTH = 12;
const MAX_NODES = 1_000;
const MAX_ENUM_VALUES = 50;
/**
 * The keywords whose subschemas are read: without `if` and `not`, which do not describe a tool's arguments.
 */
const READ_KEYWORDS = new Set([
  ..."properties patternProperties additionalProperties $defs definitions items prefixItems".split(" "),
  ...["anyOf", "oneOf", "allOf", "then", "else"],
]);

/**
 * Finds the terms that the user may have meant by a term that no tool contains: for an unfinished last word,
 * the terms that begin with it; for any word, the terms one edit away (a letter missing, added, changed, or
 * two swapped); and for an unfinished word that is longer than its stem (`calculat`), the stem (`calcul`).
 * Reads the whole vocabulary, so it is meant for short requests. `accept` is asked about few terms.
 */
export function similarTerms(
  term: string,
  vocabulary: Iterable<string>,
  unfinished: boolean,
  accept: (term: string) => boolean = () => true,
): string[] {
  const continued: string[] = [];
  const misspelt: string[] = [];
  let outgrown = "";
  for (const candidate of vocabulary) {
    const isLonger = candidate.length >= MIN_LENGTH && candidate.length > outgrown.length;
    if (unfinished && candidate.startsWith(term)) addAccepted(continued, candidate);
    else if (term.length >= MIN_LENGTH && editDistance(term, candidate, 1) <= 1)
      addAccepted(misspelt, candidate);
    else if (unfinished && isLonger && term.startsWith(candidate) && accept(candidate)) outgrown = candidate;
  }
  if (continued.length > 0) return nearest(continued);
  if (misspelt.length > 0) return nearest(misspelt);
  return outgrown === "" ? [] : [outgrown];

  function addAccepted(list: string[], candidate: string): void {
    if (accept(candidate)) list.push(candidate);
  }
}

/** The shortest terms first; terms of equal length alphabetically, so that the result is stable. */
function nearest(found: string[]): string[] {
  return found
    .sort((left, right) => left.length - right.length || (left < right ? -1 : 1))
    .slice(0, MAX_SIMILAR_TERMS);
}

const MIN_LENGTH = 4;
const MAX_SIMILAR_TERMS = 8;
