import type { ToolRegistry } from "@toolrack/core";
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
} from "../../calls/index.ts";
import { bestFit } from "../../calls/index.ts";
import { type RackItem, upstreamOrigin } from "../../config/index.ts";
import { McpServerError, type ToolOverride } from "../../store/index.ts";
import { LinkedResources, ownMember, type UpstreamTool } from "./catalogue/catalogue.ts";
import type { RackNames } from "./catalogue/names.ts";
import { hashOfPin, pinOf } from "./catalogue/pins.ts";
import type { Listed } from "./catalogue/schema.ts";
import { completionAnswer, promptAnswer, resourceAnswer } from "./catalogue/tool.ts";
import { commandFor, type ManagedServer } from "./managed-server.ts";
import type { Upstream } from "./upstream.ts";
import { namedFailure } from "./upstream-state.ts";
import { toolViewsOf } from "./wanted-servers.ts";

const LIMIT = 60_000;

/**
 * The prompts and resources of one upstream server. Prompts are named like tools; resources keep their addresses. Who may
 * use a tool of the name `mcp_{serverKey}_{name}`, or one that the server itself calls so, may use the prompt or resource
 * of that name: `mcp:KEY/PATTERN` fits prompts and resources by their own names, as it fits tools.
 */
export class McpOfferings implements OfferingSource {
  readonly key: string;
  /** What results of the server linked to. */
  readonly links = new LinkedResources();
  readonly #server: string;
  readonly #upstream: () => Upstream;
  readonly #names: Pick<RackNames, "nameOf">;
  readonly #registry: ToolRegistry;
  /** What patterns are held against, by what is listed: lists are long, and are gone through with every request. */
  readonly #items = new WeakMap<Listed, RackItem>();
  readonly #listeners = new Set<(change: OfferingChange) => void>();
  /** The resources that are watched, and how the upstream of now is told to stop. */
  readonly #watched = new Map<string, () => void>();

  constructor(
    server: string,
    upstream: () => Upstream,
    { names, registry }: { readonly names: Pick<RackNames, "nameOf">; readonly registry: ToolRegistry },
  ) {
    this.key = `mcp:${server}`;
    this.#server = server;
    this.#upstream = upstream;
    this.#names = names;
    this.#registry = registry;
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
    return this.#ask("prompts/get", params, reader, (given) => {
      const answer = promptAnswer(given);
      // As the server knows them, and not as they are shown.
      this.#noteLinks(answer, prompt);
      return answer;
    });
  }

  resources(reader: OfferingReader): OfferedResource[] {
    return this.#usable(this.#upstream().catalogue.resources, reader) as unknown as OfferedResource[];
  }

  resourceTemplates(reader: OfferingReader): OfferedTemplate[] {
    return this.#usable(this.#upstream().catalogue.templates, reader) as unknown as OfferedTemplate[];
  }

  async readResource(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined> {
    const isOwn = this.linkedAt(uri, reader) !== undefined || this.#hasResource(uri, reader);
    if (!isOwn) return undefined;
    const masked = (answer: ResourceAnswer) => this.#maskedBelow(uri, answer);
    return this.#ask("resources/read", { uri }, reader, resourceAnswer, masked);
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
      this.links.has(uri) || resources.some((resource) => resource.uri === uri) || fitsAny(templates, uri);
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

  /**
   * Answers without the secrets of the rack, as results of tools are. What goes wrong, also with what the answer is taken
   * for, is said with the name of the server.
   */
  async #ask<Answer>(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { signal, client }: OfferingReader,
    take: (given: unknown) => Answer,
    masked = (answer: Answer) => this.#registry.mask(answer),
  ): Promise<Answer> {
    try {
      const given = await this.#upstream().request({ method, params, signal, client, timeout: LIMIT });
      return masked(take(given));
    } catch (thrown) {
      throw namedFailure(this.#server, method, thrown, this.#upstream().mask);
    }
  }

  /** The address that was asked for stays: it is listed as it is, and whoever asked looks for it in the answer. */
  #maskedBelow(uri: string, answer: ResourceAnswer): ResourceAnswer {
    const masked = this.#registry.mask(answer);
    if (masked === answer) return answer;
    const isAsked = answer.contents.map((content) => content.uri === uri);
    return {
      ...masked,
      contents: masked.contents.map((content, index) => (isAsked[index] ? { ...content, uri } : content)),
    };
  }

  #noteLinks({ messages }: PromptAnswer, prompt: Listed): void {
    for (const { content } of messages) {
      if (content.type === "resource_link" || content.type === "resource")
        this.links.note({ ...content }, this.#itemOf(prompt));
    }
  }

  #usable(listed: readonly Listed[], reader: OfferingReader): Listed[] {
    if (this.#upstream().state === "disabled") return [];
    return listed.filter((item) => reader.mayUse(this.#itemOf(item)));
  }

  #nameOf({ name }: Listed): string {
    return this.#names.nameOf(this.#server, textOf(name));
  }

  #itemOf(item: Listed): RackItem {
    const name = this.#nameOf(item);
    const known = this.#items.get(item);
    // Names on the rack may change while what is listed stays.
    if (known?.name === name) return known;
    const mcp = upstreamOrigin({ server: this.#server, tool: textOf(item.name) });
    const made = { name, metadata: { mcp } };
    this.#items.set(item, made);
    return made;
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

  #hasResource(uri: string, reader: OfferingReader): boolean {
    const { resources, templates } = this.#upstream().catalogue;
    const isListed = this.#usable(resources, reader).some((resource) => resource.uri === uri);
    return isListed || fitsAny(this.#usable(templates, reader), uri);
  }

  #tell(change: OfferingChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function fitsAny(templates: readonly Listed[], uri: string): boolean {
  const texts = templates.map(({ uriTemplate }) => textOf(uriTemplate));
  return bestFit(texts, uri) !== undefined;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** What is said about tools, by the names that the server gives them; null takes back what was said. */
export type ToolOverrides = Readonly<Record<string, ToolOverride | null>>;

/** The tool of that name. With a hash, only while its definition is the one that the hash stands for. */
export function requireTool(server: ManagedServer, name: string, hash?: string): UpstreamTool {
  const tool = server.find(name);
  if (tool === undefined) {
    throw new McpServerError(
      "mcp_tool_not_found",
      `The MCP server "${server.key}" has no tool "${name}"${nextStep(server)}`,
    );
  }
  const current = hashOfPin(pinOf(tool));
  if (hash === undefined || hash === current) return tool;
  const { changes } = server.pins.of(tool);
  const now =
    changes.length === 0
      ? "It is what was approved before"
      : `It now differs from what was approved in ${changes.map(({ path }) => path).join(", ")}`;
  throw new McpServerError(
    "mcp_tool_changed",
    `The tool "${name}" of the MCP server "${server.key}" changed after it was looked at, so nothing was approved. ${now}. Look at it again and approve what you see: ${commandFor("show", server.key)}`,
    { tool: name, hash: current, changes },
  );
}

/** Which tools a server has is known once it has run. */
function nextStep({ key, wanted, upstream }: ManagedServer): string {
  if (!wanted.isEnabled)
    return `, as far as is known: it is switched off. Switch it on: ${commandFor("enable", key)}`;
  const isUp = upstream.state === "ready";
  return `${isUp ? "" : `, as far as is known: it is ${upstream.state}`}. See: ${commandFor("show", key)}`;
}

/** A tool cannot be given the name that another tool of the server has. Names that differ by case only are one. */
export function refuseDoubles(
  server: ManagedServer,
  overrides: ToolOverrides,
  names: Pick<RackNames, "nameOf">,
): void {
  const before = toolViewsOf(server, names);
  for (const [name, override] of Object.entries(overrides)) {
    if (override?.rename === undefined) continue;
    const rackName = names.nameOf(server.key, override.rename);
    const other = before.find((tool) => {
      if (tool.name === name) return false;
      const own = names.nameOf(server.key, tool.name);
      const said = ownMember(overrides, tool.name);
      const renamed =
        said === undefined ? tool.rackName : names.nameOf(server.key, said?.rename ?? tool.name);
      // By its own name a renamed tool is reached too.
      return [own, renamed].some((taken) => taken.toLowerCase() === rackName.toLowerCase());
    });
    if (other === undefined) continue;
    throw new McpServerError(
      "mcp_server_invalid",
      `The tool "${name}" cannot be renamed to ${rackName}: that is the name of the tool "${other.name}". Choose another name.`,
    );
  }
}
