/** A word, and how much it counts in its text. */
export type WeightedWord = readonly [word: string, weight: number];

/**
 * What documents mean, each by its slot number. Kept outside core, because it needs vectors of words: `@toolrack/words` has them
 * for English and Chinese. Must give the same answers whatever documents came and went before.
 */
export interface Meanings {
  /** The slot must be empty. Words are in lower case; text without spaces is one word. */
  add(slot: number, words: Iterable<WeightedWord>): void;
  /** Does nothing for an empty slot. */
  remove(slot: number): void;
  /** What a text means; undefined when no word of it is known. */
  vectorOf(words: Iterable<string>): Float32Array | undefined;
  /** The slots of about `count` documents that mean most nearly the same. */
  nearest(vector: Float32Array, count: number): Iterable<number>;
  /** How near a document is to the nearest of the vectors: at most 1, and 0 or less when it has nothing in common. */
  similarity(vectors: readonly Float32Array[], slot: number): number;
  /** How near two texts are; undefined when no word of one of them is known. */
  likeness(one: Iterable<string>, other: Iterable<string>): number | undefined;
}

/** Vectors of words in which words of like meaning lie close together, in whatever language. */
export interface WordVectors {
  /** An index of documents, empty at first. */
  newIndex(): Meanings;
}
