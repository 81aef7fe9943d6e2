import type { CallClient, PromptArgument, PromptMessage, ResourceContents } from "@toolrack/core";
import type { RackItem } from "../config/index.ts";
import type { Origin } from "./call-book.ts";

/** The caller that lists or reads offerings (prompts, resources and skills), and what that caller may see. */
export interface OfferingReader {
  /** The reader's name in records. */
  readonly caller: string;
  /** How the reader reached the rack. Default: the operator. */
  readonly origin?: Origin;
  /** Whether the reader's token and its expert, if it has one, allow the tool, prompt or resource. */
  mayUse(item: RackItem): boolean;
  /** The expert in the URL `/mcp/{expert}`. */
  readonly expert?: string;
  /**
   * Present when the reader can be asked questions: sampling and elicitation requests of an upstream are sent
   * to it.
   */
  readonly client?: CallClient;
  /** Aborts when the reader no longer waits for the answer. */
  readonly signal: AbortSignal;
}

interface Described {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly icons?: readonly object[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

export interface OfferedPrompt extends Described {
  readonly arguments?: readonly Omit<PromptArgument, "complete">[];
}

export interface PromptAnswer {
  readonly description?: string;
  readonly messages: readonly PromptMessage[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

interface DescribedResource extends Described {
  readonly mimeType?: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
}

export interface OfferedResource extends DescribedResource {
  readonly uri: string;
  readonly size?: number;
}

export interface OfferedTemplate extends DescribedResource {
  readonly uriTemplate: string;
}

export interface ResourceAnswer {
  readonly contents: readonly ResourceContents[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

export interface CompletionRequest {
  readonly ref:
    | { readonly type: "ref/prompt"; readonly name: string }
    | { readonly type: "ref/resource"; readonly uri: string };
  readonly argument: { readonly name: string; readonly value: string };
  /** The arguments that are filled in already. */
  readonly others: Readonly<Record<string, string>>;
}

export interface CompletionAnswer {
  readonly values: readonly string[];
  readonly total?: number;
  readonly hasMore?: boolean;
}

/** An entry of `skills/list` and `skills/get` of the MCP extension for skills. */
export interface OfferedSkill {
  /** `skill://{path}/SKILL.md`; the last segment of the path is the skill's name. */
  readonly uri: string;
  /** The front matter of SKILL.md, word for word. */
  readonly frontmatter: Readonly<Record<string, unknown>>;
  /** All files of the skill, or `dynamic` when they cannot be known beforehand. */
  readonly resources:
    | "dynamic"
    | readonly { readonly uri: string; readonly digest: `sha256:${string}`; readonly size: number }[];
}

/** One level of a folder, the result of `resources/directory/read`. */
export interface OfferedDirectory {
  readonly resources: readonly OfferedResource[];
}

export type OfferingChange =
  | { readonly kind: "prompts" | "resources" | "skills" }
  /** The content of a resource changed. */
  | { readonly kind: "resource"; readonly uri: string };

export type Listed<Item> = readonly Item[] | Promise<readonly Item[]>;

/**
 * A place that prompts, resources and skills come from. Everything but the key is optional. Every function
 * may be called at any time, also concurrently. A function may throw or reject: then the reader gets the
 * message, or a list without the items of this source. A source omits, and does not answer for, items that
 * the reader may not use.
 */
export interface OfferingSource {
  /** Unique and stable; sources are listed in the order of their keys. */
  readonly key: string;
  prompts?(reader: OfferingReader): Listed<OfferedPrompt>;
  /** Resolves to undefined when this source has no such prompt. */
  getPrompt?(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined>;
  resources?(reader: OfferingReader): Listed<OfferedResource>;
  resourceTemplates?(reader: OfferingReader): Listed<OfferedTemplate>;
  /**
   * When a tool result that this reader may see last contained a link to this URI, as a value of
   * `performance.now()`. Undefined: never.
   */
  linkedAt?(uri: string, reader: OfferingReader): number | undefined;
  /**
   * Undefined: this source has no such resource. Called only for URIs that the source lists for this reader, has linked
   * to, or has a template for.
   */
  readResource?(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined>;
  /** Resolves to undefined when the request is about a prompt or resource of another source. */
  complete?(request: CompletionRequest, reader: OfferingReader): Promise<CompletionAnswer | undefined>;
  /**
   * Begins to tell the listeners of `subscribe` when this resource changes. Returns a function that stops
   * this, or undefined when this source has no such resource. Called once for each URI, however many readers
   * watch it.
   */
  watchResource?(uri: string): (() => void) | undefined;
  skills?(reader: OfferingReader): Listed<OfferedSkill>;
  /** Lists one level of a folder below a skill. Undefined: the folder is not of this source. */
  readDirectory?(uri: string, reader: OfferingReader): Promise<OfferedDirectory | undefined>;
  /** Calls the listener with every change. Returns a function that unsubscribes it. */
  subscribe?(listener: (change: OfferingChange) => void): () => void;
}

/**
 * The URI schemes that belong to the rack, with the key of the only source that may use each. Undefined: no
 * source may.
 */
const reservedSchemes: ReadonlyMap<string, string | undefined> = new Map([
  ["skill", "skills"],
  ["toolrack", undefined],
]);

/** Whether the source with this key may not use the URI or URI template. */
export function isReservedFrom(sourceKey: string, uri: string): boolean {
  const scheme = uri.slice(0, Math.max(uri.indexOf(":"), 0)).toLowerCase();
  return reservedSchemes.has(scheme) && reservedSchemes.get(scheme) !== sourceKey;
}
