import type {
  OfferingContext,
  PromptInfo,
  PromptMessage,
  ResourceBody,
  ResourceContents,
  ResourceInfo,
} from "@toolrack/core";
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
} from "../calls/index.ts";
import { matchUriTemplate, parseUriTemplate } from "../calls/index.ts";

export interface FileOffer {
  readonly prompts: readonly PromptInfo[];
  readonly resources: readonly ResourceInfo[];
}

/** The prompts and resources that tool files export. A token may use those whose names match its tool patterns. */
export class FileOfferings implements OfferingSource {
  readonly key = "files";
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  #prompts = new Map<string, PromptInfo>();
  #resources: readonly ResourceInfo[] = [];
  /** The watched URIs, so that a reload can watch the new version. */
  readonly #watching = new Map<string, () => void>();

  replace({ prompts, resources }: FileOffer): void {
    const before = [...this.#prompts.values()];
    const resourcesBefore = this.#resources;
    // Of two prompts with one name the first counts; files are loaded in the order of their names.
    this.#prompts = new Map(prompts.toReversed().map((prompt) => [prompt.name, prompt]));
    this.#resources = resources;
    if (!sameMembers(before, [...this.#prompts.values()])) this.#notify({ kind: "prompts" });
    if (sameMembers(resourcesBefore, resources)) return;
    this.#notify({ kind: "resources" });
    for (const [uri, stop] of this.#watching) {
      stop();
      this.#watching.set(uri, this.#startWatching(uri));
      this.#notify({ kind: "resource", uri });
    }
  }

  prompts(reader: OfferingReader): OfferedPrompt[] {
    return [...this.#prompts.values()]
      .filter(({ name }) => reader.mayUse({ name }))
      .sort(byName)
      .map(({ messages: _, arguments: args, ...prompt }) => ({
        ...prompt,
        arguments: args.map(({ complete, ...argument }) => argument),
      }));
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    const prompt = this.#prompts.get(name);
    if (prompt === undefined || !reader.mayUse({ name })) return undefined;
    const missing = prompt.arguments.filter(
      (argument) => argument.required && args[argument.name] === undefined,
    );
    if (missing.length > 0)
      throw new MissingPromptArguments(
        name,
        missing.map((argument) => argument.name),
      );
    const made = await prompt.messages(args, contextOf(reader));
    const { description } = prompt;
    return { ...(description === undefined ? {} : { description }), messages: toMessages(made) };
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable(reader)
      .flatMap((resource) => ("uri" in resource ? [resource] : []))
      .map(({ read, watch, ...described }) => described);
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable(reader)
      .flatMap((resource) => ("uriTemplate" in resource ? [resource] : []))
      .map(({ read, complete, ...described }) => described);
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    const usable = this.#usable(reader);
    for (const resource of usable) {
      if ("uri" in resource && resource.uri === uri) {
        return toContents(await resource.read(contextOf(reader)), uri, resource.mimeType);
      }
    }
    const templates = usable.flatMap((resource) => ("uriTemplate" in resource ? [resource] : []));
    // The template with the most literal text is tried first; equal ones stay in their order.
    for (const resource of templates.sort((one, other) => literalsOf(other) - literalsOf(one))) {
      const variables = matchUriTemplate(resource.uriTemplate, uri);
      if (variables === undefined) continue;
      const body = await resource.read(variables, contextOf(reader));
      if (body !== undefined) return toContents(body, uri, resource.mimeType);
    }
    return undefined;
  }

  async complete(
    { ref, argument, others }: CompletionRequest,
    reader: OfferingReader,
  ): Promise<CompletionAnswer | undefined> {
    const complete = this.#completer(ref, argument.name, reader);
    if (complete === undefined) return undefined;
    const values = await complete(argument.value, others, contextOf(reader));
    return {
      values: values.slice(0, MOST_VALUES),
      total: values.length,
      hasMore: values.length > MOST_VALUES,
    };
  }

  watchResource(uri: string): (() => void) | undefined {
    if (!this.#resources.some((resource) => "uri" in resource && resource.uri === uri)) return undefined;
    this.#watching.set(uri, this.#startWatching(uri));
    return () => {
      this.#watching.get(uri)?.();
      this.#watching.delete(uri);
    };
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #usable(reader: OfferingReader): ResourceInfo[] {
    return this.#resources.filter(({ name }) => reader.mayUse({ name })).sort(byName);
  }

  /** A prompt or template without completions returns an empty list, so that no other source is asked. */
  #completer(ref: CompletionRequest["ref"], argument: string, reader: OfferingReader): Completer | undefined {
    if (ref.type === "ref/prompt") {
      const prompt = this.#prompts.get(ref.name);
      if (prompt === undefined || !reader.mayUse({ name: prompt.name })) return undefined;
      return prompt.arguments.find(({ name }) => name === argument)?.complete ?? noCompletions;
    }
    const resource = this.#usable(reader).find((one) => "uriTemplate" in one && one.uriTemplate === ref.uri);
    if (resource === undefined || !("uriTemplate" in resource)) return undefined;
    return resource.complete?.[argument] ?? noCompletions;
  }

  #startWatching(uri: string): () => void {
    const resource = this.#resources.find((one) => "uri" in one && one.uri === uri);
    if (resource === undefined || !("uri" in resource)) return () => {};
    return resource.watch?.(() => this.#notify({ kind: "resource", uri })) ?? (() => {});
  }

  #notify(change: OfferingChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

export class MissingPromptArguments extends Error {
  override readonly name = "MissingPromptArguments";

  constructor(prompt: string, missing: readonly string[]) {
    super(`The prompt "${prompt}" needs the argument${missing.length > 1 ? "s" : ""} ${missing.join(", ")}.`);
  }
}

/** The protocol's limit. */
const MOST_VALUES = 100;

type Completer = NonNullable<PromptInfo["arguments"][number]["complete"]>;

const noCompletions: Completer = () => [];

function contextOf({ signal, client, caller }: OfferingReader): OfferingContext {
  return { signal, client, caller };
}

function literalsOf({ uriTemplate }: { readonly uriTemplate: string }): number {
  return parseUriTemplate(uriTemplate)?.literals ?? 0;
}

function toMessages(made: string | readonly PromptMessage[]): readonly PromptMessage[] {
  if (typeof made !== "string") return made;
  return [{ role: "user", content: { type: "text", text: made } }];
}

function toContents(body: ResourceBody, uri: string, mimeType: string | undefined): ResourceAnswer {
  const described = { uri, ...(mimeType === undefined ? {} : { mimeType }) };
  if (typeof body === "string") return { contents: [{ ...described, text: body }] };
  if (body instanceof Uint8Array)
    return { contents: [{ ...described, blob: Buffer.from(body).toString("base64") }] };
  return { contents: body as readonly ResourceContents[] }; // `isArray` does not narrow a readonly array.
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0;
}

function sameMembers<Member>(before: readonly Member[], now: readonly Member[]): boolean {
  return before.length === now.length && before.every((member, index) => member === now[index]);
}
