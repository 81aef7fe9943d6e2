import { plainCopy } from "./json.ts";

/*
 * Fingerprints of texts and values: 64 bits as 16 hexadecimal digits, fast, well mixed and the same on every machine. Not
 * cryptographic: whoever can choose the text can make collisions.
 *
 * Two 32-bit lanes read two characters at a time. They rotate by different amounts, so that a difference which cancels
 * out in one lane stays in the other. They are module state instead of a result object, because this runs on every call.
 */
let first = 0;
let second = 0;

/** The fingerprint of a text. */
export function hashText(text: string): string {
  hashNumber(text);
  return digitsOf(first, second);
}

/**
 * The first 53 bits of the fingerprint of a text, or of the part of it from one index to another: a number is made and
 * compared faster than 16 digits (30 ns).
 */
export function hashNumber(text: string, from = 0, to = text.length): number {
  first = 0x243f6a88 ^ (to - from);
  second = 0x85a308d3;
  absorbText(text, (to - from) << 8, from, to);
  return mixed();
}

/** `hashNumber` of a text, from the codes of its characters: to read them from a list takes half as long (20 ns). */
export function hashCodes(codes: Uint16Array, length: number): number {
  let one = 0x243f6a88 ^ length;
  let two = 0x85a308d3 ^ length;
  let index = 0;
  for (; index + 1 < length; index += 2) {
    const word = codes[index]! | (codes[index + 1]! << 16);
    one = Math.imul(one ^ word, 0x9e3779b1);
    one = (one << 13) | (one >>> 19);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
    two = (two << 17) | (two >>> 15);
  }
  if (index < length) {
    const word = codes[index]!;
    one = Math.imul(one ^ word, 0x9e3779b1);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  }
  first = one;
  second = two;
  return mixed();
}

/** The fingerprint of a text, or of a part of it, without some spans of it, which are in order. */
export function hashWithout(
  text: string,
  spans: readonly { readonly from: number; readonly to: number }[],
  from = 0,
  to = text.length,
): number {
  first = 0x243f6a88;
  second = 0x85a308d3;
  let kept = from;
  for (const span of spans) {
    absorbText(text, 0x5b, kept, span.from);
    kept = span.to;
  }
  absorbText(text, 0x5b, kept, to);
  return mixed();
}

/** Mixes the two lanes with each other, and gives the first 53 bits. */
function mixed(): number {
  first = mix(first ^ Math.imul(second, 0x27d4eb2f));
  second = mix(second ^ Math.imul(first, 0x165667b1));
  return (first >>> 0) * 0x200000 + (second >>> 11);
}

/**
 * A fingerprint of a JSON value, the same for any order of keys: equal values have equal fingerprints, and
 * different values almost surely different ones. Reads the value as `JSON.stringify` does, but a BigInt by
 * its digits, and a set or map by its members. It builds no text of the value, which makes it several times
 * faster than hashing its JSON. Never throws: a part that is circular, too deep or unreadable counts as a
 * word that says so.
 */
export function hashValue(value: unknown): string {
  first = 0;
  second = 0;
  try {
    absorb(value, 0);
  } catch {
    // A part of the value is very deep, circular or throws.
    first = 0;
    second = 0;
    absorb(plainCopy(value, DEEPEST), 0);
  }
  return digitsOf(mix(first), mix(second ^ first));
}

/**
 * A fingerprint of samples of a large JSON value, in about 20 µs at any size: of long lists some members, of long texts
 * both ends, and how long they are. Equal values have equal fingerprints; different ones may, where no sample differs.
 * Never throws.
 */
export function hashSamples(value: unknown): string {
  samples = MOST_SAMPLES;
  try {
    return hashValue(value);
  } finally {
    samples = Number.POSITIVE_INFINITY;
  }
}

/** How many more parts of a value are read. */
let samples = Number.POSITIVE_INFINITY;
const MOST_SAMPLES = 600;
/** Of a longer list, this many members are read. */
const LONG_LIST = 32;
/** Characters. Of a longer text both ends are read. */
const LONG_TEXT = 256;

function absorb(value: unknown, depth: number): void {
  const isSampled = samples !== Number.POSITIVE_INFINITY;
  if (isSampled && samples-- <= 0) return;
  switch (typeof value) {
    case "string":
      if (isSampled && value.length > LONG_TEXT) {
        combine(value.length);
        absorbText(value, 0x51, 0, LONG_TEXT / 2);
        absorbText(value, 0x51, value.length - LONG_TEXT / 2);
      } else absorbText(value, 0x51);
      return;
    case "number":
      if (!Number.isFinite(value)) {
        combine(NULL); // JSON writes these numbers as null.
        return;
      }
      double[0] = value === 0 ? 0 : value; // Minus zero is zero in JSON.
      combine(words[0]! ^ 0x4e);
      combine(words[1]!);
      return;
    case "boolean":
      combine(value ? 0x7a11 : 0xfa15);
      return;
    case "object":
      if (value === null) combine(NULL);
      else if (Array.isArray(value)) {
        combine(0xa0000000 ^ value.length);
        if (depth > DEEPEST) throw new RangeError("too deep");
        const read = isSampled ? Math.min(value.length, LONG_LIST) : value.length;
        const step = read < value.length ? (value.length - 1) / (read - 1) : 1;
        for (let index = 0; index < read; index++)
          absorb(value[step === 1 ? index : Math.floor(index * step)], depth + 1);
      } else absorbObject(value, depth);
      return;
    case "bigint":
      absorbText(String(value), 0xb1);
      return;
    default:
      combine(NULL);
  }
}

const NULL = 0x9011;
/** Two views of the same memory, to read the bits of a number. */
const double = new Float64Array(1);
const words = new Int32Array(double.buffer);
/** Deeper than any argument a tool takes, and shallow enough for every stack. */
const DEEPEST = 500;

function absorbObject(value: object, depth: number): void {
  if (depth > DEEPEST) throw new RangeError("too deep");
  const prototype = Object.getPrototypeOf(value);
  const plain = prototype === Object.prototype || prototype === null;
  if (!plain && (value instanceof Set || value instanceof Map)) {
    absorb([...value], depth);
    return;
  }
  if (!plain && "toJSON" in value && typeof value.toJSON === "function") {
    absorb(value.toJSON(), depth + 1);
    return;
  }
  // Every member is hashed by itself and the hashes are added up, so their order does not matter.
  const outerFirst = first;
  const outerSecond = second;
  let sumFirst = 0;
  let sumSecond = 0;
  let members = 0;
  for (const key in value) {
    if (samples <= 0) break;
    const member = (value as Record<string, unknown>)[key]; // Any object may be read by its own keys.
    if (member === undefined || typeof member === "function" || typeof member === "symbol") continue;
    if (!plain && !Object.hasOwn(value, key)) continue;
    first = 0x0b1ec7;
    second = 0x3e3be5;
    absorbText(key, 0x6e);
    absorb(member, depth + 1);
    sumFirst = (sumFirst + mix(first)) | 0;
    sumSecond = (sumSecond + mix(second ^ 0x5bd1e995)) | 0;
    members++;
  }
  first = outerFirst;
  second = outerSecond;
  combine(0xb0000000 ^ members);
  combine(sumFirst);
  combine(sumSecond);
}

function absorbText(text: string, kind: number, from = 0, to = text.length): void {
  const length = to - from;
  let one = first ^ kind ^ (length << 8);
  let two = second ^ length;
  let index = from;
  for (; index + 1 < to; index += 2) {
    const word = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16);
    one = Math.imul(one ^ word, 0x9e3779b1);
    one = (one << 13) | (one >>> 19);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
    two = (two << 17) | (two >>> 15);
  }
  if (index < to) {
    const word = text.charCodeAt(index);
    one = Math.imul(one ^ word, 0x9e3779b1);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  }
  first = one;
  second = two;
}

function combine(word: number): void {
  first = Math.imul(first ^ word, 0x9e3779b1);
  first = (first << 13) | (first >>> 19);
  second = Math.imul(second ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  second = (second << 17) | (second >>> 15);
}

/** Mixes one of the hash's 32-bit numbers, so that every input bit influences every output bit. */
function mix(lane: number): number {
  let mixed = lane ^ (lane >>> 16);
  mixed = Math.imul(mixed, 0x7feb352d);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x846ca68b);
  return mixed ^ (mixed >>> 16);
}

/** The codes of the hexadecimal digits. */
const digit = Uint8Array.from("0123456789abcdef", (character) => character.charCodeAt(0));

/**
 * 16 digits, made in one piece (26 ns): a text that is put together stays in pieces until it is first compared, which
 * costs three times as much.
 */
function digitsOf(one: number, two: number): string {
  return String.fromCharCode(
    digit[one >>> 28]!,
    digit[(one >>> 24) & 15]!,
    digit[(one >>> 20) & 15]!,
    digit[(one >>> 16) & 15]!,
    digit[(one >>> 12) & 15]!,
    digit[(one >>> 8) & 15]!,
    digit[(one >>> 4) & 15]!,
    digit[one & 15]!,
    digit[two >>> 28]!,
    digit[(two >>> 24) & 15]!,
    digit[(two >>> 20) & 15]!,
    digit[(two >>> 16) & 15]!,
    digit[(two >>> 12) & 15]!,
    digit[(two >>> 8) & 15]!,
    digit[(two >>> 4) & 15]!,
    digit[two & 15]!,
  );
}
