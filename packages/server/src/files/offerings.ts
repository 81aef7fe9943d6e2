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
  #fixed: readonly FixedResource[] = [];
  #templates: readonly TemplateResource[] = [];
  /**
   * By watched URI, the function that stops watching. A reload uses it to watch the new version of the
   * resource instead.
   */
  readonly #watching = new Map<string, () => void>();

  replace({ prompts, resources }: FileOffer): void {
    const before = [...this.#prompts.values()];
    const resourcesBefore = this.#resources;
    // Of two prompts with one name the first counts; files are loaded in the order of their names.
    this.#prompts = new Map(prompts.toReversed().map((prompt) => [prompt.name, prompt]));
    this.#resources = resources;
    this.#fixed = resources.filter((resource) => "uri" in resource);
    this.#templates = resources.filter((resource) => "uriTemplate" in resource);
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
    const prompts = usable([...this.#prompts.values()], reader);
    return prompts.map(({ messages: _, arguments: args, ...prompt }) => ({
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
    const needed = prompt.arguments.filter(({ required }) => required).map((argument) => argument.name);
    const missing = needed.filter((argument) => args[argument] === undefined);
    if (missing.length > 0) throw new MissingPromptArguments(name, missing);
    const made = await prompt.messages(args, contextOf(reader));
    const { description } = prompt;
    return { ...(description === undefined ? {} : { description }), messages: toMessages(made) };
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return usable(this.#fixed, reader).map(({ read, watch, ...described }) => described);
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return usable(this.#templates, reader).map(({ read, complete, ...described }) => described);
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    const fixed = usable(this.#fixed, reader).find((resource) => resource.uri === uri);
    if (fixed !== undefined) return toContents(await fixed.read(contextOf(reader)), uri, fixed.mimeType);
    const templates = usable(this.#templates, reader);
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
    if (!this.#fixed.some((resource) => resource.uri === uri)) return undefined;
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

  /**
   * For a prompt or template without completions, returns a function that finds none, so that no other source
   * is asked.
   */
  #completer(ref: CompletionRequest["ref"], argument: string, reader: OfferingReader): Completer | undefined {
    if (ref.type === "ref/prompt") {
      const prompt = this.#prompts.get(ref.name);
      if (prompt === undefined || !reader.mayUse({ name: prompt.name })) return undefined;
      return prompt.arguments.find(({ name }) => name === argument)?.complete ?? noCompletions;
    }
    const template = usable(this.#templates, reader).find((one) => one.uriTemplate === ref.uri);
    return template && (template.complete?.[argument] ?? noCompletions);
  }

  #startWatching(uri: string): () => void {
    const resource = this.#fixed.find((one) => one.uri === uri);
    return resource?.watch?.(() => this.#notify({ kind: "resource", uri })) ?? (() => {});
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

/** MCP's limit for the values of one completion. */
const MOST_VALUES = 100;

type FixedResource = Extract<ResourceInfo, { readonly uri: string }>;
type TemplateResource = Extract<ResourceInfo, { readonly uriTemplate: string }>;
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

/** The offers that the reader may use, sorted by name. */
function usable<Offer extends { readonly name: string }>(
  offers: readonly Offer[],
  reader: OfferingReader,
): Offer[] {
  const allowed = offers.filter(({ name }) => reader.mayUse({ name }));
  return allowed.sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0));
}

function sameMembers<Member>(before: readonly Member[], now: readonly Member[]): boolean {
  return before.length === now.length && before.every((member, index) => member === now[index]);
}
