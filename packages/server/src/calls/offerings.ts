import type { Logger } from "@toolrack/core";
import { reasonOf } from "../helpers/index.ts";
import {
  type CompletionAnswer,
  type CompletionRequest,
  isReservedFrom,
  type Listed,
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

type Lister<Item> = (source: OfferingSource) => Listed<Item> | undefined;

/**
 * The prompts, resources and skills of all sources, always listed in the same order. When two sources claim one name or
 * URI, the source whose key sorts first is listed and answers. A URI is read from the source that lists it; then from
 * the source that last linked to it in a result; then from the one whose matching template has the most literal text.
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

  add(source: OfferingSource): void {
    this.#unsubscribe.get(source.key)?.();
    const others = this.#sources.filter(({ key }) => key !== source.key);
    this.#sources = [...others, source].sort((one, other) => (one.key < other.key ? -1 : 1));
    this.#unsubscribe.set(source.key, source.subscribe?.((change) => this.#notify(change)) ?? (() => {}));
    this.#notifyAll(source);
  }

  remove(key: string): void {
    const source = this.#sources.find((candidate) => candidate.key === key);
    if (source === undefined) return;
    this.#unsubscribe.get(key)?.();
    this.#unsubscribe.delete(key);
    this.#sources = this.#sources.filter((candidate) => candidate !== source);
    this.#notifyAll(source);
  }

  prompts(reader: OfferingReader): Promise<OfferedPrompt[]> {
    return this.#list("prompts", "name", (source) => source.prompts?.(reader));
  }

  resources(reader: OfferingReader): Promise<OfferedResource[]> {
    return this.#list("resources", "uri", (source) => resourcesOf(source, reader));
  }

  resourceTemplates(reader: OfferingReader): Promise<OfferedTemplate[]> {
    return this.#list("resource templates", "uriTemplate", (source) => templatesOf(source, reader));
  }

  skills(reader: OfferingReader): Promise<OfferedSkill[]> {
    return this.#list("skills", "uri", (source) => source.skills?.(reader));
  }

  getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    return this.#first((source) => source.getPrompt?.(name, args, reader));
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    for await (const source of this.#candidates(uri, reader)) {
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
   * Tells subscribers of changes of this resource until the returned function is called. Undefined: no such resource.
   */
  async watchResource(uri: string, reader: OfferingReader): Promise<(() => void) | undefined> {
    let isThere = false;
    for await (const source of this.#candidates(uri, reader)) {
      isThere = true;
      const stop = this.#watch(source, uri);
      if (stop !== undefined) return stop;
    }
    // A resource whose source reports no changes may be watched all the same.
    return isThere ? () => {} : undefined;
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    for (const stop of this.#unsubscribe.values()) stop();
    for (const { stop } of this.#watched.values()) stop();
    this.#unsubscribe.clear();
    this.#watched.clear();
    this.#listeners.clear();
  }

  /** Watches at the source once for each URI, however many readers watch it. */
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

  /** A source that fails is left out of the list. */
  async #list<Item>(what: string, key: keyof Item, list: Lister<Item>): Promise<Item[]> {
    const lists = await Promise.all(this.#sources.map((source) => this.#listOrNone(what, source, list)));
    const items = new Map<unknown, Item>();
    for (const item of lists.flat()) if (!items.has(item[key])) items.set(item[key], item);
    return [...items.values()];
  }

  async #listOrNone<Item>(
    what: string,
    source: OfferingSource,
    list: Lister<Item>,
  ): Promise<readonly Item[]> {
    try {
      return (await list(source)) ?? [];
    } catch (thrown) {
      this.#logger.warn(`The ${what} of ${source.key} could not be listed: ${reasonOf(thrown)}`);
      return [];
    }
  }

  /** The sources that may have this URI, the likeliest first. */
  async *#candidates(uri: string, reader: OfferingReader): AsyncGenerator<OfferingSource> {
    const able = this.#sources.filter((source) => mayHave(source, uri));
    const asked = new Set<OfferingSource>();
    for (const source of able) {
      const resources = await this.#listOrNone("resources", source, () => resourcesOf(source, reader));
      if (!resources.some((resource) => resource.uri === uri)) continue;
      asked.add(source);
      yield source;
    }
    // Next, the sources whose tool results linked to the URI, the latest link first.
    const linking = ranked(able, (source) => source.linkedAt?.(uri, reader));
    for (const source of linking) if (!asked.has(source)) yield source;
    const fits = new Map<OfferingSource, number | undefined>();
    for (const source of able) {
      if (asked.has(source) || linking.includes(source)) continue;
      const what = "resource templates";
      const templates = await this.#listOrNone(what, source, () => templatesOf(source, reader));
      const patterns = templates.map(({ uriTemplate }) => uriTemplate);
      fits.set(source, bestFit(patterns, uri));
    }
    yield* ranked([...fits.keys()], (source) => fits.get(source));
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

  #notifyAll(source: OfferingSource): void {
    if (source.prompts !== undefined) this.#notify({ kind: "prompts" });
    if (source.resources !== undefined || source.resourceTemplates !== undefined)
      this.#notify({ kind: "resources" });
    if (source.skills !== undefined) this.#notify({ kind: "skills" });
  }

  #notify(change: OfferingChange): void {
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

async function resourcesOf(source: OfferingSource, reader: OfferingReader): Promise<OfferedResource[]> {
  const resources = (await source.resources?.(reader)) ?? [];
  return resources.filter(({ uri }) => mayHave(source, uri));
}

async function templatesOf(source: OfferingSource, reader: OfferingReader): Promise<OfferedTemplate[]> {
  const templates = (await source.resourceTemplates?.(reader)) ?? [];
  return templates.filter(({ uriTemplate }) => isUsableTemplate(uriTemplate) && mayHave(source, uriTemplate));
}

/** The sources that have a rank, the highest rank first; sources with the same rank keep their order. */
function ranked(
  sources: readonly OfferingSource[],
  rankOf: (source: OfferingSource) => number | undefined,
): OfferingSource[] {
  return sources
    .map((source) => ({ source, rank: rankOf(source) ?? Number.NEGATIVE_INFINITY }))
    .filter(({ rank }) => rank > Number.NEGATIVE_INFINITY)
    .sort((one, other) => other.rank - one.rank)
    .map(({ source }) => source);
}
