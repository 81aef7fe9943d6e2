/**
 * Hashes of texts and values: 64 bits as 16 hexadecimal digits, fast, well mixed and the same on every machine. Not
 * cryptographic. Two 32-bit halves read two characters at a time and rotate by different amounts, so that a difference
 * that cancels out in one stays in the other. They are module state instead of a result object, because this runs on
 * every call.
 */
let first = 0;
let second = 0;

export function hashText(text: string): string {
  first = 0x243f6a88 ^ text.length;
  second = 0x85a308d3 ^ text.length;
  absorbCharacters(text);
  first = mix(first ^ Math.imul(second, 0x27d4eb2f));
  second = mix(second ^ Math.imul(first, 0x165667b1));
  return hexadecimal(first, second);
}

/**
 * Hashes a JSON value; the order of keys does not matter. Reads the value as `JSON.stringify` does, but a BigInt by its
 * digits, and a set or map by its members. Builds no text, so it is several times faster than hashing JSON. Never
 * throws: a circular, too deep or unreadable part counts as a fixed word.
 */
export function hashValue(value: unknown): string {
  try {
    return hashWith(value, undefined);
  } catch {
    // Something is deep, circular or throws: try again with checks at every step.
    return hashWith(value, []);
  }
}

/** The containers around the current one; only set for the checked pass. */
let ancestors: object[] | undefined;

function hashWith(value: unknown, chain: object[] | undefined): string {
  ancestors = chain;
  first = 0;
  second = 0;
  absorb(value, 0);
  return hexadecimal(mix(first), mix(second ^ first));
}

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
      if (value === null) combine(NULL);
      else if (ancestors === undefined) absorbContainer(value, depth);
      else absorbChecked(value, depth, ancestors);
      return;
    case "bigint":
      absorbText(String(value), 0xb1);
      return;
    default:
      combine(NULL);
  }
}

const NULL = 0x9011;
/** Deeper values, which may be circular, get the checked pass. */
const DEEPEST = 100;
/** Deeper than any argument a tool takes, and shallow enough for every stack. */
const DEEPEST_CHECKED = 500;

function absorbChecked(value: object, depth: number, around: object[]): void {
  const [one, other] = [first, second];
  try {
    if (depth >= DEEPEST_CHECKED) absorbText("[too deep]", 0x51);
    else if (around.includes(value)) absorbText("[circular]", 0x51);
    else {
      around.push(value);
      absorbContainer(value, depth);
    }
  } catch {
    // A getter, proxy or toJSON threw.
    first = one;
    second = other;
    absorbText("[unreadable]", 0x51);
  } finally {
    around.length = Math.min(around.length, depth);
  }
}

function absorbContainer(value: object, depth: number): void {
  if (ancestors === undefined && depth > DEEPEST) throw new RangeError("too deep");
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
  if (!plain && "toJSON" in value && typeof value.toJSON === "function") {
    absorb(value.toJSON(), depth + 1);
    return;
  }
  absorbObject(value as Record<string, unknown>, plain, depth); // Any object may be read by its own keys.
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
  first ^= kind ^ (text.length << 8);
  second ^= text.length;
  absorbCharacters(text);
}

function absorbCharacters(text: string): void {
  const { length } = text;
  let one = first;
  let two = second;
  let index = 0;
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
    combine(NULL); // As JSON does.
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

/** Lets every bit affect every other bit. */
function mix(half: number): number {
  let mixed = half ^ (half >>> 16);
  mixed = Math.imul(mixed, 0x7feb352d);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x846ca68b);
  return mixed ^ (mixed >>> 16);
}

/** Four look-ups are several times faster than `toString(16)` and padding. */
const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

function hexadecimal(high: number, low: number): string {
  return digitsOf(high) + digitsOf(low);
}

function digitsOf(half: number): string {
  const upper = digits[half >>> 24]! + digits[(half >>> 16) & 255]!;
  return upper + digits[(half >>> 8) & 255]! + digits[half & 255]!;
}
