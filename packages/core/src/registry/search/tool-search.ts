import type { WordVectors } from "./meaning.ts";
import { PastSearches } from "./past-searches.ts";
import type { SearchDocument } from "./search-document.ts";
import { ToolIndex } from "./tool-index.ts";

/** How tools are found. Every part can be switched off. */
export interface SearchSettings {
  /**
   * Returns vectors of words, by which tools are also found when they say the same in other words or another language. Asked
   * once, before the first prepared search. Default: tools are found by their words alone.
   */
  readonly words?: (() => Promise<WordVectors | undefined>) | undefined;
  /** Whether a request for several things is also looked for part by part. Default true. */
  readonly intents?: boolean | undefined;
}

/** The search over the tools of a rack: the index, what is not in it yet, and what was learned from earlier searches. */
export class ToolSearch {
  readonly #settings: SearchSettings;
  #index: ToolIndex;
  readonly past: PastSearches;
  /** Tools that are not in the index yet. */
  readonly #pending = new Map<string, () => SearchDocument>();

  constructor(settings: SearchSettings) {
    this.#settings = settings;
    this.#index = new ToolIndex();
    this.past = new PastSearches();
  }

  /** Grows with each change of what searches find, beside changes of the tools. */
  get version(): number {
    return this.past.version;
  }

  /** The document is made when the next search needs it. */
  put(key: string, document: () => SearchDocument): void {
    this.#pending.set(key, document);
  }

  remove(key: string): void {
    if (!this.#pending.delete(key)) this.#index.remove(key);
  }

  /** Forgets all tools: they must be put again. */
  useWords(words: WordVectors): void {
    this.#index = new ToolIndex(words);
    this.past.useWords(words);
  }

  /** Adds to the index what has come since the last search, in steps of a few milliseconds. */
  *indexSteps(): Generator<void, void> {
    let added = 0;
    for (const [key, document] of this.#pending) {
      this.#pending.delete(key);
      this.#index.add(document());
      if (++added % INDEXED_AT_ONCE === 0) yield;
    }
  }

  /** Calls `accept` with the key of the best tool first, until it has accepted `limit` of them. */
  find(query: string, limit: number, accept: (key: string) => boolean): void {
    for (const _ of this.indexSteps());
    const { intents } = this.#settings;
    this.#index.search(query, { limit, accept, intents, bonus: this.past.near(query) });
  }
}

/** How many tools one step adds to the index. */
const INDEXED_AT_ONCE = 64;
