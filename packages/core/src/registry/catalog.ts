import { DefinitionError } from "../tool/define.ts";
import { canonicalName } from "../tool/name.ts";
import type { RegistryReader, RegistryStats, ToolInfo } from "../tool/types.ts";
import { fold, type ToolEntry } from "./entry.ts";
import type { SearchDocument } from "./search/search-document.ts";
import { ToolIndex } from "./search/tool-index.ts";

/**
 * The tools and the indexes over them. The registry changes its catalog in place until a snapshot uses it;
 * then the registry makes the next change in a clone. Search covers enabled tools only.
 */
export class Catalog {
  /** Tools by lower-case name, in order of registration. */
  #entries = new Map<string, ToolEntry>();
  /** Tools by exact name and alias, for fast lookups. */
  #exact = new Map<string, ToolEntry>();
  /** Tools by lower-case name and alias, for uniqueness and for lookups without regard to case. */
  #folded = new Map<string, ToolEntry>();
  #index: ToolIndex | undefined;
  #all: readonly ToolInfo[] | undefined;
  #enabled: readonly ToolInfo[] | undefined;

  /** The search index moves to the copy; this catalog builds another if it is searched. */
  clone(): Catalog {
    const copy = new Catalog();
    copy.#entries = new Map(this.#entries);
    copy.#exact = new Map(this.#exact);
    copy.#folded = new Map(this.#folded);
    copy.#index = this.#index;
    this.#index = undefined;
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
    if (!info.disabled) this.#index?.remove(entry.key);
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

  search(query: string, limit: number): ToolInfo[] {
    this.#index ??= this.#buildIndex();
    const found = this.#index.search(query, { limit });
    return found.flatMap(({ key }) => this.#entries.get(key)?.info ?? []);
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
    if (!info.disabled) this.#index?.add(toDocument(entry));
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

  #buildIndex(): ToolIndex {
    const index = new ToolIndex();
    for (const entry of this.#entries.values()) if (!entry.info.disabled) index.add(toDocument(entry));
    return index;
  }
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
