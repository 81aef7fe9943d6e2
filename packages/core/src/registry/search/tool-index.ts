import {
  fieldTexts,
  SEARCH_FIELDS,
  type SearchDocument,
  selectTop,
  similarTerms,
} from "./search-document.ts";
import { queryTerms, STOP_WORDS, splitWords, tokenize } from "./tokenize.ts";

/**
 * For every term the documents it occurs in, as pairs of document and packed counts. All lists live in one
 * typed array as chains of blocks that double in size: a term that occurs once costs 20 bytes, and a common
 * term is read almost sequentially.
 *
 * A block is `[next block or 0, used pairs, capacity in pairs, document, counts, document, counts, …]`. Readers
 * walk `words` themselves, because a call per pair would cost more than the work on it:
 *
 * ```ts
 * for (let block = lists.first(term); block !== 0; block = words[block]!) {
 *   const end = block + BLOCK_HEADER + 2 * words[block + 1]!;
 *   for (let at = block + BLOCK_HEADER; at < end; at += 2) use(words[at]!, words[at + 1]!);
 * }
 * ```
 */
export class PostingLists {
  /** Replaced when it grows: read it anew after `append`. */
  words: Uint32Array = new Uint32Array(1_024);
  readonly #first: number[] = [];
  readonly #last: number[] = [];
  /** Word 0 stays unused, so that 0 can mean "no block". */
  #used = 1;

  /** Adds an empty list and returns its term number: 0, 1, 2, … */
  create(): number {
    this.#first.push(0);
    this.#last.push(0);
    return this.#first.length - 1;
  }

  first(term: number): number {
    return this.#first[term] ?? 0;
  }

  append(term: number, document: number, counts: number): void {
    let block = this.#last[term]!;
    if (block === 0 || this.words[block + 1] === this.words[block + 2]) block = this.#addBlock(term, block);
    const used = this.words[block + 1]!;
    const at = block + BLOCK_HEADER + 2 * used;
    this.words[at] = document;
    this.words[at + 1] = counts;
    this.words[block + 1] = used + 1;
  }

  #addBlock(term: number, last: number): number {
    const capacity = last === 0 ? 1 : Math.min(2 * this.words[last + 2]!, MAX_BLOCK_PAIRS);
    const block = this.#used;
    this.#used += BLOCK_HEADER + 2 * capacity;
    if (this.#used > this.words.length) this.#grow();
    this.words[block + 2] = capacity;
    if (last === 0) this.#first[term] = block;
    if (last !== 0) this.words[last] = block;
    this.#last[term] = block;
    return block;
  }

  #grow(): void {
    const grown = new Uint32Array(Math.ceil(this.#used * 1.5));
    grown.set(this.words);
    this.words = grown;
  }
}

export const BLOCK_HEADER = 3;
const MAX_BLOCK_PAIRS = 512;

interface SearchOptions {
  /** At most so many matches; 10 unless told. */
  readonly limit?: number;
  /** Asked with the key of a match; `false` leaves it out without using up the limit. */
  readonly filter?: (key: string) => boolean;
}

interface SearchMatch {
  readonly key: string;
  /** Comparable within one answer only. */
  readonly score: number;
}

/**
 * Finds tools by what they are called and what they say about themselves: BM25F over the fields of
 * `SearchDocument`, after the tools whose name or alias is the request itself. Scores depend only on the
 * documents that are in the index now, never on those that were or on the order in which they came.
 */
export class ToolIndex {
  readonly #slots = new Map<string, number>();
  #keys: string[] = [];
  /** For each slot the lengths of its fields, then its terms; `undefined` once the document was removed. */
  #records: (Uint32Array | undefined)[] = [];
  #lists = new PostingLists();
  /** Only terms that some document contains now. */
  #terms = new Map<string, number>();
  #termTexts: string[] = [];
  #documentFrequencies: number[] = [];
  /** Slots by name and alias. May name removed slots until the next compaction. */
  #exact = new Map<string, number[]>();
  readonly #fieldLengths = SEARCH_FIELDS.map(() => ({ total: 0, documents: 0 }));
  /** What one occurrence in a field of a document counts, made when a search needs it. */
  #occurrenceWeights: Float32Array | undefined;

  get size(): number {
    return this.#slots.size;
  }

  /** Replaces the document that has the same key. Never throws for what a tool says about itself. */
  add(document: SearchDocument): void {
    const { lengths, counts } = countTerms(document);
    this.remove(document.key);
    const slot = this.#records.length;
    const record = new Uint32Array(FIELD_COUNT + counts.size);
    record.set(lengths);
    let end = FIELD_COUNT;
    for (const [text, packed] of counts) {
      const term = this.#terms.get(text) ?? this.#createTerm(text);
      this.#lists.append(term, slot, packed);
      this.#documentFrequencies[term]!++;
      record[end++] = term;
    }
    this.#slots.set(document.key, slot);
    this.#keys.push(document.key);
    this.#records.push(record);
    this.#countLengths(record, 1);
    for (const name of [document.name, ...(document.aliases ?? [])]) {
      for (const spelling of new Set([literalSpelling(name), wordSpelling(name)])) {
        const sharing = this.#exact.get(spelling);
        if (sharing) sharing.push(slot);
        if (!sharing && spelling !== "") this.#exact.set(spelling, [slot]);
      }
    }
  }

  /** Returns whether the key was there. */
  remove(key: string): boolean {
    const slot = this.#slots.get(key);
    const record = slot === undefined ? undefined : this.#records[slot];
    if (slot === undefined || record === undefined) return false;
    for (const term of record.subarray(FIELD_COUNT)) {
      if (--this.#documentFrequencies[term]! === 0) this.#terms.delete(this.#termTexts[term]!);
    }
    this.#countLengths(record, -1);
    this.#records[slot] = undefined;
    this.#slots.delete(key);
    const removed = this.#records.length - this.size;
    if (removed > MIN_REMOVED_TO_COMPACT && removed > this.size / 4) this.#compact();
    return true;
  }

  /** The best matches first; equal scores by key. */
  search(query: string, options: SearchOptions = {}): SearchMatch[] {
    const { limit = DEFAULT_LIMIT, filter } = options;
    if (this.size === 0 || !(limit >= 1)) return [];
    const scores = new Float32Array(this.#records.length);
    for (const [term, weight] of this.#weighTerms(query)) this.#addScores(term, weight, scores);
    this.#raiseExactMatches(query, scores);
    return selectTop(
      scores,
      Math.floor(limit),
      (slot) => this.#records[slot] !== undefined && (filter === undefined || filter(this.#keys[slot]!)),
      (left, right) => this.#keys[left]! < this.#keys[right]!,
    ).map((slot) => ({ key: this.#keys[slot]!, score: scores[slot]! }));
  }

  /** The terms of a request that some document contains, the most telling ones when there are very many. */
  #weighTerms(query: string): [term: number, weight: number][] {
    const wanted = queryTerms(query);
    const words = wanted.filter((each) => each.isWord);
    const toleratesSlips = words.length <= MAX_WORDS_FOR_SIMILAR;
    const weights = new Map<number, number>();
    const add = (text: string, weight: number): boolean => {
      const term = this.#terms.get(text);
      if (term !== undefined)
        weights.set(term, Math.max(weights.get(term) ?? 0, weight * this.#rarity(term)));
      return term !== undefined;
    };
    for (const each of wanted) {
      if (add(each.term, each.weight) || !each.isWord || !toleratesSlips) continue;
      const similar = similarTerms(each.term, this.#terms.keys(), each === words.at(-1));
      for (const term of similar) add(term, each.weight * SIMILAR_WEIGHT);
    }
    if (weights.size <= MAX_WEIGHED_TERMS) return [...weights];
    return [...weights].sort((left, right) => right[1] - left[1]).slice(0, MAX_WEIGHED_TERMS);
  }

  #rarity(term: number): number {
    const frequency = this.#documentFrequencies[term]!;
    return Math.log(1 + (this.size - frequency + 0.5) / (frequency + 0.5));
  }

  #addScores(term: number, weight: number, scores: Float32Array): void {
    const words = this.#lists.words;
    this.#occurrenceWeights ??= this.#weighOccurrences();
    const occurrenceWeights = this.#occurrenceWeights;
    for (let block = this.#lists.first(term); block !== 0; block = words[block]!) {
      const end = block + BLOCK_HEADER + 2 * words[block + 1]!;
      for (let at = block + BLOCK_HEADER; at < end; at += 2) {
        const slot = words[at]!;
        let frequency = 0;
        let field = slot * FIELD_COUNT;
        for (let counts = words[at + 1]!; counts !== 0; counts >>>= COUNT_BITS) {
          frequency += (counts & MAX_COUNT) * occurrenceWeights[field++]!;
        }
        scores[slot]! += (weight * frequency) / (SATURATION + frequency);
      }
    }
  }

  /** Lifts the tools the request names over all others, and the literal spelling over the same words. */
  #raiseExactMatches(query: string, scores: Float32Array): void {
    if (query.length > MAX_NAME_LENGTH) return;
    const literal = this.#exact.get(literalSpelling(query)) ?? [];
    const sameWords = this.#exact.get(wordSpelling(query)) ?? [];
    if (literal.length + sameWords.length === 0) return;
    const step = scores.reduce((best, score) => Math.max(best, score), 0) + 1;
    for (const slot of new Set([...literal, ...sameWords])) {
      scores[slot]! += literal.includes(slot) ? 2 * step : step;
    }
  }

  /** A field that is long beside the same field of other tools says less with each word. */
  #weighOccurrences(): Float32Array {
    const weights = new Float32Array(this.#records.length * FIELD_COUNT);
    this.#records.forEach((record, slot) => {
      if (record === undefined) return;
      SEARCH_FIELDS.forEach(({ weight, lengthDiscount }, field) => {
        const { total, documents } = this.#fieldLengths[field]!;
        const relativeLength = total === 0 ? 1 : (record[field]! * documents) / total;
        weights[slot * FIELD_COUNT + field] = weight / (1 - lengthDiscount + lengthDiscount * relativeLength);
      });
    });
    return weights;
  }

  #createTerm(text: string): number {
    const term = this.#lists.create();
    this.#terms.set(text, term);
    this.#termTexts.push(text);
    this.#documentFrequencies.push(0);
    return term;
  }

  /** The mean length of a field is taken over the documents that have it, or a rare title would weigh nothing. */
  #countLengths(record: Uint32Array, sign: 1 | -1): void {
    this.#fieldLengths.forEach((lengths, field) => {
      lengths.total += sign * record[field]!;
      if (record[field]! > 0) lengths.documents += sign;
    });
    this.#occurrenceWeights = undefined;
  }

  /** Gives back what removed documents still occupy. Each removal pays for a constant share of it. */
  #compact(): void {
    const old = { lists: this.#lists, terms: this.#terms, records: this.#records, keys: this.#keys };
    const newSlots = new Int32Array(old.records.length).fill(-1);
    const newTerms = new Uint32Array(this.#termTexts.length);
    const frequencies = this.#documentFrequencies;
    this.#lists = new PostingLists();
    this.#terms = new Map();
    this.#termTexts = [];
    this.#documentFrequencies = [];
    this.#records = [];
    this.#keys = [];
    old.records.forEach((record, slot) => {
      if (record === undefined) return;
      newSlots[slot] = this.#records.length;
      this.#slots.set(old.keys[slot]!, this.#records.length);
      this.#records.push(record);
      this.#keys.push(old.keys[slot]!);
    });
    for (const [text, oldTerm] of old.terms) {
      const term = this.#createTerm(text);
      newTerms[oldTerm] = term;
      this.#documentFrequencies[term] = frequencies[oldTerm]!;
      const words = old.lists.words;
      for (let block = old.lists.first(oldTerm); block !== 0; block = words[block]!) {
        const end = block + BLOCK_HEADER + 2 * words[block + 1]!;
        for (let at = block + BLOCK_HEADER; at < end; at += 2) {
          const slot = newSlots[words[at]!]!;
          if (slot >= 0) this.#lists.append(term, slot, words[at + 1]!);
        }
      }
    }
    for (const record of this.#records) {
      for (let at = FIELD_COUNT; at < record!.length; at++) record![at] = newTerms[record![at]!]!;
    }
    this.#exact = new Map(
      [...this.#exact]
        .map(([spelling, slots]): [string, number[]] => [
          spelling,
          slots.map((slot) => newSlots[slot]!).filter((slot) => slot >= 0),
        ])
        .filter(([, slots]) => slots.length > 0),
    );
    this.#occurrenceWeights = undefined;
  }
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

const FIELD_COUNT = SEARCH_FIELDS.length;
/** Six fields of five bits fit the 32 bits beside each document. */
const COUNT_BITS = 5;
const MAX_COUNT = 2 ** COUNT_BITS - 1;
/** BM25's `k1`: how soon more of the same word stops to matter. */
const SATURATION = 1.2;
const DEFAULT_LIMIT = 10;
const MAX_NAME_LENGTH = 512;
const MAX_WEIGHED_TERMS = 256;
const MAX_WORDS_FOR_SIMILAR = 6;
const SIMILAR_WEIGHT = 0.5;
const MIN_REMOVED_TO_COMPACT = 64;
