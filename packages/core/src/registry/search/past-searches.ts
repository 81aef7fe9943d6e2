import type { WordVectors } from "./meaning.ts";
import { ToolIndex } from "./tool-index.ts";

/** A search that led to a tool. */
export interface PastSearch {
  readonly id: string;
  readonly query: string;
  readonly toolName: string;
}

/**
 * Searches that led to a tool. They are an index of their own: mixed into the texts of the tools, they would drown what the
 * tools say of themselves.
 */
export class PastSearches {
  #index = new ToolIndex();
  /** By id. */
  readonly #searches = new Map<string, PastSearch>();
  #version = 0;

  /** Grows with each change. */
  get version(): number {
    return this.#version;
  }

  /** A search with a known id replaces the one before. */
  add(searches: Iterable<PastSearch>): void {
    for (const { id, query, toolName } of searches) {
      const key = toolName.toLowerCase();
      const known = this.#searches.get(id);
      if (known?.query === query && known.toolName === key) continue;
      this.#searches.set(id, { id, query, toolName: key });
      this.#index.add(toDocument(id, query));
      this.#version++;
    }
  }

  clear(): void {
    for (const id of this.#searches.keys()) this.#index.remove(id);
    this.#searches.clear();
    this.#version++;
  }

  useWords(words: WordVectors): void {
    this.#index = new ToolIndex(words);
    for (const { id, query } of this.#searches.values()) this.#index.add(toDocument(id, query));
    this.#version++;
  }

  /** What the searches that are most like the query add to the scores of their tools, by the keys of the tools. */
  near(query: string): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    for (const { key, score } of this.#index.search(query, { limit: MOST_NEIGHBOURS, intents: false })) {
      const tool = this.#searches.get(key)!.toolName;
      const nearness = LEARNED_WEIGHT * Math.max(0, score - LEAST_SCORE);
      if (nearness > (found.get(tool) ?? 0)) found.set(tool, nearness);
    }
    return found;
  }
}

function toDocument(id: string, query: string) {
  return { key: id, name: "", description: query };
}

const MOST_NEIGHBOURS = 20;
const LEARNED_WEIGHT = 1;
/** Searches that are less like the query say nothing about it. */
const LEAST_SCORE = 0.3;
