/**
 * The English stemmer Porter2 (Snowball "english"): one form for the inflections of a word, so that
 * `calculate`, `calculating` and `calculation` find each other. Expects a lower-case word of `a`–`z`.
 */
export function stem(word: string): string {
  if (word.length <= 2 || UNCHANGED.has(word)) return word;
  if (Object.hasOwn(IRREGULAR, word)) return IRREGULAR[word]!;

  const marked = markConsonantY(word);
  const r1 = WHOLE_PREFIX.exec(marked)?.[0].length ?? followingRegion(marked, 0);
  const r2 = followingRegion(marked, r1);

  const singular = dropPlural(marked);
  if (UNCHANGED_SINGULARS.has(singular)) return singular;
  let result = dropPastAndProgressive(singular, r1).replace(/(?<=.[^aeiouy])[yY]$/, "i");
  result = replaceLongest(result, DERIVATIONS, r1);
  result = replaceLongest(result, SECOND_DERIVATIONS, r1, r2);
  result = replaceLongest(result, RESIDUES, r2);
  return dropFinalLetter(result, r1, r2).toLowerCase();
}

/** A `y` that sounds like a consonant is written `Y` while the rules run: at the start and after a vowel. */
function markConsonantY(word: string): string {
  return word.includes("y") ? word.replace(/^y|(?<=[aeiouy])y/g, "Y") : word;
}

/** The index from which suffixes may be removed: after the first consonant that follows a vowel. */
function followingRegion(word: string, from: number): number {
  let index = from;
  while (index < word.length && !isVowel(word, index)) index++;
  while (index < word.length && isVowel(word, index)) index++;
  return Math.min(index + 1, word.length);
}

function dropPlural(word: string): string {
  if (!word.endsWith("s") && !word.endsWith("ied")) return word;
  if (word.endsWith("sses")) return word.slice(0, -2);
  if (word.endsWith("ied") || word.endsWith("ies")) return word.slice(0, word.length > 4 ? -2 : -1);
  if (word.endsWith("us") || word.endsWith("ss")) return word;
  return VOWEL.test(word.slice(0, -2)) ? word.slice(0, -1) : word;
}

function dropPastAndProgressive(word: string, r1: number): string {
  const agreed = /eed(?:ly)?$/.exec(word);
  if (agreed) return agreed.index >= r1 ? word.slice(0, agreed.index + 2) : word;
  const suffix = /(?:ed|ing)(?:ly)?$/.exec(word);
  if (!suffix) return word;
  const rest = word.slice(0, suffix.index);
  if (!VOWEL.test(rest)) return word;
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (/(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$/.test(rest)) return rest.slice(0, -1);
  return r1 >= rest.length && SHORT_SYLLABLE.test(rest) ? `${rest}e` : rest;
}

type Rule = readonly [suffix: string, replacement: string, condition?: RegExp | "r2"];

/**
 * Applies the rule with the longest suffix that the word ends in. If that suffix begins before the region or
 * the rule's condition fails, the word is returned unchanged.
 */
function replaceLongest(word: string, rules: readonly Rule[], region: number, r2 = region): string {
  for (const [suffix, replacement, condition] of rules) {
    if (!word.endsWith(suffix)) continue;
    const start = word.length - suffix.length;
    const rest = word.slice(0, start);
    if (start < (condition === "r2" ? r2 : region)) return word;
    if (condition instanceof RegExp && !condition.test(rest)) return word;
    return rest + replacement;
  }
  return word;
}

function dropFinalLetter(word: string, r1: number, r2: number): string {
  const rest = word.slice(0, -1);
  if (word.endsWith("e")) {
    const removable = rest.length >= r2 || (rest.length >= r1 && !SHORT_SYLLABLE.test(rest));
    return removable ? rest : word;
  }
  return word.endsWith("ll") && rest.length >= r2 ? rest : word;
}

function isVowel(word: string, index: number): boolean {
  return "aeiouy".includes(word.charAt(index));
}

const VOWEL = /[aeiouy]/;
const SHORT_SYLLABLE = /^[aeiouy][^aeiouy]$|[^aeiouy][aeiouy][^aeiouywxY]$/;
/** Prefixes that count as one unit: otherwise `general` and `generate` would share a stem. */
const WHOLE_PREFIX = /^(?:gener|commun|arsen)/;

const IRREGULAR: Readonly<Record<string, string>> = {
  skis: "ski",
  skies: "sky",
  dying: "die",
  lying: "lie",
  tying: "tie",
  idly: "idl",
  gently: "gentl",
  ugly: "ugli",
  early: "earli",
  only: "onli",
  singly: "singl",
};
const UNCHANGED = new Set("sky news howe atlas cosmos bias andes".split(" "));
const UNCHANGED_SINGULARS = new Set(
  "inning outing canning herring earring proceed exceed succeed".split(" "),
);

/** Each list is ordered so that a longer suffix comes before one it ends with. `x>y` puts y in the place of x. */
const DERIVATIONS: readonly Rule[] = [
  ...rulesOf(
    "ational>ate tional>tion enci>ence anci>ance abli>able entli>ent ization>ize izer>ize ation>ate",
  ),
  ...rulesOf("ator>ate alism>al aliti>al alli>al fulness>ful ousness>ous ousli>ous iveness>ive iviti>ive"),
  ...rulesOf("biliti>ble bli>ble"),
  ["ogi", "og", /l$/],
  ...rulesOf("fulli>ful lessli>less"),
  ["li", "", /[cdeghkmnrt]$/],
];
const SECOND_DERIVATIONS: readonly Rule[] = [
  ...rulesOf("ational>ate tional>tion alize>al icate>ic iciti>ic ical>ic"),
  ["ative", "", "r2"],
  ...rulesOf("ness> ful>"),
];
const RESIDUES: readonly Rule[] = [
  ...rulesOf("ement> ment> ance> ence> able> ible> ant> ent> ism> ate> iti> ous> ive> ize>"),
  ["ion", "", /[st]$/],
  ...rulesOf("al> er> ic>"),
];

function rulesOf(text: string): Rule[] {
  return text.split(" ").map((rule): Rule => {
    const [suffix = "", replacement = ""] = rule.split(">");
    return [suffix, replacement];
  });
}
