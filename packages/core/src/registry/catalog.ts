import { DefinitionError } from "../tool/define.ts";
import { canonicalName } from "../tool/name.ts";
import type { RegistryReader, RegistryStats, ToolInfo } from "../tool/types.ts";
import { fold, type ToolEntry } from "./entry.ts";
import { LayeredMap } from "./layered-map.ts";
import type { SearchDocument } from "./search/search-document.ts";
import { ToolIndex } from "./search/tool-index.ts";

/**
 * The tools and the indexes over them. The registry changes its catalog in place until a snapshot uses it;
 * then the registry makes the next change in a clone. Search covers enabled tools only.
 */
export class Catalog {
  /** Tools by lower-case name, in order of registration. */
  #entries = new LayeredMap<string, ToolEntry>();
  /** Tools by exact name and alias, for fast lookups. */
  #exact = new LayeredMap<string, ToolEntry>();
  /** Tools by lower-case name and alias, for uniqueness and for lookups without regard to case. */
  #folded = new LayeredMap<string, ToolEntry>();
  /** Made at the first search. All catalogs of a rack share it, and it follows the newest of them. */
  #search: SearchState | undefined;
  #all: readonly ToolInfo[] | undefined;
  #enabled: readonly ToolInfo[] | undefined;
  /** All tools by name, as they were before the changes in `#unsorted`. Never changed, because copies share it. */
  #sorted: readonly ToolInfo[] | undefined;
  /** The tools that came since, and undefined for those that went, by name. */
  #unsorted = new Map<string, ToolInfo | undefined>();

  /** From now on, the search index follows the copy. */
  clone(): Catalog {
    const copy = new Catalog();
    copy.#entries = this.#entries.copy();
    copy.#exact = this.#exact.copy();
    copy.#folded = this.#folded.copy();
    copy.#sorted = this.#sorted;
    copy.#unsorted = new Map(this.#unsorted);
    copy.#search = this.#search;
    return copy;
  }

  get size(): number {
    return this.#entries.size;
  }

  find(name: string): ToolEntry | undefined {
    return this.#exact.get(name) ?? this.#folded.get(fold(name));
  }

  /** Throws `DefinitionError` and changes nothing when a name is taken. */
  add(entry: ToolEntry): void {
    for (const key of entry.keys()) this.#refuseTaken(key, entry, undefined);
    this.#insert(entry);
  }

  /** Replaces a tool. Throws and changes nothing when a new name is taken. */
  replace(old: ToolEntry, entry: ToolEntry): void {
    for (const key of entry.keys()) this.#refuseTaken(key, entry, old);
    this.suspend(old);
    this.#insert(entry);
    this.drop(old);
  }

  /**
   * Removes a tool from every index but keeps its place in the order of registration for a tool that replaces
   * it.
   */
  suspend(entry: ToolEntry): void {
    const { info } = entry;
    this.#forgetLists();
    this.#exact.delete(info.name);
    for (const alias of info.aliases ?? []) this.#exact.delete(alias);
    for (const key of entry.keys()) this.#folded.delete(key);
    this.#noteUnsorted(info.name, undefined);
    const state = this.#search;
    if (state !== undefined && !state.pending.delete(entry.key)) state.index.remove(entry.key);
  }

  /** Frees the place of a suspended tool, unless another tool has taken that place. */
  drop(entry: ToolEntry): void {
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key);
    this.#forgetLists();
  }

  all(): readonly ToolInfo[] {
    this.#all ??= [...this.#entries.values()].map((entry) => entry.info);
    return this.#all;
  }

  enabled(): readonly ToolInfo[] {
    this.#enabled ??= this.all().filter((info) => !info.disabled);
    return this.#enabled;
  }

  /** Every tool, sorted by name. After a change of a few tools, only these are sorted in. */
  sorted(): readonly ToolInfo[] {
    if (this.#sorted === undefined || this.#unsorted.size > MOST_SORTED_IN) {
      this.#sorted = this.all().toSorted(byName);
    } else if (this.#unsorted.size > 0) {
      const sorted = [...this.#sorted];
      for (const [name, info] of this.#unsorted) {
        const at = placeOf(name, sorted);
        const isThere = sorted[at]?.name === name;
        if (info === undefined) sorted.splice(at, isThere ? 1 : 0);
        else sorted.splice(at, isThere ? 1 : 0, info);
      }
      this.#sorted = sorted;
    }
    this.#unsorted.clear();
    return this.#sorted;
  }

  /**
   * Enabled tools that fit the query, best first. In a catalog that is older than the newest one, tools that have
   * changed since are found by what they say now.
   */
  search(query: string, limit: number): ToolInfo[] {
    for (const _ of this.indexSteps());
    const found = this.#searchState().index.search(query, { limit });
    return found.flatMap(({ key }) => {
      const info = this.#entries.get(key)?.info;
      return info === undefined || info.disabled ? [] : info;
    });
  }

  /** Adds to the index what has come since the last search, in steps of a few milliseconds. */
  *indexSteps(): Generator<void, void> {
    const { index, pending } = this.#searchState();
    let added = 0;
    for (const [key, entry] of pending) {
      pending.delete(key);
      index.add(toDocument(entry));
      if (++added % INDEXED_AT_ONCE === 0) yield;
    }
  }

  #searchState(): SearchState {
    if (this.#search === undefined) {
      this.#search = { index: new ToolIndex(), pending: new Map() };
      for (const entry of this.#entries.values())
        if (!entry.info.disabled) this.#search.pending.set(entry.key, entry);
    }
    return this.#search;
  }

  names(): Iterable<string> {
    return this.#exact.keys();
  }

  #insert(entry: ToolEntry): void {
    const { info } = entry;
    this.#forgetLists();
    this.#entries.set(entry.key, entry);
    this.#exact.set(info.name, entry);
    for (const alias of info.aliases ?? []) this.#exact.set(alias, entry);
    for (const key of entry.keys()) this.#folded.set(key, entry);
    this.#noteUnsorted(info.name, info);
    if (!info.disabled) this.#search?.pending.set(entry.key, entry);
  }

  #noteUnsorted(name: string, info: ToolInfo | undefined): void {
    if (this.#sorted === undefined) return;
    this.#unsorted.set(name, info);
    if (this.#unsorted.size <= MOST_SORTED_IN) return;
    this.#sorted = undefined;
    this.#unsorted.clear();
  }

  #forgetLists(): void {
    this.#all = undefined;
    this.#enabled = undefined;
  }

  #refuseTaken(key: string, entry: ToolEntry, except: ToolEntry | undefined): void {
    const holder = this.#folded.get(key);
    if (holder === undefined || holder === except) return;
    throw new DefinitionError(
      `The name "${key}" is taken: ${describe(holder.info)} has it, so ${describe(entry.info)} was not registered. ` +
        "Rename one of them, or unregister the first.",
      "name",
    );
  }
}

interface SearchState {
  readonly index: ToolIndex;
  /** Enabled tools that are not in the index yet. */
  readonly pending: Map<string, ToolEntry>;
}

/** How many tools one step adds to the index. */
const INDEXED_AT_ONCE = 64;
/** With more changes, all tools are sorted anew. */
const MOST_SORTED_IN = 64;

function byName(one: ToolInfo, other: ToolInfo): number {
  return one.name < other.name ? -1 : 1;
}

/** Where a tool with this name is, or would be, in a sorted list. */
function placeOf(name: string, sorted: readonly ToolInfo[]): number {
  let from = 0;
  let to = sorted.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (sorted[middle]!.name < name) from = middle + 1;
    else to = middle;
  }
  return from;
}

function toDocument({ key, info, schema }: ToolEntry): SearchDocument {
  const { aliases, title, displayName, description } = info;
  const { tags, category } = info.metadata;
  // If the tool's name was rewritten, search uses the author's original name, not the one with the hash in
  // it.
  const name = aliases?.find((alias) => canonicalName(alias) === info.name) ?? info.name;
  return {
    key,
    name,
    aliases,
    title,
    displayName,
    description,
    tags,
    category,
    parameters: () => schema.jsonSchema(),
  };
}

function describe({ name, origin }: ToolInfo): string {
  return origin === undefined ? `the tool "${name}"` : `the tool "${name}" (${origin})`;
}

/** How many tools a search returns by default. */
export const USUAL_LIMIT = 20;

/** The reads that the rack and its snapshots have in common. */
export abstract class CatalogReader implements RegistryReader {
  protected abstract readonly catalog: Catalog;

  get(name: string): ToolInfo | undefined {
    return this.catalog.find(name)?.info;
  }

  /** Every tool, disabled ones too, in order of registration. */
  getAll(): ToolInfo[] {
    return [...this.catalog.all()];
  }

  /** Every tool, disabled ones too, sorted by name. The same list until a tool changes; it must not be changed. */
  sorted(): readonly ToolInfo[] {
    return this.catalog.sorted();
  }

  /** Enabled tools, all or of one category. */
  list(category?: string): ToolInfo[] {
    const enabled = this.catalog.enabled();
    return category === undefined
      ? [...enabled]
      : enabled.filter((info) => info.metadata.category === category);
  }

  /** Enabled tools that fit the query, best first. */
  search(query: string, limit = USUAL_LIMIT): ToolInfo[] {
    return this.catalog.search(query, limit);
  }

  /** Enabled tools with the tag. */
  findByTag(tag: string): ToolInfo[] {
    return this.catalog
      .enabled()
      .filter(({ metadata: { tags } }) => Array.isArray(tags) && tags.includes(tag));
  }

  getStats(): RegistryStats {
    const enabled = this.catalog.enabled();
    const categories: Record<string, number> = {};
    for (const { metadata } of enabled) {
      if (typeof metadata.category !== "string") continue;
      categories[metadata.category] = (categories[metadata.category] ?? 0) + 1;
    }
    const totalTools = this.catalog.size;
    return { totalTools, disabledTools: totalTools - enabled.length, categories };
  }
}

/** The rack at one moment. Immutable; a later snapshot has a higher version. */
export class RegistrySnapshot extends CatalogReader {
  readonly version: number;
  protected readonly catalog: Catalog;

  constructor(catalog: Catalog, version: number) {
    super();
    this.catalog = catalog;
    this.version = version;
  }

  find(name: string): ToolEntry | undefined {
    return this.catalog.find(name);
  }
}
