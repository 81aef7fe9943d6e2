import type {
  CompletionAnswer,
  CompletionRequest,
  OfferedPrompt,
  OfferedResource,
  OfferedTemplate,
  OfferingChange,
  OfferingReader,
  OfferingSource,
  Origin,
  PromptAnswer,
  ResourceAnswer,
} from "../../calls/index.ts";
import { bestFit, isReservedFrom } from "../../calls/index.ts";
import { type RackItem, upstreamOrigin } from "../../config/index.ts";
import { asRecord, isRecord, RecentMap } from "../../helpers/index.ts";
import { SOURCE } from "./catalogue/catalogue.ts";
import { describeFailure, UpstreamError } from "./failures.ts";
import type { Message } from "./protocol/messages.ts";
import type { AbortableRequest, Upstream, UpstreamOwner } from "./upstream.ts";

/** The server that offers the prompts and resources. */
interface OfferingOwner extends UpstreamOwner {
  readonly upstream: Upstream;
  /** Sends a request over the connection that is meant for this origin. */
  request(request: AbortableRequest, origin?: Origin): Promise<unknown>;
}

/** The timeout of a request, in milliseconds. */
const LIMIT = 60_000;

/**
 * The prompts and resources of one upstream server. Prompts are named like tools; resources keep their addresses. Grants
 * apply to them as to tools: by the name on the rack, `mcp_{serverKey}_{name}`, or by the server's own name with
 * `mcp:KEY/PATTERN`.
 */
export class McpOfferings implements OfferingSource {
  readonly key: string;
  /** Resources that results of the server linked to. */
  readonly links = new LinkedResources();
  readonly #server: OfferingOwner;
  /**
   * The item that grants are checked against, for each listed prompt, resource or template. Cached, because
   * every request checks long lists.
   */
  readonly #items = new WeakMap<Message, RackItem>();
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  /** The watched resources, each with a function that ends the current subscription. */
  readonly #watched = new Map<string, () => void>();

  constructor(server: OfferingOwner) {
    this.key = `mcp:${server.key}`;
    this.#server = server;
  }

  changed(kinds: readonly ("prompts" | "resources")[] = ["prompts", "resources"]): void {
    for (const kind of kinds) this.#tell({ kind });
  }

  updated(uri: string): void {
    this.#tell({ kind: "resource", uri });
  }

  /** Subscribes to all watched resources at a new upstream. */
  moveTo(upstream: Upstream): void {
    for (const uri of this.#watched.keys()) this.#watched.set(uri, upstream.watchResource(uri));
  }

  prompts(reader: OfferingReader): OfferedPrompt[] {
    const prompts = this.#usable("prompts", reader);
    // `checkCatalogue` has checked the form of all three lists.
    return prompts.map((prompt) => ({ ...prompt, name: this.#nameOf(prompt) }) as OfferedPrompt);
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable("resources", reader) as unknown as OfferedResource[]; // Checked, see `prompts`.
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable("templates", reader) as unknown as OfferedTemplate[]; // Checked, see `prompts`.
  }

  async getPrompt(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined> {
    const prompt = this.#findPrompt(name, reader);
    if (prompt === undefined) return undefined;
    const params = { name: prompt.name, arguments: args };
    return this.#ask("prompts/get", params, reader, (given) => {
      const answer = promptAnswer(given);
      // Links are remembered before masking, because the server knows only the real addresses.
      for (const { content } of answer.messages) {
        if (content.type === "resource_link" || content.type === "resource")
          this.links.note({ ...content }, this.#itemOf(prompt));
      }
      return answer;
    });
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    const isOwn =
      this.linkedAt(uri, reader) !== undefined ||
      this.#usable("resources", reader).some((resource) => resource.uri === uri) ||
      fitsAny(this.#usable("templates", reader), uri);
    if (!isOwn) return undefined;
    return this.#ask("resources/read", { uri }, reader, resourceAnswer, (answer) => {
      const masked = this.#server.context.registry.mask(answer);
      if (masked === answer) return answer;
      // The requested address stays unmasked, because the lists show it unmasked and the reader looks for it in
      // the answer.
      const contents = masked.contents.map((content, index) =>
        answer.contents[index]?.uri === uri ? { ...content, uri } : content,
      );
      return { ...masked, contents };
    });
  }

  linkedAt(uri: string, { mayUse }: OfferingReader): number | undefined {
    return this.#server.upstream.state === "disabled" ? undefined : this.links.linkedAt(uri, mayUse);
  }

  async complete(request: CompletionRequest, reader: OfferingReader): Promise<CompletionAnswer | undefined> {
    const { ref, argument, others } = request;
    const own =
      ref.type === "ref/prompt"
        ? this.#findPrompt(ref.name, reader)
        : this.#usable("templates", reader).find(({ uriTemplate }) => uriTemplate === ref.uri);
    if (own === undefined) return undefined;
    const params = {
      ref: ref.type === "ref/prompt" ? { type: ref.type, name: own.name } : ref,
      argument,
      ...(Object.keys(others).length === 0 ? {} : { context: { arguments: others } }),
    };
    return this.#ask("completion/complete", params, reader, completionAnswer);
  }

  watchResource(uri: string): (() => void) | undefined {
    const { resources, templates } = this.#server.upstream.catalogue;
    const isOwn =
      this.links.has(uri) || resources.some((resource) => resource.uri === uri) || fitsAny(templates, uri);
    if (!isOwn) return undefined;
    this.#watched.set(uri, this.#server.upstream.watchResource(uri));
    return () => {
      this.#watched.get(uri)?.();
      this.#watched.delete(uri);
    };
  }

  subscribe(listener: (change: OfferingChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Sends a request and masks the rack's secrets in the answer. Errors, also about an invalid answer, name the server.
   */
  async #ask<Answer>(
    method: string,
    params: Readonly<Record<string, unknown>>,
    reader: OfferingReader,
    take: (given: unknown) => Answer,
    masked = (answer: Answer) => this.#server.context.registry.mask(answer),
  ): Promise<Answer> {
    const { signal, client } = reader;
    try {
      const request = { method, params, signal, client, timeout: LIMIT };
      return masked(take(await this.#server.request(request, reader.origin)));
    } catch (thrown) {
      if (!(thrown instanceof UpstreamError)) throw thrown;
      const { kind, facts } = thrown;
      const text = this.#server.context.mask(describeFailure(this.#server.upstream, method, thrown));
      throw new UpstreamError(kind, text, { ...facts, cause: thrown });
    }
  }

  #usable(list: "prompts" | "resources" | "templates", { mayUse }: OfferingReader): Message[] {
    const { state, catalogue } = this.#server.upstream;
    return state === "disabled" ? [] : catalogue[list].filter((item) => mayUse(this.#itemOf(item)));
  }

  #findPrompt(name: string, reader: OfferingReader): Message | undefined {
    return this.#usable("prompts", reader).find((prompt) => this.#nameOf(prompt) === name);
  }

  #nameOf({ name }: Message): string {
    return this.#server.context.names.nameOf(this.#server.key, textOf(name));
  }

  #itemOf(item: Message): RackItem {
    const name = this.#nameOf(item);
    const known = this.#items.get(item);
    // The name on the rack may have changed since the item was cached.
    if (known?.name === name) return known;
    const mcp = upstreamOrigin({ server: this.#server.key, tool: textOf(item.name) });
    const made = { name, metadata: { mcp } };
    this.#items.set(item, made);
    return made;
  }

  #tell(change: OfferingChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function fitsAny(templates: readonly Message[], uri: string): boolean {
  const texts = templates.map(({ uriTemplate }) => textOf(uriTemplate));
  return bestFit(texts, uri) !== undefined;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Checks the answer to `prompts/get`. Throws when it is invalid. */
function promptAnswer(given: unknown): PromptAnswer {
  const isMessage = (message: unknown) => {
    const { role, content } = asRecord(message);
    return (role === "user" || role === "assistant") && typeof asRecord(content).type === "string";
  };
  const { messages, description, ...rest } = asRecord(given);
  if (!Array.isArray(messages) || !messages.every(isMessage))
    throw oddAnswer("prompts/get", "messages with a role and a content");
  const text = typeof description === "string" ? { description } : {};
  // Checked above, except the members that each content type needs.
  return { ...rest, messages, ...text } as unknown as PromptAnswer;
}

/** Checks the answer to `resources/read`. Throws when it is invalid. */
function resourceAnswer(given: unknown): ResourceAnswer {
  const isContent = (content: unknown) => {
    const { uri, text, blob } = asRecord(content);
    return typeof uri === "string" && (typeof text === "string" || typeof blob === "string");
  };
  const { contents } = asRecord(given);
  if (!Array.isArray(contents) || !contents.every(isContent))
    throw oddAnswer("resources/read", "contents with a uri and a text or blob");
  return given as unknown as ResourceAnswer; // The contents were checked above.
}

/** Checks the answer to `completion/complete`. An invalid answer becomes one without values. */
function completionAnswer(given: unknown): CompletionAnswer {
  const { values, total, hasMore } = asRecord(asRecord(given).completion);
  return {
    values: Array.isArray(values) ? values.filter((value) => typeof value === "string").slice(0, 100) : [],
    ...(typeof total === "number" && Number.isInteger(total) ? { total } : {}),
    ...(typeof hasMore === "boolean" ? { hasMore } : {}),
  };
}

function oddAnswer(method: string, wanted: string): UpstreamError {
  const text = `Its answer to ${method} cannot be used: it must have ${wanted}. Tell whoever runs the server.`;
  return new UpstreamError("broken", text);
}

/**
 * How many linked resources are remembered per server. The resource whose last link is the oldest is forgotten first.
 */
const MOST_LINKS = 1_000;
/**
 * In characters. A resource with a longer address is not remembered: such an address contains the data itself,
 * and would take too much memory.
 */
const LONGEST_URI = 8_192;

/** Resources that results of a server linked to. They can be read even if the server does not list them. */
export class LinkedResources {
  /**
   * The linked resources, by address. `sources`: the tools and prompts whose results linked to the resource, by
   * their names on the rack. `at`: when the last of these results came, on the `performance` clock.
   */
  readonly #links = new RecentMap<string, { readonly sources: Map<string, RackItem>; readonly at: number }>(
    MOST_LINKS,
  );

  /**
   * Remembers the resource that a block of a result links to or contains. `source`: the tool or prompt that
   * gave the result.
   */
  note(block: Message, source: RackItem): void {
    const holder = block.type === "resource_link" ? block : block.resource;
    const uri = isRecord(holder) ? holder.uri : undefined;
    if (typeof uri !== "string" || uri.length > LONGEST_URI || isReservedFrom(SOURCE, uri)) return;
    const sources = this.#links.get(uri)?.sources ?? new Map<string, RackItem>();
    sources.set(source.name, source);
    this.#links.set(uri, { sources, at: performance.now() });
  }

  /**
   * When a result last linked to the resource, on the `performance` clock. Undefined if no tool or prompt that
   * the reader may use has linked to it.
   */
  linkedAt(uri: string, mayUse: (item: RackItem) => boolean): number | undefined {
    const link = this.#links.get(uri);
    return link !== undefined && [...link.sources.values()].some(mayUse) ? link.at : undefined;
  }

  has(uri: string): boolean {
    return this.#links.has(uri);
  }
}
