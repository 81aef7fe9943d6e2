/**
 * For every term the documents it occurs in, as pairs of document and packed counts. All lists live in one
 * typed array as chains of blocks that double in size: a term that occurs once costs 20 bytes, and a common
 * term is read almost sequentially.
 *
 * A block is `[next block or 0, used pairs, capacity in pairs, document, counts, document, counts, …]`. Readers
 * walk `words` themselves, because a call per pair would cost more than the work on it:
 *
 * ```ts
 * for (let block = lists.first(term); block !== 0; block = words[block]!) {
 *   const end = block + BLOCK_HEADER + 2 * words[block + 1]!;
 *   for (let at = block + BLOCK_HEADER; at < end; at += 2) use(words[at]!, words[at + 1]!);
 * }
 * ```
 */
export class PostingLists {
  /** Replaced when it grows: read it anew after `append`. */
  words: Uint32Array = new Uint32Array(1_024);
  readonly #first: number[] = [];
  readonly #last: number[] = [];
  /** Word 0 stays unused, so that 0 can mean "no block". */
  #used = 1;

  /** Adds an empty list and returns its term number: 0, 1, 2, … */
  create(): number {
    this.#first.push(0);
    this.#last.push(0);
    return this.#first.length - 1;
  }

  first(term: number): number {
    return this.#first[term] ?? 0;
  }

  append(term: number, document: number, counts: number): void {
    let block = this.#last[term]!;
    if (block === 0 || this.words[block + 1] === this.words[block + 2]) block = this.#addBlock(term, block);
    const used = this.words[block + 1]!;
    const at = block + BLOCK_HEADER + 2 * used;
    this.words[at] = document;
    this.words[at + 1] = counts;
    this.words[block + 1] = used + 1;
  }

  #addBlock(term: number, last: number): number {
    const capacity = last === 0 ? 1 : Math.min(2 * this.words[last + 2]!, MAX_BLOCK_PAIRS);
    const block = this.#used;
    this.#used += BLOCK_HEADER + 2 * capacity;
    if (this.#used > this.words.length) this.#grow();
    this.words[block + 2] = capacity;
    if (last === 0) this.#first[term] = block;
    if (last !== 0) this.words[last] = block;
    this.#last[term] = block;
    return block;
  }

  #grow(): void {
    const grown = new Uint32Array(Math.ceil(this.#used * 1.5));
    grown.set(this.words);
    this.words = grown;
  }
}

export const BLOCK_HEADER = 3;
const MAX_BLOCK_PAIRS = 512;
