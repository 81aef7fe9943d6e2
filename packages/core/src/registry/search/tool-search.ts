import type { SearchDocument, WordVectors } from "./search-document.ts";
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

/** Knows more about what searches mean than the tools say: such as earlier searches, which led to a tool. */
export interface SearchHelper {
  /** Different after each change of what it knows. */
  readonly version: number;
  /** Awaited before the next prepared search. If it rejects, search goes on. */
  open(): Promise<void>;
  /** Given before the first prepared search, if there are vectors of words. */
  useWords(words: WordVectors): void;
  /**
   * What is added to the scores of tools that `accept` returns true for, by their names in lower case. A tool that says all of
   * the query has about 1.
   */
  near(query: string, accept: (name: string) => boolean): ReadonlyMap<string, number>;
}

/** The search over the tools of a rack: the index, and what is not in it yet. */
export class ToolSearch {
  readonly #settings: SearchSettings;
  #index: ToolIndex;
  helper: SearchHelper | undefined;
  /** Tools that are not in the index yet, or, without a document, are still in it and shall not be. */
  readonly #pending = new Map<string, (() => SearchDocument) | undefined>();

  constructor(settings: SearchSettings) {
    this.#settings = settings;
    this.#index = new ToolIndex();
  }

  /** The document is made when the next search needs it. */
  put(key: string, document: () => SearchDocument): void {
    this.#pending.set(key, document);
  }

  /** It leaves the index before the next search, so that removing very many tools at once holds nobody up. */
  remove(key: string): void {
    if (this.#index.has(key)) this.#pending.set(key, undefined);
    else this.#pending.delete(key);
  }

  /** Returns whether it forgot tools that were in the index already: then all must be put again. */
  useWords(words: WordVectors): boolean {
    const hasForgotten = this.#index.size > 0;
    this.#index = new ToolIndex(words);
    this.helper?.useWords(words);
    return hasForgotten;
  }

  /** Brings into the index what has changed since the last search, in steps of a few milliseconds. */
  *indexSteps(): Generator<void, void> {
    let changed = 0;
    for (const [key, document] of this.#pending) {
      this.#pending.delete(key);
      const made = document?.();
      if (made) this.#index.add(made);
      else this.#index.remove(key);
      if (++changed % INDEXED_AT_ONCE > 0) continue;
      // While there are few tools, searches let V8 compile their code: else the first one of 50,000 tools takes 30 ms
      // instead of 10.
      if (made && changed <= WARMED_UP) this.#index.search(made.name, { limit: 1, accept: () => true });
      yield;
    }
  }

  /** The keys of at most `limit` tools that `accept` returns true for, the best first. */
  find(query: string, limit: number, accept: (key: string) => boolean): string[] {
    for (const _ of this.indexSteps());
    const { intents } = this.#settings;
    const bonus = this.helper?.near(query, accept);
    return this.#index.search(query, { limit, accept, intents, bonus }).map(({ key }) => key);
  }
}

/** How many tools one step adds to the index, or removes from it. */
const INDEXED_AT_ONCE = 64;
const WARMED_UP = 4_096;
