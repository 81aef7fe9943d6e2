/**
 * A 64-bit fingerprint of a text, as 16 hexadecimal digits. Fast and well mixed, the same on every machine,
 * and not cryptographic: whoever can choose the text can make collisions.
 *
 * Two 32-bit lanes read two characters at a time. They rotate by different amounts, so that a difference
 * which cancels out in one lane stays in the other.
 */
export function hashText(text: string): string {
  const length = text.length;
  let first = 0x243f6a88 ^ length;
  let second = 0x85a308d3 ^ length;
  let index = 0;
  for (; index + 1 < length; index += 2) {
    const word = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16);
    first = Math.imul(first ^ word, 0x9e3779b1);
    first = (first << 13) | (first >>> 19);
    second = Math.imul(second ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
    second = (second << 17) | (second >>> 15);
  }
  if (index < length) {
    const word = text.charCodeAt(index);
    first = Math.imul(first ^ word, 0x9e3779b1);
    second = Math.imul(second ^ Math.imul(word, 0x2c1b3c6d), 0x85ebca77);
  }
  first = mix(first ^ Math.imul(second, 0x27d4eb2f));
  second = mix(second ^ Math.imul(first, 0x165667b1));
  return hexadecimal(first, second);
}

/** Lets every bit of a lane reach every other bit. */
function mix(lane: number): number {
  let mixed = lane ^ (lane >>> 16);
  mixed = Math.imul(mixed, 0x7feb352d);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x846ca68b);
  return mixed ^ (mixed >>> 16);
}

const digits = Uint8Array.from("0123456789abcdef", (digit) => digit.charCodeAt(0));

/** One call that makes the whole text is many times faster than `toString(16)` and padding. */
function hexadecimal(high: number, low: number): string {
  return String.fromCharCode(
    digits[high >>> 28]!,
    digits[(high >>> 24) & 15]!,
    digits[(high >>> 20) & 15]!,
    digits[(high >>> 16) & 15]!,
    digits[(high >>> 12) & 15]!,
    digits[(high >>> 8) & 15]!,
    digits[(high >>> 4) & 15]!,
    digits[high & 15]!,
    digits[low >>> 28]!,
    digits[(low >>> 24) & 15]!,
    digits[(low >>> 20) & 15]!,
    digits[(low >>> 16) & 15]!,
    digits[(low >>> 12) & 15]!,
    digits[(low >>> 8) & 15]!,
    digits[(low >>> 4) & 15]!,
    digits[low & 15]!,
  );
}

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

/** Deeper than any argument a tool takes, and shallow enough for every stack. */
const maximumDepth = 500;

/** Nearly every value is shallower than this, and a shallow one cannot be circular. */
const maximumHastyDepth = 50;

/**
 * One text for equal JSON values, whatever the order of their keys (RFC 8785). It never throws: what JSON cannot
 * hold is dropped as `JSON.stringify` does, a BigInt becomes its digits, a set or map a list, and a part that is
 * circular, too deep or unreadable becomes a marker, so that equal values still give equal texts.
 */
export function canonicalJson(value: unknown): string {
  try {
    return write(value, 0, undefined) ?? "null";
  } catch {
    // Something in it is deep, circular or throws: once more, watching every step.
    return write(value, 0, []) ?? "null";
  }
}

/** Returns `undefined` for what JSON leaves out. Throws only when no ancestors are kept. */
function write(value: unknown, depth: number, ancestors: object[] | undefined): string | undefined {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "number":
      return Number.isFinite(value) ? `${value}` : "null";
    case "boolean":
      return value ? "true" : "false";
    case "bigint":
      return `"${value}"`;
    case "object":
      if (value === null) return "null";
      return ancestors === undefined ? writeHastily(value, depth) : writeCarefully(value, depth, ancestors);
    default:
      return undefined;
  }
}

function writeHastily(value: object, depth: number): string | undefined {
  if (depth > maximumHastyDepth) throw new RangeError("deeper than haste allows");
  return writeMembers(value, depth + 1, undefined);
}

function writeCarefully(value: object, depth: number, ancestors: object[]): string | undefined {
  if (depth >= maximumDepth) return '"[too deep]"';
  if (ancestors.includes(value)) return '"[circular]"';
  ancestors.push(value);
  try {
    return writeMembers(value, depth + 1, ancestors);
  } catch {
    // A getter, proxy or toJSON threw.
    return '"[unreadable]"';
  } finally {
    ancestors.length = depth;
  }
}

function writeMembers(value: object, depth: number, ancestors: object[] | undefined): string | undefined {
  if (Array.isArray(value)) return writeArray(value, depth, ancestors);
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(), depth, ancestors);
  return writeObject(value as Record<string, unknown>, depth, ancestors); // Any object may be read by its own keys.
}

function writeArray(value: readonly unknown[], depth: number, ancestors: object[] | undefined): string {
  let text = "[";
  for (let index = 0; index < value.length; index++) {
    const member = write(value[index], depth, ancestors) ?? "null";
    text += index === 0 ? member : `,${member}`;
  }
  return `${text}]`;
}

function writeObject(value: Record<string, unknown>, depth: number, ancestors: object[] | undefined): string {
  const keys = sortedKeys(value);
  if (keys.length === 0 && (value instanceof Set || value instanceof Map))
    return writeArray([...value], depth, ancestors);
  let text = "";
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!;
    const member = write(value[key], depth, ancestors);
    if (member === undefined) continue;
    text += `${text === "" ? "{" : ","}${quote(key)}:${member}`;
  }
  return text === "" ? "{}" : `${text}}`;
}

/** By UTF-16 code units, as RFC 8785 asks. For a handful of keys, inserting beats the built-in sort. */
function sortedKeys(value: object): string[] {
  const keys = Object.keys(value);
  if (keys.length > 16) return keys.sort();
  for (let index = 1; index < keys.length; index++) {
    const key = keys[index]!;
    let place = index;
    for (; place > 0 && keys[place - 1]! > key; place--) keys[place] = keys[place - 1]!;
    keys[place] = key;
  }
  return keys;
}

/** Most strings of arguments are short and need no escape; looking is cheaper than the call to `JSON`. */
function quote(text: string): string {
  if (text.length > 40) return JSON.stringify(text);
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 32 || code === 34 || code === 92 || (code >= 0xd800 && code <= 0xdfff))
      return JSON.stringify(text);
  }
  return `"${text}"`;
}
