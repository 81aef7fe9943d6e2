import { matchUriTemplate } from "../../offerings/match-uri-template.ts";
import type {
  CompletionAnswer,
  CompletionRequest,
  OfferedPrompt,
  OfferedResource,
  OfferedTemplate,
  OfferingChange,
  OfferingReader,
  OfferingSource,
  PromptAnswer,
  ResourceAnswer,
} from "../../offerings/offering-source.ts";
import { rackNameOf } from "./catalogue/tool-names.ts";
import { completionAnswer, promptAnswer, resourceAnswer } from "./catalogue/usable-answer.ts";
import type { Listed } from "./catalogue/usable-item.ts";
import type { Upstream } from "./upstream.ts";

const LIMIT = 60_000;

/**
 * The prompts and resources of one upstream server. Prompts are named like tools; resources keep their addresses. Who may
 * use a tool of the name `mcp_{serverKey}_{name}` may use the prompt or resource of that name.
 */
export class McpOfferings implements OfferingSource {
  readonly key: string;
  readonly #server: string;
  readonly #upstream: () => Upstream;
  readonly #keys: () => Iterable<string>;
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  /** The resources that are watched, and how the upstream of now is told to stop. */
  readonly #watched = new Map<string, () => void>();

  constructor(server: string, upstream: () => Upstream, keys: () => Iterable<string>) {
    this.key = `mcp:${server}`;
    this.#server = server;
    this.#upstream = upstream;
    this.#keys = keys;
  }

  changed(kinds: readonly ("prompts" | "resources")[]): void {
    for (const kind of kinds) this.#tell({ kind });
  }

  updated(uri: string): void {
    this.#tell({ kind: "resource", uri });
  }

  /** Watches with another upstream what was watched with the one before. */
  moveTo(upstream: Upstream): void {
    for (const uri of this.#watched.keys()) this.#watched.set(uri, upstream.watchResource(uri));
  }

  prompts(reader: OfferingReader): OfferedPrompt[] {
    // Of the right form since the catalogue was checked; the same holds for the other lists.
    return this.#usable(this.#upstream().catalogue.prompts, reader).map(
      (prompt) => ({ ...prompt, name: this.#nameOf(prompt) }) as OfferedPrompt,
    );
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    const prompt = this.#findPrompt(name, reader);
    if (prompt === undefined) return undefined;
    const params = { name: prompt.name, arguments: args };
    return promptAnswer(await this.#ask("prompts/get", params, reader));
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable(this.#upstream().catalogue.resources, reader) as unknown as OfferedResource[];
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable(this.#upstream().catalogue.templates, reader) as unknown as OfferedTemplate[];
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    if (this.#findResource(uri, reader) === undefined) return undefined;
    return resourceAnswer(await this.#ask("resources/read", { uri }, reader));
  }

  async complete(request: CompletionRequest, reader: OfferingReader): Promise<CompletionAnswer | undefined> {
    const { ref, argument, others } = request;
    const own =
      ref.type === "ref/prompt" ? this.#findPrompt(ref.name, reader) : this.#findTemplate(ref.uri, reader);
    if (own === undefined) return undefined;
    const params = {
      ref: ref.type === "ref/prompt" ? { type: ref.type, name: own.name } : ref,
      argument,
      ...(Object.keys(others).length === 0 ? {} : { context: { arguments: others } }),
    };
    return completionAnswer(await this.#ask("completion/complete", params, reader));
  }

  watchResource(uri: string): (() => void) | undefined {
    const { resources, templates } = this.#upstream().catalogue;
    const isOwn =
      resources.some((resource) => resource.uri === uri) ||
      templates.some((template) => matches(template, uri));
    if (!isOwn) return undefined;
    this.#watched.set(uri, this.#upstream().watchResource(uri));
    return () => {
      this.#watched.get(uri)?.();
      this.#watched.delete(uri);
    };
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #ask(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { signal, client }: OfferingReader,
  ): Promise<unknown> {
    return this.#upstream().request({ method, params, signal, client, timeout: LIMIT });
  }

  #usable(listed: readonly Listed[], reader: OfferingReader): Listed[] {
    if (this.#upstream().state === "disabled") return [];
    return listed.filter((item) => reader.mayUse(this.#nameOf(item)));
  }

  #nameOf({ name }: Listed): string {
    return rackNameOf(this.#server, textOf(name), this.#keys());
  }

  #findPrompt(name: string, reader: OfferingReader): Listed | undefined {
    return this.#usable(this.#upstream().catalogue.prompts, reader).find(
      (prompt) => this.#nameOf(prompt) === name,
    );
  }

  #findTemplate(uriTemplate: string, reader: OfferingReader): Listed | undefined {
    return this.#usable(this.#upstream().catalogue.templates, reader).find(
      (template) => template.uriTemplate === uriTemplate,
    );
  }

  #findResource(uri: string, reader: OfferingReader): Listed | undefined {
    const { resources, templates } = this.#upstream().catalogue;
    const listed = this.#usable(resources, reader).find((resource) => resource.uri === uri);
    return listed ?? this.#usable(templates, reader).find((template) => matches(template, uri));
  }

  #tell(change: OfferingChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function matches({ uriTemplate }: Listed, uri: string): boolean {
  return typeof uriTemplate === "string" && matchUriTemplate(uriTemplate, uri) !== undefined;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
