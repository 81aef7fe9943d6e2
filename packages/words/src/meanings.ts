/** The vectors of words, by rows. */
interface WordRows {
  /** A multiple of 64, at most 192. */
  readonly dimensions: number;
  rowsOf(word: string): readonly number[];
  add(row: number, weight: number, sum: Float32Array): void;
}

/** A word, and how much it counts in its text. */
type WeightedWord = readonly [word: string, weight: number];

/**
 * What documents mean, as unit vectors of one byte a dimension. Vectors are compared from the middle of all documents: what
 * they have in common says nothing about any of them. The middle is a sum of whole numbers, so that it is the same
 * whatever came and went, and a change of one document changes nothing that is kept of the others.
 */
export class Meanings {
  readonly #words: WordRows;
  readonly #dimensions: number;
  #vectors = new Int8Array(0);
  /** One bit for each dimension: whether the vector is positive there. */
  #signs = new Int32Array(0);
  #known = new Uint8Array(0);
  readonly #sum: Float64Array;
  #count = 0;
  /** How many slots were ever in use. */
  #slots = 0;
  #mean: Float32Array | undefined;
  readonly #centred: Float32Array;

  constructor(words: WordRows) {
    this.#words = words;
    this.#dimensions = words.dimensions;
    this.#sum = new Float64Array(words.dimensions);
    this.#centred = new Float32Array(words.dimensions);
  }

  /** The slot must be empty. */
  add(slot: number, words: Iterable<WeightedWord>): void {
    this.#slots = Math.max(this.#slots, slot + 1);
    if (slot >= this.#known.length) this.#grow(2 * slot + 64);
    const vector = this.#embed(words);
    if (vector === undefined) return;
    const own = this.#vectors.subarray(slot * this.#dimensions, (slot + 1) * this.#dimensions);
    vector.forEach((value, at) => {
      own[at] = Math.max(-LARGEST, Math.min(LARGEST, Math.round(value * STEPS)));
      this.#sum[at]! += own[at]!;
    });
    this.#signs.set(signsOf(own), (slot * this.#dimensions) >> 5);
    this.#known[slot] = 1;
    this.#count++;
    this.#mean = undefined;
  }

  remove(slot: number): void {
    if (!(this.#known[slot]! > 0)) return;
    const own = this.#vectors.subarray(slot * this.#dimensions, (slot + 1) * this.#dimensions);
    own.forEach((value, at) => {
      this.#sum[at]! -= value;
    });
    this.#known[slot] = 0;
    this.#count--;
    this.#mean = undefined;
  }

  /** A unit vector from the middle of all documents to a text; undefined when no word of it is known. */
  vectorOf(words: Iterable<string>): Float32Array | undefined {
    const vector = this.#embed(Array.from(words, (word): WeightedWord => [word, 1]));
    if (vector === undefined) return undefined;
    const middle = this.#middle();
    for (let at = 0; at < vector.length; at++) vector[at]! -= middle[at]! / STEPS;
    return toUnit(vector);
  }

  /** The largest cosine of a document and one of the vectors, seen from the middle; 0 for a document of unknown words. */
  similarity(vectors: readonly Float32Array[], slot: number): number {
    if (this.#known[slot] !== 1) return 0;
    const middle = this.#middle();
    const centred = this.#centred;
    const kept = this.#vectors;
    let squares = 0;
    for (let at = 0, from = slot * centred.length; at < centred.length; at++, from++) {
      const value = kept[from]! - middle[at]!;
      centred[at] = value;
      squares += value * value;
    }
    let largest = 0;
    for (const vector of vectors) largest = Math.max(largest, dot(vector, centred));
    return squares === 0 ? 0 : largest / Math.sqrt(squares);
  }

  /** In steps of the kept bytes. Worked out again after a change. */
  #middle(): Float32Array {
    this.#mean ??= Float32Array.from(this.#sum, (value) => value / (this.#count + FEW));
    return this.#mean;
  }

  /**
   * The slots of at least `count` documents that lie in the direction of the vector, as far as the signs of their values tell:
   * a few operations for a document instead of a product for each dimension.
   */
  nearest(vector: Float32Array, count: number): number[] {
    const words = this.#dimensions >> 5;
    const wanted = signsOf(vector);
    const [signs, known] = [this.#signs, this.#known];
    const distances = new Uint8Array(this.#slots);
    const classes = new Uint32Array(this.#dimensions + 1);
    for (let slot = 0, from = 0; slot < distances.length; slot++, from += words) {
      if (known[slot] === 0) continue;
      let bytes = 0;
      for (let at = 0; at < words; at += 2) {
        const fours =
          bitsOf(signs[from + at]! ^ wanted[at]!) + bitsOf(signs[from + at + 1]! ^ wanted[at + 1]!);
        bytes += (fours & 0x0f0f0f0f) + ((fours >>> 4) & 0x0f0f0f0f);
      }
      const distance = Math.imul(bytes, 0x01010101) >>> 24;
      distances[slot] = distance;
      classes[distance]!++;
    }
    let reach = 0;
    for (let found = classes[0]!; found < count && reach < this.#dimensions; ) found += classes[++reach]!;
    const near: number[] = [];
    for (let slot = 0; slot < distances.length; slot++)
      if (distances[slot]! <= reach && known[slot] === 1) near.push(slot);
    return near;
  }

  #grow(slots: number): void {
    const [vectors, signs, known] = [this.#vectors, this.#signs, this.#known];
    this.#vectors = new Int8Array(slots * this.#dimensions);
    this.#vectors.set(vectors);
    this.#signs = new Int32Array((slots * this.#dimensions) >> 5);
    this.#signs.set(signs);
    this.#known = new Uint8Array(slots);
    this.#known.set(known);
  }

  /** A unit vector; undefined when no word is known. */
  #embed(words: Iterable<WeightedWord>): Float32Array | undefined {
    const weights = new Map<number, number>();
    for (const [word, weight] of words) {
      for (const row of this.#words.rowsOf(word)) weights.set(row, Math.max(weights.get(row) ?? 0, weight));
    }
    if (weights.size === 0) return undefined;
    const sum = new Float32Array(this.#dimensions);
    for (const [row, weight] of weights) this.#words.add(row, weight, sum);
    return toUnit(sum);
  }
}

function dot(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < one.length; at++) sum += one[at]! * other[at]!;
  return sum;
}

/** How many bits are set, in each group of four. */
function bitsOf(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555);
  return (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
}

function signsOf(vector: ArrayLike<number>): Int32Array {
  const bits = new Int32Array(vector.length >> 5);
  for (let at = 0; at < vector.length; at++) if (vector[at]! > 0) bits[at >> 5]! |= 1 << (at & 31);
  return bits;
}

function toUnit(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  const by = squares === 0 ? 0 : 1 / Math.sqrt(squares);
  for (let at = 0; at < vector.length; at++) vector[at]! *= by;
  return vector;
}

/** The middle of so few documents says little: it lies half way between nothing and their mean. */
const FEW = 8;
const LARGEST = 127;
/** Steps in 1. In 128 dimensions, almost no value of a unit vector is above 0.4. */
const STEPS = LARGEST / 0.4;
