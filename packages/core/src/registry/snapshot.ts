import type { ToolInfo } from "../tool/info.ts";
import type { Catalog } from "./catalog.ts";
import type { ToolEntry } from "./entry.ts";
import type { RegistryReader, RegistryStats } from "./view.ts";

/** How many tools a search answers with. */
export const USUAL_LIMIT = 20;

/** The rack at one moment. It never changes; a later registry has a higher version. */
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

  /** For the pipeline. */
  find(name: string): ToolEntry | undefined {
    return this.#catalog.find(name);
  }
}
