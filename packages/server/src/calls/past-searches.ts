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
    const toolOf = (id: string) => this.#searches.get(id)!.toolName;
    const perTool = new Map<string, number>();
    const isOfFew = (id: string) => {
      const count = perTool.get(toolOf(id)) ?? 0;
      perTool.set(toolOf(id), count + 1);
      return count < MOST_OF_TOOL;
    };
    const isUsable = (id: string) => accept(toolOf(id));
    for (const { key, likeness } of this.#index.alike(query, MOST_NEIGHBOURS, isUsable, isOfFew)) {
      const { toolName } = this.#searches.get(key)!;
      const more = LEARNED_WEIGHT * Math.max(0, likeness - LEAST_LIKENESS);
      if (more > (found.get(toolName) ?? 0)) found.set(toolName, more);
    }
    return found;
  }
}

const MOST_NEIGHBOURS = 12;
const MOST_OF_TOOL = 3;
const LEARNED_WEIGHT = 1;
/** Searches that are less like the query say nothing about it. */
const LEAST_LIKENESS = 0.3;
