/** A document of a term: its slot number shifted by this many bits, and below it how much the term weighs in it. */
const SLOT_SHIFT = 8;
const MOST_WEIGHT = 2 ** SLOT_SHIFT - 1;
/** BM25's `k1`: how soon further occurrences of the same word stop counting. Weights are counted in halves. */
const SATURATION = 2 * 1.2;
/** BM25's `b`: how much a longer document lowers the weight of each of its words. */
const LENGTH_DISCOUNT = 0.75;

/** The terms of a document, each with its weight, and how much its words weigh together. */
export interface TermCounts {
  readonly length: number;
  readonly counts: ReadonlyMap<string, number>;
}

/** Where scores are added up, and how much a term counts there. */
export interface ScoreTarget {
  readonly scores: Float32Array;
  readonly weight: number;
}

/**
 * Which documents contain which terms. A document is a slot number with weighted counts of its terms. Its length is that of
 * all its fields together: a tool without parameters is a short document, not one that lacks a field. All weights are worked
 * out when they are asked for, so a change of one document costs no more than its own terms.
 */
export class Postings {
  /** Terms by their numbers; a number whose term no document has any more is given to another term. */
  readonly #numbers = new Map<string, number>();
  readonly #terms: string[] = [];
  readonly #freeNumbers: number[] = [];
  /** For each term the documents that have it, in any order: 8 bytes each, a tenth of a `Map`. */
  readonly #lists: number[][] = [];
  /** The numbers of the terms of each document, and its places in their lists. */
  readonly #documents: (Uint32Array | undefined)[] = [];
  readonly #places: (Uint32Array | undefined)[] = [];
  #lengths = new Float64Array(0);
  #total = 0;
  #size = 0;

  /** The terms that some document contains now. */
  terms(): Iterable<string> {
    return this.#numbers.keys();
  }

  has(term: string): boolean {
    return this.#numbers.has(term);
  }

  /** Whether a document that `accept` returns true for contains the term. */
  isIn(term: string, accept: (slot: number) => boolean): boolean {
    const number = this.#numbers.get(term);
    return number !== undefined && this.#lists[number]!.some((posting) => accept(posting >> SLOT_SHIFT));
  }

  /** `length` and `counts`: whole numbers, so that sums are the same in any order. The slot must be empty. */
  add(slot: number, { length, counts }: TermCounts): void {
    const numbers = new Uint32Array(counts.size);
    const places = new Uint32Array(counts.size);
    let at = 0;
    for (const [term, count] of counts) {
      const number = this.#numberOf(term);
      const posting = (slot << SLOT_SHIFT) | Math.min(count, MOST_WEIGHT);
      numbers[at] = number;
      places[at++] = this.#lists[number]!.push(posting) - 1;
    }
    if (slot >= this.#lengths.length) {
      const longer = new Float64Array(2 * slot + 64);
      longer.set(this.#lengths);
      this.#lengths = longer;
    }
    this.#documents[slot] = numbers;
    this.#places[slot] = places;
    this.#lengths[slot] = length;
    this.#total += length;
    this.#size++;
  }

  remove(slot: number): void {
    const numbers = this.#documents[slot];
    const places = this.#places[slot];
    if (numbers === undefined || places === undefined) return;
    for (const [at, number] of numbers.entries()) {
      const list = this.#lists[number]!;
      const place = places[at]!;
      // The last one takes the place: of a term that all tools have, moving all behind it takes long.
      const last = list.pop()!;
      if (place < list.length) {
        list[place] = last;
        const moved = last >> SLOT_SHIFT;
        this.#places[moved]![this.#documents[moved]!.indexOf(number)] = place;
      }
      if (list.length > 0) continue;
      this.#numbers.delete(this.#terms[number]!);
      this.#freeNumbers.push(number);
    }
    this.#documents[slot] = undefined;
    this.#places[slot] = undefined;
    this.#total -= this.#lengths[slot]!;
    this.#size--;
  }

  /** How much a term tells the documents apart: the more, the fewer have it. Most for a term that none has. */
  rarity(term: string): number {
    const number = this.#numbers.get(term);
    return this.#rarityOf(number === undefined ? 0 : this.#lists[number]!.length);
  }

  /**
   * Adds to the score of each document that has the term, in one or two targets: the target's weight times a share of 1 that
   * grows with its occurrences.
   */
  addScores(term: string, { scores, weight }: ScoreTarget, also?: ScoreTarget): void {
    const number = this.#numbers.get(term);
    if (number === undefined) return;
    const lengths = this.#lengths;
    const fixed = SATURATION * (1 - LENGTH_DISCOUNT);
    const perLength = (SATURATION * LENGTH_DISCOUNT * this.#size) / (this.#total || 1);
    const list = this.#lists[number]!;
    for (let at = 0; at < list.length; at++) {
      const slot = list[at]! >> SLOT_SHIFT;
      const count = list[at]! & MOST_WEIGHT;
      const share = count / (count + fixed + perLength * lengths[slot]!);
      scores[slot]! += weight * share;
      if (also !== undefined) also.scores[slot]! += also.weight * share;
    }
  }

  /** How much the terms of a document and other terms are the same, from 0 to 1: the rarer a term, the more it counts. */
  likeness(slot: number, terms: Iterable<string>): number {
    const own = this.#documents[slot] ?? [];
    const others = new Set<number>();
    let ofOthers = 0;
    for (const term of terms) {
      others.add(this.#numbers.get(term) ?? -1);
      ofOthers += this.rarity(term);
    }
    let ofOwn = 0;
    let shared = 0;
    for (const number of own) {
      const rarity = this.#rarityOf(this.#lists[number]!.length);
      ofOwn += rarity;
      if (others.has(number)) shared += rarity;
    }
    return shared / Math.sqrt(ofOwn * ofOthers || 1);
  }

  #rarityOf(frequency: number): number {
    return Math.log(1 + (this.#size - frequency + 0.5) / (frequency + 0.5));
  }

  #numberOf(term: string): number {
    const known = this.#numbers.get(term);
    if (known !== undefined) return known;
    const number = this.#freeNumbers.pop() ?? this.#lists.length;
    this.#numbers.set(term, number);
    this.#terms[number] = term;
    this.#lists[number] = [];
    return number;
  }
}

/**
 * The slots with the highest scores above 0: at least `count` of them, or all that there are, in no order. Counts scores
 * in classes instead of sorting them: there may be tens of thousands.
 */
export function bestOf(scores: Float32Array, count: number): number[] {
  const highest = highestOf(scores);
  const classes = new Uint32Array(CLASSES + 1);
  const by = highest === 0 ? 0 : CLASSES / highest;
  for (let slot = 0; slot < scores.length; slot++)
    if (scores[slot]! > 0) classes[(scores[slot]! * by) | 0]!++;
  let least = CLASSES;
  for (let found = classes[least]!; found < count && least > 0; ) found += classes[--least]!;
  const best: number[] = [];
  for (let slot = 0; slot < scores.length; slot++)
    if (scores[slot]! > 0 && ((scores[slot]! * by) | 0) >= least) best.push(slot);
  return best;
}

export function highestOf(scores: Float32Array): number {
  let highest = 0;
  for (let slot = 0; slot < scores.length; slot++) if (scores[slot]! > highest) highest = scores[slot]!;
  return highest;
}

const CLASSES = 1024;
