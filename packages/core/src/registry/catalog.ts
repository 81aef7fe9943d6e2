import { DefinitionError } from "../tool/define.ts";
import { canonicalName } from "../tool/name.ts";
import type { RegistryReader, RegistryStats, ToolInfo } from "../tool/types.ts";
import { fold, type ToolEntry } from "./entry.ts";
import type { SearchDocument } from "./search/search-document.ts";
import { ToolIndex } from "./search/tool-index.ts";

type Group = Map<string, ToolEntry>;

/**
 * The tools and all indexes over them. It is changed in place while only the registry holds it; after a snapshot the
 * registry clones it before the next change. Categories, tags and search cover enabled tools only.
 */
export class Catalog {
  /** By folded name, in order of registration. */
  readonly #entries: Group;
  /** By exact name and alias, for fast lookups. */
  readonly #exact: Group;
  /** By folded name and alias, for uniqueness and lookups without regard to case. */
  readonly #folded: Group;
  readonly #categories: Map<string, Group>;
  readonly #tags: Map<string, Group>;
  #disabled: number;
  #index: ToolIndex | undefined;
  #all: readonly ToolInfo[] | undefined;

  constructor(from?: Catalog) {
    if (from === undefined) {
      this.#entries = new Map();
      this.#exact = new Map();
      this.#folded = new Map();
      this.#categories = new Map();
      this.#tags = new Map();
      this.#disabled = 0;
      return;
    }
    this.#entries = new Map(from.#entries);
    this.#exact = new Map(from.#exact);
    this.#folded = new Map(from.#folded);
    this.#categories = copyGroups(from.#categories);
    this.#tags = copyGroups(from.#tags);
    this.#disabled = from.#disabled;
    // The search index moves to the newest catalog; an older one builds its own if it is searched.
    this.#index = from.#index;
    from.#index = undefined;
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
    if (old.key !== entry.key) {
      this.remove(old);
      this.#insert(entry);
      return;
    }
    this.#unlink(old);
    this.#insert(entry);
  }

  remove(entry: ToolEntry): void {
    this.#unlink(entry);
    this.#entries.delete(entry.key);
  }

  /** Removes a tool from every index but keeps its position for a successor. */
  suspend(entry: ToolEntry): void {
    this.#unlink(entry);
  }

  /** Gives up the position of a suspended tool. */
  drop(entry: ToolEntry): void {
    if (this.#entries.get(entry.key) === entry) this.#entries.delete(entry.key);
    this.#all = undefined;
  }

  all(): readonly ToolInfo[] {
    this.#all ??= [...this.#entries.values()].map((entry) => entry.info);
    return this.#all;
  }

  enabled(): ToolInfo[] {
    return this.#disabled === 0 ? [...this.all()] : this.all().filter((info) => !info.disabled);
  }

  inCategory(category: string): ToolInfo[] {
    return infos(this.#categories.get(category));
  }

  withTag(tag: string): ToolInfo[] {
    return infos(this.#tags.get(tag));
  }

  search(query: string, limit: number): ToolInfo[] {
    this.#index ??= this.#buildIndex();
    const found = this.#index.search(query, { limit });
    return found.flatMap(({ key }) => this.#entries.get(key)?.info ?? []);
  }

  names(): Iterable<string> {
    return this.#exact.keys();
  }

  stats(): RegistryStats {
    const categories = Object.fromEntries([...this.#categories].map(([name, group]) => [name, group.size]));
    return { totalTools: this.size, disabledTools: this.#disabled, categories };
  }

  #insert(entry: ToolEntry): void {
    const { info } = entry;
    this.#all = undefined;
    this.#entries.set(entry.key, entry);
    this.#exact.set(info.name, entry);
    for (const alias of info.aliases ?? []) this.#exact.set(alias, entry);
    for (const key of entry.keys()) this.#folded.set(key, entry);
    if (info.disabled) {
      this.#disabled++;
      return;
    }
    for (const [groups, name] of this.#groupsOf(info)) addToGroup(groups, name, entry);
    this.#index?.add(toDocument(entry));
  }

  /** Removes the tool from every index but keeps its position. */
  #unlink(entry: ToolEntry): void {
    const { info } = entry;
    this.#all = undefined;
    this.#exact.delete(info.name);
    for (const alias of info.aliases ?? []) this.#exact.delete(alias);
    for (const key of entry.keys()) this.#folded.delete(key);
    if (info.disabled) {
      this.#disabled--;
      return;
    }
    for (const [groups, name] of this.#groupsOf(info)) removeFromGroup(groups, name, entry.key);
    this.#index?.remove(entry.key);
  }

  #groupsOf(info: ToolInfo): [Map<string, Group>, string][] {
    const { category, tags } = info.metadata;
    const groups: [Map<string, Group>, string][] = [];
    if (typeof category === "string") groups.push([this.#categories, category]);
    if (Array.isArray(tags)) for (const tag of tags) groups.push([this.#tags, String(tag)]);
    return groups;
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
  // A rewritten name is found by its author's words, not by the hash in it.
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

function infos(group: Group | undefined): ToolInfo[] {
  return group === undefined ? [] : [...group.values()].map((entry) => entry.info);
}

function addToGroup(groups: Map<string, Group>, name: string, entry: ToolEntry): void {
  const group = groups.get(name);
  if (group === undefined) groups.set(name, new Map([[entry.key, entry]]));
  else group.set(entry.key, entry);
}

function removeFromGroup(groups: Map<string, Group>, name: string, key: string): void {
  const group = groups.get(name);
  group?.delete(key);
  if (group?.size === 0) groups.delete(name);
}

function copyGroups(groups: Map<string, Group>): Map<string, Group> {
  return new Map([...groups].map(([name, group]) => [name, new Map(group)]));
}

/** How many tools a search returns by default. */
export const USUAL_LIMIT = 20;

/** The rack at one moment. Immutable; a later snapshot has a higher version. */
export class RegistrySnapshot implements RegistryReader {
  readonly version: number;
  readonly #catalog: Catalog;

  constructor(catalog: Catalog, version: number) {
    this.#catalog = catalog;
    this.version = version;
  }

  get(name: string): ToolInfo | undefined {
    return this.#catalog.find(name)?.info;
  }

  getAll(): ToolInfo[] {
    return [...this.#catalog.all()];
  }

  /** Enabled tools, all or of one category. */
  list(category?: string): ToolInfo[] {
    return category === undefined ? this.#catalog.enabled() : this.#catalog.inCategory(category);
  }

  search(query: string, limit = USUAL_LIMIT): ToolInfo[] {
    return this.#catalog.search(query, limit);
  }

  findByTag(tag: string): ToolInfo[] {
    return this.#catalog.withTag(tag);
  }

  getStats(): RegistryStats {
    return this.#catalog.stats();
  }

  find(name: string): ToolEntry | undefined {
    return this.#catalog.find(name);
  }
}
