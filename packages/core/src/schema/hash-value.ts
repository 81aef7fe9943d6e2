import { canonicalJson } from "./canonical-json.ts";
import { hashText, hexadecimal, mix } from "./hash.ts";

/** Deeper values are rare, and canonical JSON knows what to do with them. */
const DEEPEST = 100;

/**
 * A fingerprint of a JSON value, the same for any order of keys: equal values give equal texts, and different
 * ones almost surely different texts. It reads the value once and builds no text of it, which makes it several
 * times faster than hashing canonical JSON. Never throws. Not cryptographic.
 */
export function hashValue(value: unknown): string {
  try {
    first = 0;
    second = 0;
    absorb(value, 0);
    return hexadecimal(mix(first), mix(second ^ first));
  } catch {
    return hashText(canonicalJson(value));
  }
}

const noMethods: { toJSON?: unknown } = {};

// Two lanes of 32 bits. Module state instead of a result object: this runs on every call of a session.
let first = 0;
let second = 0;

function absorb(value: unknown, depth: number): void {
  switch (typeof value) {
    case "string":
      absorbText(value, 0x51);
      return;
    case "number":
      absorbNumber(value);
      return;
    case "boolean":
      combine(value ? 0x7a11 : 0xfa15);
      return;
    case "object":
      if (value === null) combine(0x9011);
      else absorbContainer(value, depth);
      return;
    case "bigint":
      absorbText(String(value), 0xb1);
      return;
    default:
      combine(0x9011);
  }
}

function absorbContainer(value: object, depth: number): void {
  if (depth > DEEPEST) throw new RangeError("too deep");
  if (Array.isArray(value)) {
    combine(0xa0000000 ^ value.length);
    for (let index = 0; index < value.length; index++) absorb(value[index], depth + 1);
    return;
  }
  const prototype = Object.getPrototypeOf(value);
  const plain = prototype === Object.prototype || prototype === null;
  if (!plain && (value instanceof Set || value instanceof Map)) {
    absorbContainer([...value], depth);
    return;
  }
  const { toJSON } = plain ? noMethods : (value as { toJSON?: unknown });
  if (typeof toJSON === "function") {
    absorb(toJSON.call(value), depth + 1);
    return;
  }
  absorbObject(value as Record<string, unknown>, plain, depth);
}

/** Every member is hashed by itself and the hashes are added up, so their order does not matter. */
function absorbObject(value: Record<string, unknown>, plain: boolean, depth: number): void {
  const outerFirst = first;
  const outerSecond = second;
  let sumFirst = 0;
  let sumSecond = 0;
  let members = 0;
  for (const key in value) {
    const member = value[key];
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

function absorbText(text: string, kind: number): void {
  const { length } = text;
  let one = first ^ kind ^ (length << 8);
  let two = second ^ length;
  let index = 0;
  // Two characters at a time; the lanes rotate differently, so that what cancels out in one stays in the other.
  for (; index + 1 < length; index += 2) {
    const word = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16);
    one = Math.imul(one ^ word, 0x9e3779b1);
    one = (one << 13) | (one >>> 19);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
    two = (two << 17) | (two >>> 15);
  }
  if (index < length) {
    const word = text.charCodeAt(index);
    one = Math.imul(one ^ word, 0x9e3779b1);
    two = Math.imul(two ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  }
  first = one;
  second = two;
}

const double = new Float64Array(1);
const words = new Int32Array(double.buffer);

function absorbNumber(value: number): void {
  if (!Number.isFinite(value)) {
    combine(0x9011); // As JSON does: null.
    return;
  }
  double[0] = value === 0 ? 0 : value; // Minus zero is zero in JSON.
  combine(words[0]! ^ 0x4e);
  combine(words[1]!);
}

function combine(word: number): void {
  first = Math.imul(first ^ word, 0x9e3779b1);
  first = (first << 13) | (first >>> 19);
  second = Math.imul(second ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  second = (second << 17) | (second >>> 15);
}
