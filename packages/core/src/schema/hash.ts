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
export function mix(lane: number): number {
  let mixed = lane ^ (lane >>> 16);
  mixed = Math.imul(mixed, 0x7feb352d);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x846ca68b);
  return mixed ^ (mixed >>> 16);
}

const digits = Uint8Array.from("0123456789abcdef", (digit) => digit.charCodeAt(0));

/** One call that makes the whole text is many times faster than `toString(16)` and padding. */
export function hexadecimal(high: number, low: number): string {
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
