import { bestOf, highestOf, Postings, type ScoreTarget, type TermCounts } from "./postings.ts";
import { clausesOf, type QueryTerm, queryTerms } from "./request.ts";
import {
  fieldTexts,
  type Meanings,
  SEARCH_FIELDS,
  type SearchDocument,
  similarTerms,
  type WeightedWord,
  type WordVectors,
} from "./search-document.ts";
import { isUnspaced, STOP_WORDS, splitWords, tokenize } from "./tokenize.ts";

export interface SearchMatch {
  readonly key: string;
  /** Comparable only with other scores of the same search. */
  readonly score: number;
}

type Accept = (key: string) => boolean;
type SlotTest = (slot: number) => boolean;

interface SearchOptions {
  readonly limit?: number;
  /** Whether a document may be found. */
  readonly accept?: Accept | undefined;
  /** `false`: a request is only looked for as a whole. */
  readonly intents?: boolean | undefined;
  /** What is added to the scores of some keys. */
  readonly bonus?: ReadonlyMap<string, number> | undefined;
}

interface IndexedDocument {
  readonly key: string;
  /** The tool's name and aliases, each both as written and as separate words, in lower case. */
  readonly spellings: ReadonlySet<string>;
}

/**
 * Searches tools by their names and texts: first tools whose name or alias is the query itself, then those whose texts have
 * the most of what the query says (BM25F over the fields of `SearchDocument`) or mean the same. Scores depend only on
 * the documents in the index, not on its history.
 */
export class ToolIndex {
  readonly #postings = new Postings();
  readonly #meanings: Meanings | undefined;
  /** The documents by slot number. The slot of a removed document is empty until another document takes it. */
  readonly #documents: (IndexedDocument | undefined)[] = [];
  readonly #emptySlots: number[] = [];
  readonly #slots = new Map<string, number>();
  /** Used by one search after another: making them anew costs more than a search. */
  readonly #buffers: Float32Array[] = [];
  /** Slots by the spellings of names and aliases. */
  readonly #named = new Map<string, Set<number>>();

  constructor(words?: WordVectors) {
    this.#meanings = words?.newIndex();
  }

  get size(): number {
    return this.#slots.size;
  }

  has(key: string): boolean {
    return this.#slots.has(key);
  }

  /** Adds a document, or replaces the document that has the same key. Never throws, whatever the tool's texts contain. */
  add(document: SearchDocument): void {
    const { key, name, aliases = [] } = document;
    const texts = fieldTexts(document);
    const counts = countTerms(texts);
    const spellings = new Set(
      [name, ...aliases].flatMap((one) => [literalSpelling(one), wordSpelling(one)]).filter(Boolean),
    );
    this.remove(key);
    const slot = this.#emptySlots.pop() ?? this.#documents.length;
    this.#documents[slot] = { key, spellings };
    this.#slots.set(key, slot);
    this.#postings.add(slot, counts);
    this.#meanings?.add(slot, weighedWords(texts));
    for (const spelling of spellings) {
      const slots = this.#named.get(spelling);
      if (slots === undefined) this.#named.set(spelling, new Set([slot]));
      else slots.add(slot);
    }
  }

  /** Returns whether the key was there. */
  remove(key: string): boolean {
    const slot = this.#slots.get(key);
    if (slot === undefined) return false;
    this.#postings.remove(slot);
    this.#meanings?.remove(slot);
    for (const spelling of this.#documents[slot]!.spellings) {
      const slots = this.#named.get(spelling);
      slots?.delete(slot);
      if (slots?.size === 0) this.#named.delete(spelling);
    }
    this.#documents[slot] = undefined;
    this.#emptySlots.push(slot);
    return this.#slots.delete(key);
  }

  /** The best matches first; equal scores by key. */
  search(
    query: string,
    { limit = DEFAULT_LIMIT, accept = () => true, intents = true, bonus }: SearchOptions = {},
  ): SearchMatch[] {
    if (this.size === 0 || !(limit >= 1)) return [];
    const isAccepted = this.#askedOnce(accept);
    const { scores } = this.#score(query, intents, isAccepted);
    for (const [key, more] of bonus ?? []) {
      const slot = this.#slots.get(key);
      // What the query does not find by itself is found by nearly the same search only: else a single word would tell
      // whether others have searched for it.
      if (slot !== undefined && (scores[slot]! > 0 || more > LEAST_BONUS)) scores[slot]! += more;
    }
    this.#raisePrefixMatches(query, scores, isAccepted);
    this.#raiseExactMatches(query, scores);
    return this.#pick(scores, Math.floor(limit), isAccepted);
  }

  /**
   * The documents that are most like a text, each with how much the two say the same, from 0 to 1: by their words, the rarer
   * the more, and by what the words mean. Unlike a score, it is the less the more one says that the other does not. Of those that
   * `accept` returns true for, `take` is asked about the best first, and about none twice.
   */
  alike(
    text: string,
    limit: number,
    accept: Accept,
    take: Accept,
  ): { readonly key: string; readonly likeness: number }[] {
    if (this.size === 0) return [];
    const isAccepted = this.#askedOnce(accept);
    const { scores, terms, vectors } = this.#score(text, false, isAccepted);
    return this.#pick(scores, limit, isAccepted, this.#askedOnce(take)).map(({ key }) => {
      const slot = this.#slots.get(key)!;
      const words = this.#postings.likeness(slot, terms);
      if (vectors.length === 0) return { key, likeness: words };
      return { key, likeness: (words + this.#meanings!.similarity(vectors, slot)) / 2 };
    });
  }

  /**
   * The scores of all slots. What the whole request says counts, and beside it the part of the request that a tool fits best:
   * so each of several wishes gets its tools, whatever the others say, and a request for one thing is ranked by all of it.
   */
  #score(query: string, intents: boolean, accept: SlotTest): ScoredRequest {
    const clauses = intents ? clausesOf(query) : [];
    const terms = this.#knownTerms(query, accept);
    const [whole, ...parts] = this.#wordScores([terms, ...clauses.map(queryTerms)]);
    const { scores, best } = whole!;
    // Words that are hardly anywhere say little, even of the tools that fit them best.
    const weight = Math.min(1, best / ENOUGH_WORDS);
    if (weight < 1) for (let slot = 0; slot < scores.length; slot++) scores[slot]! *= weight;
    addBest(scores, parts, CLAUSE_WEIGHT * best * weight);
    return {
      scores,
      terms: terms.flatMap(({ term, isWord }) => (isWord || this.#postings.has(term) ? term : [])),
      vectors: this.#addMeaning([query, ...clauses], scores),
    };
  }

  /**
   * How much of what the terms of each part say is in each document, from 0 to 1, and how much is in the best. A term of several
   * parts is looked up once.
   */
  #wordScores(parts: readonly (readonly QueryTerm[])[]): WordScores[] {
    const count = this.#documents.length;
    const targets = new Map<string, ScoreTarget[]>();
    const buffers = parts.map((terms, at) => {
      if ((this.#buffers[at]?.length ?? 0) < count) this.#buffers[at] = new Float32Array(2 * count);
      const scores = this.#buffers[at]!.subarray(0, count).fill(0);
      for (const { term, weight } of this.#telling(terms)) {
        const known = targets.get(term);
        if (known === undefined) targets.set(term, [{ scores, weight }]);
        else known.push({ scores, weight });
      }
      return scores;
    });
    for (const [term, [first, second, ...others]] of targets) {
      this.#postings.addScores(term, first!, second);
      for (const other of others) this.#postings.addScores(term, other);
    }
    return buffers.map((scores) => ({ scores, best: highestOf(scores) }));
  }

  /** The terms that some document has, with their shares of what all terms say. */
  #telling(terms: readonly QueryTerm[]): { readonly term: string; readonly weight: number }[] {
    let most = 0;
    const found: { readonly term: string; weight: number }[] = [];
    for (const { term, weight, isWord } of terms) {
      const isKnown = this.#postings.has(term);
      if (!isKnown && !isWord) continue;
      const weighed = weight * this.#postings.rarity(term);
      most += weighed;
      if (isKnown) found.push({ term, weight: weighed });
    }
    for (const each of found) each.weight /= most;
    if (found.length <= MAX_WEIGHED_TERMS) return found;
    return found.sort((left, right) => right.weight - left.weight).slice(0, MAX_WEIGHED_TERMS);
  }

  /**
   * Adds how near documents are in meaning to the request or to a part of it: of those with the best words, and the nearest.
   * Returns what the parts mean.
   */
  #addMeaning(parts: readonly string[], scores: Float32Array): Float32Array[] {
    const meanings = this.#meanings;
    if (meanings === undefined) return [];
    const vectors = parts.flatMap((part) => meanings.vectorOf(splitWords(part)) ?? []);
    if (vectors.length === 0) return vectors;
    const candidates = new Set(bestOf(scores, MAX_CANDIDATES));
    // What lies near to the whole of several wishes is near to one of them too.
    for (const vector of vectors.slice(vectors.length > 2 ? 1 : 0))
      for (const slot of meanings.nearest(vector, MAX_CANDIDATES)) candidates.add(slot);
    const near = Array.from(candidates, (slot) => [slot, meanings.similarity(vectors, slot)] as const);
    const trust = trustInWords(near, scores);
    if (trust < 1) for (let slot = 0; slot < scores.length; slot++) scores[slot]! *= trust;
    for (const [slot, nearness] of near)
      if (nearness > (scores[slot]! > 0 ? 0 : LEAST_SIMILARITY)) scores[slot]! += MEANING_WEIGHT * nearness;
    return vectors;
  }

  /**
   * The terms of a text. A word that no accepted document contains is replaced by similar ones if the text is short; otherwise
   * it stays, because what it says is not in any document.
   */
  #knownTerms(text: string, accept: SlotTest): QueryTerm[] {
    const wanted = queryTerms(text);
    const words = wanted.filter((each) => each.isWord);
    const toleratesSlips = words.length <= MAX_WORDS_FOR_SIMILAR;
    return wanted.flatMap((each) => {
      // A word that only hidden tools have counts as unknown: otherwise a misspelt word would show what they say.
      if (!each.isWord || !toleratesSlips || this.#postings.isIn(each.term, accept)) return each;
      const similar = similarTerms(each.term, this.#postings.terms(), each === words.at(-1), (term) =>
        this.#postings.isIn(term, accept),
      );
      return similar.length === 0
        ? each
        : similar.map((term) => ({ ...each, term, weight: each.weight * SIMILAR_WEIGHT }));
    });
  }

  #pick(scores: Float32Array, limit: number, accept: SlotTest, take?: SlotTest): SearchMatch[] {
    // Where many of the best are not accepted, more are looked at.
    for (let count = 2 * limit; ; count *= 16) {
      const slots = bestOf(scores, count);
      const matches = slots
        .filter(accept)
        .map((slot) => ({ key: this.#documents[slot]!.key, score: scores[slot]! }));
      matches.sort((left, right) => right.score - left.score || (left.key < right.key ? -1 : 1));
      const taken = matches.filter(({ key }) => take?.(this.#slots.get(key)!) ?? true).slice(0, limit);
      if (taken.length >= limit || slots.length < count) return taken;
    }
  }

  /** Asks about each document once in a search: the answer may take longer than all else. */
  #askedOnce(accept: Accept): SlotTest {
    const answers = new Uint8Array(this.#documents.length);
    return (slot) => {
      answers[slot] ||= accept(this.#documents[slot]!.key) ? 1 : 2;
      return answers[slot] === 1;
    };
  }

  /**
   * Finds the tools whose name or alias begins with the query, if that is one word. They rank above all others when the
   * query looks like a part of a name: it has a separator, or no tool has the word.
   */
  #raisePrefixMatches(query: string, scores: Float32Array, accept: SlotTest): void {
    const start = literalSpelling(query);
    if (start.length < 2 || start.length > MAX_PREFIX_LENGTH || NO_PREFIX.test(start)) return;
    const isKnownWord = queryTerms(query).every(({ term }) => this.#postings.isIn(term, accept));
    const isName = /[^\p{L}\p{N}]/u.test(start) || !isKnownWord;
    const found = new Set<number>();
    for (const [spelling, slots] of this.#named)
      if (spelling.startsWith(start)) for (const slot of slots) found.add(slot);
    const step = isName ? highestOf(scores) + 1 : 0;
    for (const slot of found) scores[slot] = Math.max(scores[slot]! + step, LEAST_SCORE);
  }

  /**
   * Raises the scores of tools whose name or alias is the query above all other scores. A name spelt exactly
   * like the query ranks above a name with the same words.
   */
  #raiseExactMatches(query: string, scores: Float32Array): void {
    if (query.length > MAX_NAME_LENGTH) return;
    const literal = this.#named.get(literalSpelling(query)) ?? none;
    const sameWords = this.#named.get(wordSpelling(query)) ?? none;
    if (literal.size + sameWords.size === 0) return;
    const step = highestOf(scores) + 1;
    for (const slot of new Set([...literal, ...sameWords]))
      scores[slot]! += literal.has(slot) ? 2 * step : step;
  }
}

const none: ReadonlySet<number> = new Set();

interface ScoredRequest {
  readonly scores: Float32Array;
  readonly terms: readonly string[];
  /** What the request and its parts mean. */
  readonly vectors: readonly Float32Array[];
}

interface WordScores {
  readonly scores: Float32Array;
  readonly best: number;
}

/** Adds to each score how well the slot fits the part that it fits best, where the best of each part has `weight`. */
function addBest(scores: Float32Array, parts: readonly WordScores[], weight: number): void {
  const useful = parts.filter(({ best }) => best > 0);
  if (useful.length === 0) return;
  const [first, second, third] = useful.map(({ scores: own }) => own);
  const [ofFirst, ofSecond, ofThird] = useful.map(({ best }) => weight / best);
  for (let slot = 0; slot < scores.length; slot++) {
    let most = first![slot]! * ofFirst!;
    if (second !== undefined) most = Math.max(most, second[slot]! * ofSecond!);
    if (third !== undefined) most = Math.max(most, third[slot]! * ofThird!);
    scores[slot]! += most;
  }
}

/**
 * How much the words of a request tell: less when the document with the best words means something else than the request,
 * while another means the same. Then it only shares characters or everyday words, as Chinese tools do with a Chinese request
 * for which there is an English tool.
 */
function trustInWords(near: readonly (readonly [slot: number, nearness: number])[], scores: Float32Array) {
  let nearest = 0;
  let best = 0;
  let ofBest = 0;
  for (const [slot, nearness] of near) {
    nearest = Math.max(nearest, nearness);
    if (scores[slot]! <= best) continue;
    best = scores[slot]!;
    ofBest = nearness;
  }
  const share = nearest === 0 ? 1 : ofBest / nearest;
  const trust = (share - STRANGE_WORDS) / (FITTING_WORDS - STRANGE_WORDS);
  return LEAST_TRUST + (1 - LEAST_TRUST) * Math.max(0, Math.min(1, trust));
}

/**
 * How much each term weighs in a document, in halves. Names and titles that say the same word again do not make it
 * weigh more: a tool has an alias for its callers' sake. Joined words do not make a document longer, but the pairs of
 * scripts without spaces do: they are the words of such a text.
 */
function countTerms(texts: ReturnType<typeof fieldTexts>): TermCounts {
  const counts = new Map<string, number>();
  let length = 0;
  texts.forEach((own, field) => {
    const { weight, keepsStopWords } = SEARCH_FIELDS[field]!;
    for (const text of own) {
      const before = new Set(keepsStopWords ? counts.keys() : []);
      tokenize(text, (term, word, joined) => {
        if (keepsStopWords ? before.has(term) : STOP_WORDS.has(word)) return;
        counts.set(term, (counts.get(term) ?? 0) + 2 * weight);
        if (!joined || isUnspaced(word)) length += 2 * weight;
      });
    }
  });
  return { length, counts };
}

function* weighedWords(texts: ReturnType<typeof fieldTexts>): Generator<WeightedWord> {
  for (const [field, own] of texts.entries())
    for (const text of own) for (const word of splitWords(text)) yield [word, SEARCH_FIELDS[field]!.meaning];
}

function literalSpelling(name: string): string {
  return name.normalize("NFKC").trim().toLowerCase();
}

function wordSpelling(name: string): string {
  return splitWords(name).join(" ");
}

const DEFAULT_LIMIT = 10;
/** Of a tool that is found by the beginning of its name alone. */
const LEAST_SCORE = 1e-6;
const MAX_NAME_LENGTH = 512;
const MAX_PREFIX_LENGTH = 64;
/** Several words, or a sentence of a language without spaces. */
const NO_PREFIX = /\s|[\u0080-\uffff].{12}/;
/** Of the terms of a long request, those that tell the tools apart most are looked for. */
const MAX_WEIGHED_TERMS = 128;
const MAX_WORDS_FOR_SIMILAR = 6;
const SIMILAR_WEIGHT = 0.5;
/** How many documents are compared by meaning: of those with the best words, and of those nearest to each part. */
const MAX_CANDIDATES = 60;
/** What a part of the request counts beside the whole. */
const CLAUSE_WEIGHT = 0.5;
/** The share of a request that a tool must have for its words to count fully. */
const ENOUGH_WORDS = 0.2;
/** What full similarity counts beside words that say all that the request says. */
const MEANING_WEIGHT = 0.25;
/**
 * How near the document with the best words is in meaning, as a share of the nearest one: below the first its words count least,
 * above the second fully.
 */
const STRANGE_WORDS = 0.55;
const FITTING_WORDS = 0.75;
const LEAST_TRUST = 0.2;
/** A document that the query does not find by itself needs a larger bonus. */
const LEAST_BONUS = 0.4;
/** Below it, a document without any of the words only happens to lie in the same direction. */
const LEAST_SIMILARITY = 0.3;
