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
import { cleanText } from "./catalogue/clean-text.ts";
import { rackNameOf } from "./catalogue/tool-names.ts";
import type { Upstream } from "./upstream.ts";

type Listed = Readonly<Record<string, unknown>>;

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

  prompts(reader: OfferingReader): OfferedPrompt[] {
    return this.#usable(this.#upstream().catalogue.prompts, reader).map((prompt) => ({
      ...described(prompt),
      name: this.#nameOf(prompt),
      ...(Array.isArray(prompt.arguments) ? { arguments: prompt.arguments } : {}),
    }));
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    const prompt = this.#findPrompt(name, reader);
    if (prompt === undefined) return undefined;
    const params = { name: prompt.name, arguments: args };
    // What the server answers is passed on as it is; whoever asked for it judges it.
    return (await this.#ask("prompts/get", params, reader)) as PromptAnswer;
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable(this.#upstream().catalogue.resources, reader).flatMap((resource) =>
      typeof resource.uri === "string"
        ? [{ ...described(resource), name: textOf(resource.name), uri: resource.uri }]
        : [],
    );
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable(this.#upstream().catalogue.templates, reader).flatMap((template) =>
      typeof template.uriTemplate === "string"
        ? [{ ...described(template), name: textOf(template.name), uriTemplate: template.uriTemplate }]
        : [],
    );
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    if (this.#findResource(uri, reader) === undefined) return undefined;
    return (await this.#ask("resources/read", { uri }, reader)) as ResourceAnswer;
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
    const { completion } = (await this.#ask("completion/complete", params, reader)) as {
      completion?: CompletionAnswer;
    };
    return completion ?? { values: [] };
  }

  watchResource(uri: string): (() => void) | undefined {
    const { resources, templates } = this.#upstream().catalogue;
    const isOwn =
      resources.some((resource) => resource.uri === uri) ||
      templates.some((template) => matches(template, uri));
    return isOwn ? this.#upstream().watchResource(uri) : undefined;
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

/** What a server says about a thing, with what is hidden in its texts taken out. */
function described(item: Listed): Omit<OfferedResource, "uri" | "name"> {
  const { title, description, mimeType, annotations, icons, size, _meta } = item;
  return {
    ...(typeof title === "string" ? { title: cleanText(title) } : {}),
    ...(typeof description === "string" ? { description: cleanText(description) } : {}),
    ...(typeof mimeType === "string" ? { mimeType } : {}),
    ...(typeof size === "number" ? { size } : {}),
    ...(isRecord(annotations) ? { annotations } : {}),
    ...(Array.isArray(icons) ? { icons } : {}),
    ...(isRecord(_meta) ? { _meta } : {}),
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
