import { DefinitionError } from "../tool/define.ts";
import { canonicalName, withoutHash } from "../tool/name.ts";
import type { RegistryReader, RegistryStats, ToolInfo } from "../tool/types.ts";
import { fold, type ToolEntry } from "./entry.ts";
import type { SearchDocument, WordVectors } from "./search/search-document.ts";
import type { ToolSearch } from "./search/tool-search.ts";

/**
 * The tools and the indexes over them. The registry changes its catalog in place until a snapshot uses it;
 * then the registry makes the next change in a clone. Search covers enabled tools only.
 */
export class Catalog {
  /** Tools by lower-case name, in order of registration. */
  #entries = new LayeredMap<string, ToolEntry>(16);
  /** Tools by exact name and alias, for fast lookups. */
  #exact = new LayeredMap<string, ToolEntry>(14);
  /** Tools by lower-case name and alias, for uniqueness and for lookups without regard to case. */
  #folded = new LayeredMap<string, ToolEntry>(12);
  /** All catalogs of a rack share it, and it follows the newest of them. */
  readonly #search: ToolSearch;
  #all: readonly ToolInfo[] | undefined;
  #enabled: readonly ToolInfo[] | undefined;
  /** All tools by name, as they were before the changes in `#unsorted`. Never changed, because copies share it. */
  #sorted: readonly ToolInfo[] | undefined;
  /** The tools that came since, and undefined for those that went, by name. */
  #unsorted = new Map<string, ToolInfo | undefined>();

  constructor(search: ToolSearch) {
    this.#search = search;
  }

  /** From now on, the search index follows the copy. */
  clone(): Catalog {
    const copy = new Catalog(this.#search);
    copy.#entries = this.#entries.copy();
    copy.#exact = this.#exact.copy();
    copy.#folded = this.#folded.copy();
    copy.#sorted = this.#sorted;
    copy.#unsorted = new Map(this.#unsorted);
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
    this.#search.remove(entry.key);
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
   * Enabled tools that fit the query, best first; only those for which `isThere` returns true. In a catalog that is older
   * than the newest one, tools that have changed since are found by what they say now.
   */
  search(query: string, limit: number, isThere: (info: ToolInfo) => boolean = () => true): ToolInfo[] {
    const infoOf = (key: string) => {
      const info = this.#entries.get(key)?.info;
      return info === undefined || info.disabled || !isThere(info) ? undefined : info;
    };
    const found = this.#search.find(query, limit, (key) => infoOf(key) !== undefined);
    return found.flatMap((key) => infoOf(key) ?? []);
  }

  /** From now on, tools are found by what words mean too. Must be called on the newest catalog. */
  useWords(words: WordVectors): void {
    // Before the first search nothing is in the index. Putting 50,000 tools again takes 20 ms.
    if (!this.#search.useWords(words)) return;
    for (const entry of this.#entries.values())
      if (!entry.info.disabled) this.#search.put(entry.key, () => toDocument(entry));
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
    if (!info.disabled) this.#search.put(entry.key, () => toDocument(entry));
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
  return {
    key,
    name: originalName(info),
    aliases,
    title,
    displayName,
    description,
    tags,
    category,
    parameters: () => schema.jsonSchema(),
  };
}

/**
 * The name that the tool's author wrote. Where it is not known whole, the rack's name without the hash that the rack put
 * into it: nobody searches for that.
 */
function originalName({ name, aliases = [] }: ToolInfo): string {
  return aliases.find((alias) => canonicalName(alias) === name) ?? withoutHash(name);
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

  /** Enabled tools that fit the query, best first; with `isThere`, only those for which it returns true. */
  search(query: string, limit = USUAL_LIMIT, isThere?: (info: ToolInfo) => boolean): ToolInfo[] {
    return this.catalog.search(query, limit, isThere);
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

/**
 * A map whose copies cost little however large it is: a copy shares the large part, which never changes any more, and
 * has its own changes beside it. Iterates like a `Map`: in order of insertion, and a value that is replaced keeps its
 * place.
 */
export class LayeredMap<Key, Value> {
  readonly #mostChanges: number;
  /** Shared with copies once `#isShared`; changed in place before that. */
  #base = new Map<Key, Value>();
  #isShared = false;
  /** Whether there may be changes beside the large part. */
  #isChanged = false;
  readonly #added = new Map<Key, Value>();
  readonly #replaced = new Map<Key, Value>();
  readonly #removed = new Set<Key>();

  /**
   * The large part is shared while the changes are fewer than one in `mostChanges` of its members. Maps that change together
   * differ in it, so that they do not all get new large parts at one time.
   */
  constructor(mostChanges: number) {
    this.#mostChanges = mostChanges;
  }

  copy(): LayeredMap<Key, Value> {
    const copy = new LayeredMap<Key, Value>(this.#mostChanges);
    this.#isShared = true;
    copy.#base = this.#base;
    copy.#isShared = true;
    copy.#isChanged = this.#isChanged;
    for (const [key, value] of this.#added) copy.#added.set(key, value);
    for (const [key, value] of this.#replaced) copy.#replaced.set(key, value);
    for (const key of this.#removed) copy.#removed.add(key);
    return copy;
  }

  get size(): number {
    return this.#base.size - this.#removed.size + this.#added.size;
  }

  get(key: Key): Value | undefined {
    return this.#isChanged ? this.#find(key) : this.#base.get(key);
  }

  #find(key: Key): Value | undefined {
    if (this.#added.has(key)) return this.#added.get(key);
    if (this.#replaced.has(key)) return this.#replaced.get(key);
    return this.#removed.has(key) ? undefined : this.#base.get(key);
  }

  set(key: Key, value: Value): void {
    if (!this.#isShared) {
      this.#base.set(key, value);
      return;
    }
    this.#isChanged = true;
    if (this.#base.has(key) && !this.#removed.has(key)) this.#replaced.set(key, value);
    else this.#added.set(key, value);
    this.#mergeMany();
  }

  delete(key: Key): void {
    if (!this.#isShared) {
      this.#base.delete(key);
      return;
    }
    this.#isChanged = true;
    if (this.#added.delete(key)) return;
    this.#replaced.delete(key);
    if (this.#base.has(key)) this.#removed.add(key);
    this.#mergeMany();
  }

  /** With many changes, a large part of one's own costs less than asking for the changes at every look-up and copying them. */
  #mergeMany(): void {
    const changes = this.#added.size + this.#replaced.size + this.#removed.size;
    if (changes * this.#mostChanges <= this.#base.size) return;
    // A map is copied whole in a fraction of the time that it takes to go through its members.
    this.#base = new Map(this.#base);
    for (const key of this.#removed) this.#base.delete(key);
    for (const [key, value] of this.#replaced) this.#base.set(key, value);
    for (const [key, value] of this.#added) this.#base.set(key, value);
    this.#isShared = false;
    this.#isChanged = false;
    for (const changed of [this.#removed, this.#replaced, this.#added]) changed.clear();
  }

  /** Without changes, the large part itself is gone through: for 50,000 tools that takes 3 ms instead of 30. */
  [Symbol.iterator](): IterableIterator<[Key, Value]> {
    return this.#isChanged ? this.#merged() : this.#base.entries();
  }

  keys(): IterableIterator<Key> {
    return this.#isChanged ? membersOf(this.#merged(), 0) : this.#base.keys();
  }

  values(): IterableIterator<Value> {
    return this.#isChanged ? membersOf(this.#merged(), 1) : this.#base.values();
  }

  *#merged(): Generator<[Key, Value]> {
    for (const entry of this.#base) {
      const [key] = entry;
      if (this.#removed.has(key)) continue;
      // The key is known to be there, so its value has the right type even where that allows undefined.
      yield this.#replaced.has(key) ? [key, this.#replaced.get(key) as Value] : entry;
    }
    yield* this.#added;
  }
}

function* membersOf<Pair extends readonly [unknown, unknown], At extends 0 | 1>(
  pairs: Iterable<Pair>,
  at: At,
): Generator<Pair[At]> {
  for (const pair of pairs) yield pair[at];
}
