import { stem } from "./stem.ts";

/**
 * `joined`: whether the term is made of two neighbouring words or characters, which are also emitted
 * separately.
 */
type EmitTerm = (term: string, word: string, joined: boolean) => void;

/**
 * The words of a text in lower case, in order: `getHTTPResponse2` gives `get`, `http`, `response`, `2`. Text in
 * scripts that are written without spaces stays in one piece.
 */
export function splitWords(text: string): string[] {
  return (fold(text).match(WORD) ?? []).map((word) => word.toLowerCase());
}

/**
 * Calls `emit` with every search term of a text and the word it came from: the stems of its words, the joined
 * neighbours inside compounds (`e-commerce`, `GitHub` and `base64` are also found as `ecommerce`, `github` and
 * `base64`), and for scripts without spaces every character and every pair of neighbours. Pairs did better on
 * Chinese requests than the words of `Intl.Segmenter`, and do not depend on the dictionary of the platform.
 */
export function tokenize(text: string, emit: EmitTerm): void {
  for (const compound of fold(text).match(COMPOUND) ?? []) {
    let previous = "";
    for (const part of compound.match(WORD) ?? []) {
      if (UNSPACED.test(part)) {
        emitPairs(part, emit);
        previous = "";
        continue;
      }
      const word = part.toLowerCase();
      emitWord(word, false, emit);
      if (previous !== "") emitWord(previous + word, true, emit);
      previous = word;
    }
  }
}

/**
 * The terms of words that stand side by side in a sentence, joined as `tokenize` joins the parts of a name:
 * `current weather` matches `getCurrentWeather`, and `data base` matches `database`. A word for which `skip`
 * returns true is joined with nothing.
 */
export function joinNeighbours(text: string, skip: (word: string) => boolean): string[] {
  const joined: string[] = [];
  for (const clause of text.split(CLAUSE_END)) {
    let previous = "";
    for (const word of splitWords(clause)) {
      const usable = !UNSPACED.test(word) && !skip(word);
      if (usable && previous !== "") emitWord(previous + word, true, (term) => joined.push(term));
      previous = usable ? word : "";
    }
  }
  return joined;
}

function emitWord(word: string, joined: boolean, emit: EmitTerm): void {
  if (word.length <= MAX_WORD_LENGTH) emit(toTerm(word), word, joined);
}

function emitPairs(text: string, emit: EmitTerm): void {
  let previous = "";
  for (const character of text) {
    emit(character, character, false);
    if (previous !== "") emit(previous + character, previous + character, true);
    previous = character;
  }
}

/**
 * Gives texts that read the same one spelling: replaces compatibility forms, and removes accents of Latin
 * letters and contracted endings such as `'s`.
 */
function fold(text: string): string {
  const folded = NOT_ASCII.test(text) ? foldLetters(text) : text;
  return folded.replace(/(?<=\p{L})['’](?:s|t|d|m|re|ve|ll)(?!\p{L})/giu, "");
}

/** Removes accents from Latin letters only: in other scripts they distinguish words. */
function foldLetters(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/(\p{Script=Latin})\p{Mn}+/gu, "$1")
    .normalize("NFC")
    .replace(/[ßæœøłđı]/giu, (letter) => UNDECOMPOSED[letter.toLowerCase()] ?? letter);
}

function toTerm(word: string): string {
  const known = terms.get(word);
  if (known !== undefined) return known;
  if (terms.size >= MAX_CACHED_TERMS) terms.clear();
  const term = /^[a-z]+$/.test(word) ? stem(word) : word;
  terms.set(word, term);
  return term;
}

/** The stems of words. Cached, because stemming costs more than a look-up and texts repeat their words. */
const terms = new Map<string, string>();
const MAX_CACHED_TERMS = 10_000;
/** Longer runs are keys, hashes and encoded data, which nobody searches for. */
const MAX_WORD_LENGTH = 64;

const UNDECOMPOSED: Readonly<Record<string, string>> = {
  ß: "ss",
  æ: "ae",
  œ: "oe",
  ø: "o",
  ł: "l",
  đ: "d",
  ı: "i",
};

/** Whether a word is of a script of East Asia, which is written without spaces. */
export function isUnspaced(word: string): boolean {
  return word.charCodeAt(0) >= 0x2e80;
}

const NOT_ASCII = /[\u0080-\uffff]/;
const UNSPACED_SCRIPTS = ["Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Khmer", "Myanmar"]
  .map((script) => `\\p{scx=${script}}`)
  .join("");
const UNSPACED = new RegExp(`[${UNSPACED_SCRIPTS}]`, "u");
const WORD = new RegExp(
  [
    `(?:(?=[\\p{L}\\p{M}])[${UNSPACED_SCRIPTS}])+`,
    // The plural of an acronym is one word: `userIDs` is `user`, `ids`.
    "\\p{Lu}{2,}s(?!\\p{L})",
    "\\p{Lu}+(?!\\p{Ll})",
    `\\p{Lu}?(?:(?![${UNSPACED_SCRIPTS}\\p{Lu}])[\\p{L}\\p{M}])+`,
    "\\p{N}+",
  ].join("|"),
  "gu",
);
const COMPOUND = /[\p{L}\p{M}\p{N}]+(?:[-_.][\p{L}\p{M}\p{N}]+)*/gu;
const CLAUSE_END = /[^\p{L}\p{M}\p{N}\s'’_.-]+|\.\s/u;

/**
 * Words that say nothing about what a tool does: English function words, and the courtesies with which people
 * wrap a request. Descriptions are indexed without them; names keep theirs, so `who_is` can be found.
 */
export const STOP_WORDS: ReadonlySet<string> = new Set(
  `a about above after again all also am an and any are aren as at be because been before being below between
  both but by can cannot could couldn did didn do does doesn doing don down during each either else etc few for
  from further had hadn has hasn have haven having he hello her here hers herself hey hi him himself his how
  however i if in into is isn it its itself just kindly let like ll may me might mine more most must my myself
  need neither no nor not now of off on once only or other our ours ourselves out over own please re same shall
  she should shouldn so some such than thank thanks that the their theirs them themselves then there these they
  this those through thus to too under until up upon us ve very want was wasn we were weren what when where
  whether which while who whom whose why will with within without won would wouldn yes you your yours yourself
  yourselves
  的 了 着 过 是 在 和 与 或 及 也 都 就 还 又 很 我 你 您 他 她 它 们 这 那 个 些 吗 呢 吧 啊 请 把 被 给 让 帮 想 要 会 能 可 以 有
  我们 你们 您好 你好 我想 我要 想要 我需 需要 请帮 帮我 帮忙 请问 给我 可以 能否 是否 这个 那个 这些 那些 一个 一些 一下 什么 怎么 如何 谢谢`.split(
    /\s+/,
  ),
);

/** The search terms of a text without stop words and joined pairs, each with the word that it came from. */
export function searchTerms(text: string): Map<string, string> {
  const terms = new Map<string, string>();
  tokenize(text, (term, word, joined) => {
    if (!joined && !STOP_WORDS.has(word) && !terms.has(term)) terms.set(term, word);
  });
  return terms;
}
