import { fieldTexts, SEARCH_FIELDS, type SearchDocument, similarTerms } from "./search-document.ts";
import { queryTerms, STOP_WORDS, splitWords, tokenize } from "./tokenize.ts";

interface SearchMatch {
  readonly key: string;
  /** Comparable only with other scores of the same search. */
  readonly score: number;
}

/** What is needed to score and remove a document. */
interface IndexedDocument {
  readonly key: string;
  /** How many words each of its fields has. */
  readonly lengths: readonly number[];
  readonly terms: readonly string[];
  /** The tool's name and aliases, each both as written and as separate words, in lower case. */
  readonly spellings: ReadonlySet<string>;
}

/**
 * Searches tools by their names and texts: first tools whose name or alias is the query itself, then BM25F over the
 * fields of `SearchDocument`. Scores depend only on the documents in the index, not on its history.
 */
export class ToolIndex {
  /**
   * The documents by slot number. The slot of a removed document is empty until another document takes it.
   */
  readonly #documents: (IndexedDocument | undefined)[] = [];
  readonly #emptySlots: number[] = [];
  readonly #slots = new Map<string, number>();
  /**
   * For every term that some document contains now: the slots of those documents, each with the term's packed
   * counts by field (see `countTerms`).
   */
  readonly #postings = new Map<string, Map<number, number>>();
  /** Slots by the spellings of names and aliases. */
  readonly #named = new Map<string, Map<number, true>>();
  readonly #fields = SEARCH_FIELDS.map(() => ({ total: 0, documents: 0 }));

  get size(): number {
    return this.#slots.size;
  }

  /**
   * Adds a document, or replaces the document that has the same key. Never throws, whatever the tool's texts
   * contain.
   */
  add(document: SearchDocument): void {
    const { key, name, aliases = [] } = document;
    const { lengths, counts } = countTerms(document);
    const spellings = new Set(
      [name, ...aliases].flatMap((one) => [literalSpelling(one), wordSpelling(one)]).filter(Boolean),
    );
    this.remove(key);
    const slot = this.#emptySlots.pop() ?? this.#documents.length;
    this.#documents[slot] = { key, lengths, terms: [...counts.keys()], spellings };
    this.#slots.set(key, slot);
    for (const [term, packed] of counts) put(this.#postings, term, slot, packed);
    for (const spelling of spellings) put(this.#named, spelling, slot, true);
    this.#countLengths(lengths, 1);
  }

  /** Returns whether the key was there. */
  remove(key: string): boolean {
    const slot = this.#slots.get(key);
    const document = slot === undefined ? undefined : this.#documents[slot];
    if (slot === undefined || document === undefined) return false;
    for (const term of document.terms) take(this.#postings, term, slot);
    for (const spelling of document.spellings) take(this.#named, spelling, slot);
    this.#countLengths(document.lengths, -1);
    this.#documents[slot] = undefined;
    this.#emptySlots.push(slot);
    return this.#slots.delete(key);
  }

  /** The best matches first; equal scores by key. */
  search(query: string, { limit = DEFAULT_LIMIT }: { readonly limit?: number } = {}): SearchMatch[] {
    if (this.size === 0 || !(limit >= 1)) return [];
    const scores = new Float32Array(this.#documents.length);
    for (const [term, weight] of this.#weighTerms(query)) this.#addScores(term, weight, scores);
    this.#raisePrefixMatches(query, scores);
    this.#raiseExactMatches(query, scores);
    const most = Math.floor(limit);
    // Numbers are sorted many times faster than matches, of which there may be tens of thousands.
    const found = scores.filter((score) => score > 0);
    const least = found.length > most ? found.sort()[found.length - most]! : 0;
    const matches: SearchMatch[] = [];
    scores.forEach((score, slot) => {
      if (score > 0 && score >= least) matches.push({ key: this.#documents[slot]!.key, score });
    });
    matches.sort((left, right) => right.score - left.score || (left.key < right.key ? -1 : 1));
    return matches.slice(0, most);
  }

  /**
   * The terms of a query that some document contains, with their weights; if there are very many, only those
   * with the highest weights.
   */
  #weighTerms(query: string): [term: string, weight: number][] {
    const wanted = queryTerms(query);
    const words = wanted.filter((each) => each.isWord);
    const toleratesSlips = words.length <= MAX_WORDS_FOR_SIMILAR;
    const weights = new Map<string, number>();
    const add = (term: string, weight: number): boolean => {
      const frequency = this.#postings.get(term)?.size;
      if (frequency === undefined) return false;
      const rarity = Math.log(1 + (this.size - frequency + 0.5) / (frequency + 0.5));
      weights.set(term, Math.max(weights.get(term) ?? 0, weight * rarity));
      return true;
    };
    for (const each of wanted) {
      if (add(each.term, each.weight) || !each.isWord || !toleratesSlips) continue;
      const similar = similarTerms(each.term, this.#postings.keys(), each === words.at(-1));
      for (const term of similar) add(term, each.weight * SIMILAR_WEIGHT);
    }
    if (weights.size <= MAX_WEIGHED_TERMS) return [...weights];
    return [...weights].sort((left, right) => right[1] - left[1]).slice(0, MAX_WEIGHED_TERMS);
  }

  #addScores(term: string, weight: number, scores: Float32Array): void {
    for (const [slot, packed] of this.#postings.get(term) ?? []) {
      const { lengths } = this.#documents[slot]!;
      let frequency = 0;
      let field = 0;
      for (let counts = packed; counts !== 0; counts >>>= COUNT_BITS, field++) {
        const count = counts & MAX_COUNT;
        if (count > 0) frequency += count * this.#occurrenceWeight(field, lengths[field]!);
      }
      scores[slot]! += (weight * frequency) / (SATURATION + frequency);
    }
  }

  /**
   * The weight of one occurrence of a word in a field; lower when the field is longer than the same field of
   * other tools.
   */
  #occurrenceWeight(field: number, length: number): number {
    const { weight, lengthDiscount } = SEARCH_FIELDS[field]!;
    const { total, documents } = this.#fields[field]!;
    const relativeLength = total === 0 ? 1 : (length * documents) / total;
    return weight / (1 - lengthDiscount + lengthDiscount * relativeLength);
  }

  /**
   * Finds the tools whose name or alias begins with the query, if that is one word. They rank above all others when the
   * query looks like a part of a name: it has a separator, or no tool has the word.
   */
  #raisePrefixMatches(query: string, scores: Float32Array): void {
    const start = literalSpelling(query);
    if (start.length < 2 || start.length > MAX_NAME_LENGTH || /\s/.test(start)) return;
    const isKnownWord = queryTerms(query).every(({ term }) => this.#postings.has(term));
    const isName = /[^\p{L}\p{N}]/u.test(start) || !isKnownWord;
    const found = new Set<number>();
    for (const [spelling, slots] of this.#named)
      if (spelling.startsWith(start)) for (const slot of slots.keys()) found.add(slot);
    const step = isName ? scores.reduce((best, score) => Math.max(best, score), 0) + 1 : 0;
    for (const slot of found) scores[slot] = Math.max(scores[slot]! + step, LEAST_SCORE);
  }

  /**
   * Raises the scores of tools whose name or alias is the query above all other scores. A name spelt exactly
   * like the query ranks above a name with the same words.
   */
  #raiseExactMatches(query: string, scores: Float32Array): void {
    if (query.length > MAX_NAME_LENGTH) return;
    const literal = [...(this.#named.get(literalSpelling(query))?.keys() ?? [])];
    const sameWords = [...(this.#named.get(wordSpelling(query))?.keys() ?? [])];
    if (literal.length + sameWords.length === 0) return;
    const step = scores.reduce((best, score) => Math.max(best, score), 0) + 1;
    for (const slot of new Set([...literal, ...sameWords])) {
      scores[slot]! += literal.includes(slot) ? 2 * step : step;
    }
  }

  /**
   * Adds the field lengths of a document, or subtracts them. Only documents that have a field count for its
   * mean length; otherwise a title would weigh almost nothing where few tools have one.
   */
  #countLengths(lengths: readonly number[], sign: 1 | -1): void {
    this.#fields.forEach((field, index) => {
      field.total += sign * lengths[index]!;
      if (lengths[index]! > 0) field.documents += sign;
    });
  }
}

function put<Value>(lists: Map<string, Map<number, Value>>, name: string, slot: number, value: Value): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, new Map([[slot, value]]));
  else list.set(slot, value);
}

function take(lists: Map<string, Map<number, unknown>>, name: string, slot: number): void {
  const list = lists.get(name);
  list?.delete(slot);
  if (list?.size === 0) lists.delete(name);
}

/** How often each term occurs in each field, the counts of one term packed into one number. */
function countTerms(document: SearchDocument): { lengths: number[]; counts: Map<string, number> } {
  const counts = new Map<string, number>();
  const lengths = fieldTexts(document).map((texts, field) => {
    const shift = field * COUNT_BITS;
    const keepsStopWords = SEARCH_FIELDS[field]!.keepsStopWords;
    let length = 0;
    for (const text of texts) {
      tokenize(text, (term, word) => {
        if (!keepsStopWords && STOP_WORDS.has(word)) return;
        length++;
        const packed = counts.get(term) ?? 0;
        if (((packed >>> shift) & MAX_COUNT) < MAX_COUNT) counts.set(term, packed + (1 << shift));
      });
    }
    return length;
  });
  return { lengths, counts };
}

function literalSpelling(name: string): string {
  return name.normalize("NFKC").trim().toLowerCase();
}

function wordSpelling(name: string): string {
  return splitWords(name).join(" ");
}

/** Six fields of five bits each fit into one number of 32 bits. */
const COUNT_BITS = 5;
const MAX_COUNT = 2 ** COUNT_BITS - 1;
/** BM25's `k1`: how soon further occurrences of the same word stop counting. */
const SATURATION = 1.2;
const DEFAULT_LIMIT = 10;
/** Of a tool that is found by the beginning of its name alone. */
const LEAST_SCORE = 1e-6;
const MAX_NAME_LENGTH = 512;
const MAX_WEIGHED_TERMS = 256;
const MAX_WORDS_FOR_SIMILAR = 6;
const SIMILAR_WEIGHT = 0.5;
