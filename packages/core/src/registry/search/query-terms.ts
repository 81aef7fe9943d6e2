import { STOP_WORDS } from "./stop-words.ts";
import { joinNeighbours, tokenize } from "./tokenize.ts";

export interface QueryTerm {
  readonly term: string;
  /** Before the rarity of the term comes in. */
  readonly weight: number;
  /** A word, not a number or a joined pair: when no tool contains it, a similar one may stand in. */
  readonly isWord: boolean;
}

/** The distinct terms of a request, in the order of their first occurrence. */
export function queryTerms(query: string): QueryTerm[] {
  const text = query.slice(0, MAX_QUERY_LENGTH);
  const counts = countTerms(text, isStopWord);
  // A request of nothing but stop words still means something: `who is`, `not`.
  if (counts.size === 0) return toQueryTerms(countTerms(text, () => false));

  const terms = toQueryTerms(counts);
  for (const term of new Set(joinNeighbours(text, isStopWord))) {
    if (!counts.has(term)) terms.push({ term, weight: NEIGHBOURS_WEIGHT, isWord: false });
  }
  return terms;
}

interface TermCount {
  count: number;
  readonly isWord: boolean;
}

function countTerms(text: string, skip: (word: string) => boolean): Map<string, TermCount> {
  const counts = new Map<string, TermCount>();
  tokenize(text, (term, word, joined) => {
    if (skip(word)) return;
    const known = counts.get(term);
    if (known) known.count++;
    if (!known) counts.set(term, { count: 1, isWord: !joined && /^\p{L}/u.test(word) });
  });
  return counts;
}

function toQueryTerms(counts: ReadonlyMap<string, TermCount>): QueryTerm[] {
  return Array.from(counts, ([term, { count, isWord }]) => ({
    term,
    // Saying a word again makes it little more important: long requests repeat the arguments, not the intent.
    weight: ((2 * count) / (1 + count)) * (/^\p{N}+$/u.test(term) ? NUMBER_WEIGHT : 1),
    isWord,
  }));
}

function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word);
}

/** Longer requests are cut: what a tool is wanted for is said before this. */
const MAX_QUERY_LENGTH = 8_192;
/** A number in a request is mostly an argument, and seldom says which tool is meant. */
const NUMBER_WEIGHT = 0.5;
/** Both words count on their own already; standing together is a hint on top. */
const NEIGHBOURS_WEIGHT = 0.5;
