export const REDACTED = "[redacted]";

/** A shorter value would mask half of any text; nobody's secret has three characters. */
const SHORTEST = 4;
/** So few are found faster one by one. */
const FEW = 3;
/** How much of a value is looked for at first: a pattern of whole keys and certificates would be too large. */
const BEGINNING = 40;

/**
 * Known secret values, made ready for being found in texts: one pass over a text, however many there are. Iterating it
 * gives the values.
 */
export class SecretMask implements Iterable<string> {
  static readonly empty = new SecretMask([]);

  /** The longest first: a secret may be a part of another one, whose rest would be left standing. */
  readonly #values: readonly string[];
  readonly #beginnings: RegExp | undefined;

  constructor(values: Iterable<string>) {
    const usable = [...new Set(values)].filter((value) => value.length >= SHORTEST && value !== REDACTED);
    this.#values = usable.sort((one, other) => other.length - one.length);
    if (usable.length > FEW) this.#beginnings = new RegExp(usable.map(toPattern).join("|"));
  }

  static of(values: Iterable<string>): SecretMask {
    if (values instanceof Set && values.size === 0) return SecretMask.empty;
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
    if (this.#beginnings?.test(text) === false) return false;
    return this.#values.some((value) => text.includes(value));
  }

  /** The text with every value masked; the same text when there is none in it. */
  apply(text: string): string {
    if (!this.finds(text)) return text;
    return this.#values.reduce((masked, value) => masked.replaceAll(value, REDACTED), text);
  }
}

function toPattern(value: string): string {
  return value.slice(0, BEGINNING).replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
