export const REDACTED = "[redacted]";

/** A shorter value would mask half of any text; nobody's secret has three characters. */
const SHORTEST = 4;
/** So few are found faster one by one. */
const FEW = 3;
const CODES = 0xffff;

/**
 * Known secret values, made ready for being found in texts: one pass over a text, however many there are. Iterating it
 * gives the values.
 */
export class SecretMask implements Iterable<string> {
  static readonly empty = new SecretMask([]);

  /** The longest first: a secret may be a part of another one, whose rest would be left standing. */
  readonly #values: readonly string[];
  /** The values by the code of their first four characters, made when there is a first text to look through. */
  #byStart: Map<number, string[]> | undefined;
  #starts: Uint8Array | undefined;

  constructor(values: Iterable<string>) {
    const usable = [...new Set(values)].filter((value) => value.length >= SHORTEST && value !== REDACTED);
    this.#values = usable.sort((one, other) => other.length - one.length);
  }

  static of(values: Iterable<string>): SecretMask {
    return values instanceof SecretMask ? values : new SecretMask(values);
  }

  get isEmpty(): boolean {
    return this.#values.length === 0;
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#values[Symbol.iterator]();
  }

  /** Whether any of the values is in the text. */
  finds(text: string): boolean {
    if (text.length < SHORTEST) return false;
    if (this.#values.length <= FEW) return this.#values.some((value) => text.includes(value));
    this.#index();
    const starts = this.#starts!;
    let code = 0;
    for (let at = 0; at < text.length; at++) {
      code = nextCode(code, text.charCodeAt(at));
      if (starts[code] === 0 || at < SHORTEST - 1) continue;
      const begin = at - SHORTEST + 1;
      for (const value of this.#byStart!.get(code)!) if (text.startsWith(value, begin)) return true;
    }
    return false;
  }

  /** The text with every value masked; the same text when there is none in it. */
  apply(text: string): string {
    if (!this.finds(text)) return text;
    let masked = text;
    for (const value of this.#values) masked = masked.replaceAll(value, REDACTED);
    return masked;
  }

  #index(): void {
    if (this.#starts !== undefined) return;
    this.#starts = new Uint8Array(CODES + 1);
    this.#byStart = new Map();
    for (const value of this.#values) {
      let code = 0;
      for (let at = 0; at < SHORTEST; at++) code = nextCode(code, value.charCodeAt(at));
      this.#starts[code] = 1;
      const alike = this.#byStart.get(code);
      if (alike === undefined) this.#byStart.set(code, [value]);
      else alike.push(value);
    }
  }
}

/** Depends on the last four characters only: those before them are shifted out. */
function nextCode(code: number, character: number): number {
  return ((code << 4) ^ character) & CODES;
}
