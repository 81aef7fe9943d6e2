import { Meanings } from "./meanings.ts";

/** The words of one language as its files have them. */
export interface WordPart {
  /** One word a line; the line is the number of its row. */
  readonly words: string;
  /** The rows one after another, `dimensions` signed bytes each. */
  readonly rows: Uint8Array;
  /** One little-endian float a row: a row times its scale is the vector of the word. */
  readonly scales: Uint8Array;
}

interface LoadedPart {
  readonly words: string;
  /** Where each word begins in `words`, and at the end where one more would begin. */
  readonly starts: Uint32Array;
  /** The number of the part's first row among the rows of all parts. */
  readonly first: number;
  readonly rows: Int8Array;
  readonly scales: Float32Array;
}

/**
 * Vectors of words. The words stay in one text for each language and are found through a hash table of numbers: a `Map` of
 * 50,000 words would take 18 MB and 40 ms more.
 */
export class WordTable {
  readonly dimensions: number;
  readonly #parts: readonly LoadedPart[];
  /** Numbers of rows plus one by the hashes of their words; 0 is a free place, and the next places are tried in turn. */
  readonly #places: Uint16Array;
  readonly #longest: number;

  constructor(parts: readonly WordPart[]) {
    let first = 0;
    this.#parts = parts.map((part) => {
      const loaded = loadPart(part, first);
      first += loaded.scales.length;
      return loaded;
    });
    this.dimensions =
      this.#parts[0] === undefined ? 0 : this.#parts[0].rows.length / this.#parts[0].scales.length;
    const isWhole = this.#parts.every(({ rows, scales }) => rows.length === scales.length * this.dimensions);
    if (
      !isWhole ||
      !(this.dimensions > 0) ||
      this.dimensions % 64 !== 0 ||
      this.dimensions > 192 ||
      first > MOST_ROWS
    )
      throw new Error("The files of words do not belong together. Install @toolrack/words again.");
    this.#places = new Uint16Array(2 * 2 ** Math.ceil(Math.log2(first + 1)));
    let longest = 0;
    for (const { words, starts, first: row } of this.#parts) {
      for (let at = 0; at < starts.length - 1; at++) {
        const length = starts[at + 1]! - starts[at]! - 1;
        if (words.charCodeAt(starts[at]!) > LAST_ASCII) longest = Math.max(longest, length);
        this.#place(words, starts[at]!, length, row + at);
      }
    }
    this.#longest = longest;
  }

  /** An index of documents by what their words mean, empty at first. */
  newIndex(): Meanings {
    return new Meanings(this);
  }

  /**
   * The rows of a word in lower case: its own, or without its ending, or of its two halves; of a text without spaces, the
   * longest known words from the left. None when nothing is known of it.
   */
  rowsOf(word: string): readonly number[] {
    const own = this.#find(word, 0, word.length);
    if (own !== undefined) return [own];
    if (/^[a-z]{3,}$/.test(word)) return this.#inflected(word) ?? this.#halves(word);
    return word.charCodeAt(0) > LAST_ASCII ? this.#segment(word) : [];
  }

  /** Adds the vector of a row, times a weight, to `sum`. */
  add(row: number, weight: number, sum: Float32Array): void {
    const part = this.#partOf(row);
    const { rows, scales } = part;
    const scale = scales[row - part.first]! * weight;
    let at = (row - part.first) * this.dimensions;
    for (let dimension = 0; dimension < this.dimensions; dimension++) sum[dimension]! += rows[at++]! * scale;
  }

  #partOf(row: number): LoadedPart {
    let at = this.#parts.length - 1;
    while (this.#parts[at]!.first > row) at--;
    return this.#parts[at]!;
  }

  #inflected(word: string): readonly number[] | undefined {
    for (const [ending, instead] of ENDINGS) {
      if (!word.endsWith(ending) || word.length - ending.length < 3) continue;
      const base = word.slice(0, -ending.length) + instead;
      const row = this.#find(base, 0, base.length);
      if (row !== undefined) return [row];
    }
    return undefined;
  }

  #halves(word: string): readonly number[] {
    for (let cut = word.length - 3; cut >= 3; cut--) {
      const left = this.#find(word, 0, cut);
      const right = left === undefined ? undefined : this.#find(word, cut, word.length - cut);
      if (left !== undefined && right !== undefined) return [left, right];
    }
    return [];
  }

  #segment(text: string): readonly number[] {
    const found: number[] = [];
    for (let at = 0; at < text.length; ) {
      let length = Math.min(this.#longest, text.length - at);
      let row: number | undefined;
      for (; length > 0 && row === undefined; length--) row = this.#find(text, at, length);
      if (row !== undefined) found.push(row);
      at += row === undefined ? 1 : length + 1;
    }
    return found;
  }

  #place(words: string, start: number, length: number, row: number): void {
    const mask = this.#places.length - 1;
    let at = hash(words, start, length) & mask;
    while (this.#places[at] !== 0) at = (at + 1) & mask;
    this.#places[at] = row + 1;
  }

  #find(text: string, start: number, length: number): number | undefined {
    const mask = this.#places.length - 1;
    for (let at = hash(text, start, length) & mask; this.#places[at] !== 0; at = (at + 1) & mask) {
      const row = this.#places[at]! - 1;
      const { words, starts, first } = this.#partOf(row);
      const begins = starts[row - first]!;
      if (starts[row - first + 1]! - begins - 1 === length && isSame(words, begins, text, start, length))
        return row;
    }
    return undefined;
  }
}

function loadPart({ words, rows, scales }: WordPart, first: number): LoadedPart {
  const text = words.endsWith("\n") ? words : `${words}\n`;
  const count = Math.floor(scales.length / 4);
  const starts = new Uint32Array(count + 1);
  for (let row = 0; row < count; row++) {
    const end = text.indexOf("\n", starts[row]!);
    if (end < 0) throw new Error("There are fewer words than rows. Install @toolrack/words again.");
    starts[row + 1] = end + 1;
  }
  const view = new DataView(scales.buffer, scales.byteOffset, scales.length);
  return {
    words: text,
    starts,
    first,
    rows: new Int8Array(rows.buffer, rows.byteOffset, rows.length),
    scales: Float32Array.from({ length: count }, (_, row) => view.getFloat32(4 * row, true)),
  };
}

/** FNV-1a over the characters. */
function hash(text: string, start: number, length: number): number {
  let value = 0x811c9dc5;
  for (let at = start; at < start + length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value ^ (value >>> 15);
}

function isSame(one: string, oneAt: number, other: string, otherAt: number, length: number): boolean {
  for (let at = 0; at < length; at++)
    if (one.charCodeAt(oneAt + at) !== other.charCodeAt(otherAt + at)) return false;
  return true;
}

const LAST_ASCII = 127;
/** A row and one more fit into 16 bits. */
const MOST_ROWS = 65_534;
const ENDINGS = [
  ["ies", "y"],
  ["es", ""],
  ["s", ""],
  ["ing", ""],
  ["ing", "e"],
  ["ed", ""],
  ["ed", "e"],
  ["er", ""],
  ["er", "e"],
  ["ly", ""],
  ["ization", "ize"],
  ["isation", "ize"],
  ["ise", "ize"],
  ["ness", ""],
] as const;
