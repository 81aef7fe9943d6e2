import type { SearchHelper, WordVectors } from "@toolrack/core";
import { ToolIndex } from "@toolrack/core/internal";

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
export class PastSearches implements SearchHelper {
  readonly #open: (past: PastSearches) => Promise<void>;
  #index = new ToolIndex();
  /** By id, with the names of tools in lower case. */
  readonly #searches = new Map<string, PastSearch>();
  #version = 0;

  /** `open` is awaited before the first search: it adds what was learned before. */
  constructor(open: (past: PastSearches) => Promise<void> = async () => {}) {
    this.#open = open;
  }

  get version(): number {
    return this.#version;
  }

  open(): Promise<void> {
    return this.#open(this);
  }

  useWords(words: WordVectors): void {
    this.#index = new ToolIndex(words);
    for (const { id, query } of this.#searches.values())
      this.#index.add({ key: id, name: "", description: query });
  }

  /** A search with a known id replaces the one before. */
  add(searches: Iterable<PastSearch>): void {
    for (const { id, query, toolName } of searches) {
      const tool = toolName.toLowerCase();
      const known = this.#searches.get(id);
      if (known?.query === query && known.toolName === tool) continue;
      this.#searches.set(id, { id, query, toolName: tool });
      this.#index.add({ key: id, name: "", description: query });
      this.#version++;
    }
  }

  /** Forgets all searches but these. */
  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of this.#searches.keys()) {
      if (ids.has(id)) continue;
      this.#index.remove(id);
      this.#searches.delete(id);
    }
    this.#version++;
  }

  /**
   * A tool gets the more, the more the search that led to it is like this one. Only the nearest of its searches counts, and
   * few are looked at, so that many searches for one tool do not crowd out those for others.
   */
  near(query: string, accept: (name: string) => boolean): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    if (this.#searches.size === 0) return found;
    const perTool = new Map<string, number>();
    const isNeighbour = memoized((id) => {
      const { toolName } = this.#searches.get(id)!;
      const count = perTool.get(toolName) ?? 0;
      perTool.set(toolName, count + 1);
      return count < MOST_OF_TOOL && accept(toolName);
    });
    for (const { key, likeness } of this.#index.alike(query, MOST_NEIGHBOURS, isNeighbour)) {
      const { toolName } = this.#searches.get(key)!;
      const more = LEARNED_WEIGHT * Math.max(0, likeness - LEAST_LIKENESS);
      if (more > (found.get(toolName) ?? 0)) found.set(toolName, more);
    }
    return found;
  }
}

/** The index may ask about one search several times. */
function memoized(decide: (id: string) => boolean): (id: string) => boolean {
  const known = new Map<string, boolean>();
  return (id) => {
    const decided = known.get(id) ?? decide(id);
    known.set(id, decided);
    return decided;
  };
}

const MOST_NEIGHBOURS = 12;
const MOST_OF_TOOL = 3;
const LEARNED_WEIGHT = 1;
/** Searches that are less like the query say nothing about it. */
const LEAST_LIKENESS = 0.3;
