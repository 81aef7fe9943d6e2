import type { Logger } from "@toolrack/core";
import {
  type CompletionAnswer,
  type CompletionRequest,
  isReservedFrom,
  type OfferedDirectory,
  type OfferedPrompt,
  type OfferedResource,
  type OfferedSkill,
  type OfferedTemplate,
  type OfferingChange,
  type OfferingReader,
  type OfferingSource,
  type PromptAnswer,
  type ResourceAnswer,
} from "./offering-source.ts";
import { bestFit, isUsableTemplate } from "./uri-templates.ts";

/**
 * The prompts, resources and skills of all sources. Lists are in the same order whenever the same things are there.
 * Of two that claim one name or URI, the one whose source's key comes first is listed and answers. Who lists a URI comes
 * before who linked to it in a result, the last one first, and both come before who only has a template that it fits: of
 * those, the one whose template has the most text of its own comes first.
 */
export class Offerings {
  readonly #logger: Logger;
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  readonly #unsubscribe = new Map<string, () => void>();
  readonly #watched = new Map<string, { watchers: number; stop: () => void }>();
  #sources: readonly OfferingSource[] = [];

  constructor({ logger }: { readonly logger: Logger }) {
    this.#logger = logger;
  }

  /** A source of the same key is replaced. */
  add(source: OfferingSource): void {
    this.#unsubscribe.get(source.key)?.();
    const others = this.#sources.filter(({ key }) => key !== source.key);
    this.#sources = [...others, source].sort((one, other) => (one.key < other.key ? -1 : 1));
    this.#unsubscribe.set(source.key, source.subscribe?.((change) => this.#tell(change)) ?? (() => {}));
    this.#tellOf(source);
  }

  remove(key: string): void {
    const source = this.#sources.find((candidate) => candidate.key === key);
    if (source === undefined) return;
    this.#unsubscribe.get(key)?.();
    this.#unsubscribe.delete(key);
    this.#sources = this.#sources.filter((candidate) => candidate !== source);
    this.#tellOf(source);
  }

  prompts(reader: OfferingReader): Promise<OfferedPrompt[]> {
    return this.#list(
      "prompts",
      (source) => source.prompts?.(reader),
      ({ name }) => name,
    );
  }

  resources(reader: OfferingReader): Promise<OfferedResource[]> {
    return this.#list(
      "resources",
      (source) => this.#resourcesOf(source, reader),
      ({ uri }) => uri,
    );
  }

  resourceTemplates(reader: OfferingReader): Promise<OfferedTemplate[]> {
    return this.#list(
      "resource templates",
      (source) => this.#templatesOf(source, reader),
      ({ uriTemplate }) => uriTemplate,
    );
  }

  skills(reader: OfferingReader): Promise<OfferedSkill[]> {
    return this.#list(
      "skills",
      (source) => source.skills?.(reader),
      ({ uri }) => uri,
    );
  }

  /** Undefined when no source has it. */
  getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    return this.#first((source) => source.getPrompt?.(name, args, reader));
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    for await (const source of this.#claimants(uri, reader)) {
      const answer = await source.readResource?.(uri, reader);
      if (answer !== undefined) return answer;
    }
    return undefined;
  }

  complete(request: CompletionRequest, reader: OfferingReader): Promise<CompletionAnswer | undefined> {
    return this.#first((source) => source.complete?.(request, reader));
  }

  readDirectory(uri: string, reader: OfferingReader): Promise<OfferedDirectory | undefined> {
    return this.#first((source) => source.readDirectory?.(uri, reader));
  }

  async getSkill(uri: string, reader: OfferingReader): Promise<OfferedSkill | undefined> {
    const skills = await this.skills(reader);
    return skills.find((skill) => skill.uri === uri);
  }

  /**
   * Tells of changes of this resource until the function that it answers is called. Undefined when the reader has no
   * such resource.
   */
  async watchResource(uri: string, reader: OfferingReader): Promise<(() => void) | undefined> {
    let isThere = false;
    for await (const source of this.#claimants(uri, reader)) {
      isThere = true;
      const stop = this.#watch(source, uri);
      if (stop !== undefined) return stop;
    }
    // What nobody tells of may be waited for all the same.
    return isThere ? () => {} : undefined;
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stops listening to the sources. */
  close(): void {
    for (const stop of this.#unsubscribe.values()) stop();
    for (const { stop } of this.#watched.values()) stop();
    this.#unsubscribe.clear();
    this.#watched.clear();
    this.#listeners.clear();
  }

  /** A source is asked once for each URI, however many wait for it. */
  #watch(source: OfferingSource, uri: string): (() => void) | undefined {
    const key = `${source.key} ${uri}`;
    let watched = this.#watched.get(key);
    if (watched === undefined) {
      const stop = source.watchResource?.(uri);
      if (stop === undefined) return undefined;
      watched = { watchers: 0, stop };
      this.#watched.set(key, watched);
    }
    const counted = watched;
    counted.watchers++;
    let isWatching = true;
    return () => {
      if (!isWatching) return;
      isWatching = false;
      counted.watchers--;
      if (counted.watchers > 0) return;
      this.#watched.delete(key);
      counted.stop();
    };
  }

  /** One source that fails leaves the lists of the others whole. */
  async #list<Item>(
    what: string,
    from: (source: OfferingSource) => readonly Item[] | Promise<readonly Item[]> | undefined,
    keyOf: (item: Item) => string,
  ): Promise<Item[]> {
    const lists = await Promise.all(
      this.#sources.map((source) => this.#tried(what, source, () => from(source))),
    );
    const items = new Map<string, Item>();
    for (const item of lists.flat()) if (!items.has(keyOf(item))) items.set(keyOf(item), item);
    return [...items.values()];
  }

  async #tried<Item>(
    what: string,
    { key }: OfferingSource,
    list: () => readonly Item[] | Promise<readonly Item[]> | undefined,
  ): Promise<readonly Item[]> {
    try {
      return (await list()) ?? [];
    } catch (thrown) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      this.#logger.warn(`The ${what} of ${key} could not be listed: ${reason}`);
      return [];
    }
  }

  /** The sources that may have what is at this address, the likelier first. */
  async *#claimants(uri: string, reader: OfferingReader): AsyncGenerator<OfferingSource> {
    const able = this.#sources.filter((source) => mayHave(source, uri));
    const asked = new Set<OfferingSource>();
    for (const source of able) {
      const resources = await this.#tried("resources", source, () => this.#resourcesOf(source, reader));
      if (!resources.some((resource) => resource.uri === uri)) continue;
      asked.add(source);
      yield source;
    }
    for (const source of linking(able, uri, reader)) {
      if (asked.has(source)) continue;
      asked.add(source);
      yield source;
    }
    const fitting: { readonly source: OfferingSource; readonly fit: number }[] = [];
    for (const source of able) {
      if (asked.has(source)) continue;
      const what = "resource templates";
      const templates = await this.#tried(what, source, () => this.#templatesOf(source, reader));
      const fit = bestFit(
        templates.map(({ uriTemplate }) => uriTemplate),
        uri,
      );
      if (fit !== undefined) fitting.push({ source, fit });
    }
    // Equal ones stay in the order of the sources.
    for (const { source } of fitting.sort((one, other) => other.fit - one.fit)) yield source;
  }

  async #resourcesOf(source: OfferingSource, reader: OfferingReader): Promise<readonly OfferedResource[]> {
    const resources = (await source.resources?.(reader)) ?? [];
    return resources.filter(({ uri }) => mayHave(source, uri));
  }

  async #templatesOf(source: OfferingSource, reader: OfferingReader): Promise<readonly OfferedTemplate[]> {
    const templates = (await source.resourceTemplates?.(reader)) ?? [];
    return templates.filter(
      ({ uriTemplate }) => isUsableTemplate(uriTemplate) && mayHave(source, uriTemplate),
    );
  }

  async #first<Answer>(
    from: (source: OfferingSource) => Promise<Answer | undefined> | undefined,
  ): Promise<Answer | undefined> {
    for (const source of this.#sources) {
      const answer = await from(source);
      if (answer !== undefined) return answer;
    }
    return undefined;
  }

  #tellOf(source: OfferingSource): void {
    if (source.prompts !== undefined) this.#tell({ kind: "prompts" });
    if (source.resources !== undefined || source.resourceTemplates !== undefined)
      this.#tell({ kind: "resources" });
    if (source.skills !== undefined) this.#tell({ kind: "skills" });
  }

  #tell(change: OfferingChange): void {
    for (const listener of this.#listeners) {
      try {
        listener(change);
      } catch (error) {
        this.#logger.error("A listener to prompts and resources failed:", error);
      }
    }
  }
}

function mayHave({ key }: OfferingSource, uri: string): boolean {
  return !isReservedFrom(key, uri);
}

/** Those whose results linked to the address, the last one first. */
function linking(sources: readonly OfferingSource[], uri: string, reader: OfferingReader): OfferingSource[] {
  return sources
    .flatMap((source) => {
      const at = source.linkedAt?.(uri, reader);
      return at === undefined ? [] : [{ source, at }];
    })
    .sort((one, other) => other.at - one.at)
    .map(({ source }) => source);
}
