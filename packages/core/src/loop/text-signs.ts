/*
 * What a text may say, seen in one pass over its letters. Most results say nothing of errors, ids or dates; the patterns
 * that look for them take 300 ns to find nothing in a short text, the pass 50.
 */

/** The signs that a text may have: digits, words of errors, words of failure in short answers, names that programs make up. */
export const DIGITS = 1;
export const COMPLAINT = 2;
export const IN_VAIN = 4;
export const NAMES = 8;
const ANY_SIGN = DIGITS | COMPLAINT | IN_VAIN | NAMES;

/** Characters. A longer text has every sign, as far as is known. */
const longest = 1_000;

/**
 * Three letters of every word that the patterns of `inference.ts` and `noise.ts` look for, in lower case: any three, the
 * rarer the better. `_` is anything that is no letter.
 */
const tellingLetters: readonly (readonly [sign: number, letters: string])[] = [
  [
    COMPLAINT,
    "rro tal ceb xce sag fai ail nno _t_ uld nab nva nkn nre suc nie bid nau med nec d_e e_e dri o_m rna bad rvi tew rr_ t_f cog a_d gme nic dum sh_ not mad xit etu hed let rmi tp_ tus lse msg ssa rrc rrn",
  ],
  [
    IN_VAIN,
    "_no rea unc nno _t_ nab fai nie fus jec nva nco mpt mis nkn nau bid nic kei feh uva reu sib pas neg",
  ],
  [NAMES, "_id qid tid eid nid yid tmp mit age jan feb mar apr may jun jul aug sep oct nov dec"],
];

/** Kinds of characters: 1 to 26 for a letter, 27 for a digit, 28 for a letter of another alphabet, 0 for any other. */
const DIGIT = 27;
const FOREIGN = 28;
const kinds = new Uint8Array(256);
for (let code = 0; code < 26; code++) kinds[65 + code] = kinds[97 + code] = code + 1;
kinds.fill(DIGIT, 48, 58);
kinds.fill(FOREIGN, 192);

/** The signs of three kinds of characters in a row, five bits for each. */
const signsOfThree = new Uint8Array(1 << 15);
for (let two = 0; two < 1 << 10; two++) {
  signsOfThree[(two << 5) | DIGIT] = DIGITS;
  signsOfThree[(two << 5) | FOREIGN] = IN_VAIN | NAMES;
}
for (const [sign, words] of tellingLetters) {
  for (const letters of words.split(" ")) {
    const [first = 0, second = 0, third = 0] = Array.from(letters, (letter) => kinds[letter.charCodeAt(0)]);
    const two = (first << 10) | (second << 5);
    signsOfThree[two | third]! |= sign;
    if (third === 0) signsOfThree[two | FOREIGN]! |= sign;
  }
}

/** The codes of the characters of the text that was looked through last. */
export const lastCodes = new Uint16Array(longest);

/**
 * The signs that a text may have; one that is missing is surely missing. From the fifth bit on, the index of the first digit,
 * or one before it.
 */
export function signsOf(text: string): number {
  const { length } = text;
  if (length > longest) return ANY_SIGN;
  let signs = 0;
  let digit = 0;
  let three = 0;
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index);
    lastCodes[index] = code;
    three = ((three << 5) | (code < 256 ? kinds[code]! : FOREIGN)) & 0x7fff;
    if ((signs & DIGITS) === 0) digit = index;
    signs |= signsOfThree[three]!;
  }
  return signs | signsOfThree[(three << 5) & 0x7fff]! | (digit << 4);
}

export function firstDigit(signs: number): number {
  return signs >> 4;
}
