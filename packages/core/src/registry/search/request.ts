import { isUnspaced, joinNeighbours, STOP_WORDS, splitWords, tokenize } from "./tokenize.ts";

/**
 * The parts of a request that asks for several things, such as "book a flight, then tell me the weather there"; none when it
 * is one sentence. A part that says too little by itself belongs to the one before it.
 */
export function clausesOf(query: string): string[] {
  const clauses: string[] = [];
  for (const piece of query.slice(0, MAX_QUERY_LENGTH).split(CLAUSE_END)) {
    if (piece.trim() === "") continue;
    const last = clauses.at(-1);
    if (last !== undefined && (clauses.length === MAX_CLAUSES || !saysEnough(piece) || !saysEnough(last)))
      clauses[clauses.length - 1] = `${last} ${piece}`;
    else clauses.push(piece);
  }
  return clauses.length > 1 ? clauses : [];
}

function saysEnough(clause: string): boolean {
  const words = splitWords(clause).filter((word) => !isStopWord(word) && !/^\p{N}/u.test(word));
  return words.length >= MIN_WORDS || words.some((word) => /\P{ASCII}{4}/u.test(word));
}

export interface QueryTerm {
  readonly term: string;
  /** The weight before it is multiplied by the rarity of the term. */
  readonly weight: number;
  /**
   * Whether the term is a word, not a number or a joined pair. If no tool contains a word, a similar word may
   * replace it.
   */
  readonly isWord: boolean;
}

/** The distinct terms of a request, in the order of their first occurrence. */
export function queryTerms(query: string): QueryTerm[] {
  const text = query.slice(0, MAX_QUERY_LENGTH);
  const counts = countTerms(text, isStopWord);
  // A request of nothing but stop words still means something: `who is`, `not`.
  if (counts.size === 0) return toQueryTerms(countTerms(text, () => false));

  const terms = toQueryTerms(counts);
  if (counts.words < 2) return terms;
  for (const term of new Set(joinNeighbours(text, isStopWord))) {
    if (!counts.has(term)) terms.push({ term, weight: NEIGHBOURS_WEIGHT, isWord: false });
  }
  return terms;
}

/** How often a text has each term. */
class RequestCounts extends Map<string, number> {
  /** Terms that are words, not numbers or joined pairs. */
  readonly isWord = new Set<string>();
  /** How many words are written with spaces between them. */
  words = 0;
}

function countTerms(text: string, skip: (word: string) => boolean): RequestCounts {
  const counts = new RequestCounts();
  tokenize(text, (term, word, joined) => {
    if (!joined && !isUnspaced(word)) counts.words++;
    if (skip(word)) return;
    const known = counts.get(term) ?? 0;
    counts.set(term, known + 1);
    if (known === 0 && !joined && !isNumber(word)) counts.isWord.add(term);
  });
  return counts;
}

function toQueryTerms(counts: RequestCounts): QueryTerm[] {
  return Array.from(counts, ([term, count]) => ({
    term,
    // Saying a word again makes it little more important: long requests repeat the arguments, not the intent.
    weight: ((2 * count) / (1 + count)) * (isNumber(term) ? NUMBER_WEIGHT : 1),
    isWord: counts.isWord.has(term),
  }));
}

/** Words are of letters or of digits; only the digits of a few scripts take a pattern to tell. */
function isNumber(word: string): boolean {
  const code = word.charCodeAt(0);
  if (code < 128) return code < 58;
  return !isUnspaced(word) && /^\p{N}/u.test(word);
}

function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word);
}

/** Longer requests are cut to this length: a request says at its start what the tool should do. */
const MAX_QUERY_LENGTH = 8_192;
/** A number in a request is mostly an argument, and seldom says which tool is meant. */
const NUMBER_WEIGHT = 0.5;
/**
 * The weight of two neighbouring words as one term. Low, because each of the words already counts on its own.
 */
const NEIGHBOURS_WEIGHT = 0.5;
/** How many parts of a request are looked for by themselves; what comes then belongs to the last one. */
const MAX_CLAUSES = 3;
const MIN_WORDS = 2;
/** Ends of sentences, and words that begin another wish. A mere `and` joins arguments as often as wishes. */
const CLAUSE_END = new RegExp(
  [
    "[.?!;]+(?=\\s|$)|[。？！；\\n]+|,\\s+and\\s",
    ",?\\s+(?:(?:and\\s+)?(?:then|also)|plus|additionally|besides|finally|afterwards|as well as|after that)\\s",
    "，?(?:然后|接着|并且|同时|另外|此外|还有|最后)",
  ].join("|"),
  "i",
);
