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
import { LinkedResources } from "./catalogue/linked-resources.ts";
import type { RackNames } from "./catalogue/rack-names.ts";
import { completionAnswer, promptAnswer, resourceAnswer } from "./catalogue/usable-answer.ts";
import type { Listed } from "./catalogue/usable-item.ts";
import { namedFailure } from "./named-failure.ts";
import type { Upstream } from "./upstream.ts";

const LIMIT = 60_000;

/**
 * The prompts and resources of one upstream server. Prompts are named like tools; resources keep their addresses. Who may
 * use a tool of the name `mcp_{serverKey}_{name}` may use the prompt or resource of that name.
 */
export class McpOfferings implements OfferingSource {
  readonly key: string;
  /** What results of the server linked to. */
  readonly links = new LinkedResources();
  readonly #server: string;
  readonly #upstream: () => Upstream;
  readonly #names: Pick<RackNames, "nameOf">;
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  /** The resources that are watched, and how the upstream of now is told to stop. */
  readonly #watched = new Map<string, () => void>();

  constructor(server: string, upstream: () => Upstream, names: Pick<RackNames, "nameOf">) {
    this.key = `mcp:${server}`;
    this.#server = server;
    this.#upstream = upstream;
    this.#names = names;
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
    const answer = await this.#ask("prompts/get", params, reader, promptAnswer);
    for (const { content } of answer.messages) {
      if (content.type === "resource_link" || content.type === "resource")
        this.links.note({ ...content }, name);
    }
    return answer;
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable(this.#upstream().catalogue.resources, reader) as unknown as OfferedResource[];
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable(this.#upstream().catalogue.templates, reader) as unknown as OfferedTemplate[];
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    const isOwn = this.#findResource(uri, reader) !== undefined || this.linkedAt(uri, reader) !== undefined;
    return isOwn ? this.#ask("resources/read", { uri }, reader, resourceAnswer) : undefined;
  }

  linkedAt(uri: string, { mayUse }: OfferingReader): number | undefined {
    return this.#upstream().state === "disabled" ? undefined : this.links.linkedAt(uri, mayUse);
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
    return this.#ask("completion/complete", params, reader, completionAnswer);
  }

  watchResource(uri: string): (() => void) | undefined {
    const { resources, templates } = this.#upstream().catalogue;
    const isOwn =
      this.links.has(uri) ||
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

  /** What goes wrong, also with what the answer is taken for, is said with the name of the server. */
  async #ask<Answer>(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { signal, client }: OfferingReader,
    take: (given: unknown) => Answer,
  ): Promise<Answer> {
    try {
      return take(await this.#upstream().request({ method, params, signal, client, timeout: LIMIT }));
    } catch (thrown) {
      throw namedFailure(this.#server, method, thrown, this.#upstream().mask);
    }
  }

  #usable(listed: readonly Listed[], reader: OfferingReader): Listed[] {
    if (this.#upstream().state === "disabled") return [];
    return listed.filter((item) => reader.mayUse(this.#nameOf(item)));
  }

  #nameOf({ name }: Listed): string {
    return this.#names.nameOf(this.#server, textOf(name));
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
