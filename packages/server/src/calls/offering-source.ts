import type { CallClient, PromptMessage, ResourceContents } from "@toolrack/core";
import type { RackItem } from "../config/index.ts";

/** Who lists, reads or gets, and how far it may see. */
export interface OfferingReader {
  /** As records name it. */
  readonly caller: string;
  /**
   * Whether a thing exists for the reader: its token's patterns and the expert it came by, both. It is asked with tools,
   * and with prompts and resources.
   */
  mayUse(item: RackItem): boolean;
  /** The expert by which it came, at `/mcp/{expert}`. */
  readonly expert?: string;
  /** The reader, when it can be asked something in turn: sampling and elicitation of an upstream go here. */
  readonly client?: CallClient;
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

export interface OfferedPrompt {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly arguments?: readonly {
    readonly name: string;
    readonly title?: string;
    readonly description?: string;
    readonly required?: boolean;
  }[];
  readonly icons?: readonly object[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

export interface PromptAnswer {
  readonly description?: string;
  readonly messages: readonly PromptMessage[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

interface DescribedResource {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly icons?: readonly object[];
  readonly _meta?: Readonly<Record<string, unknown>>;
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

/** What is being completed: an argument of a prompt, or a variable of a resource template. */
type CompletionReference =
  | { readonly type: "ref/prompt"; readonly name: string }
  | { readonly type: "ref/resource"; readonly uri: string };

export interface CompletionRequest {
  readonly ref: CompletionReference;
  readonly argument: { readonly name: string; readonly value: string };
  /** What has been filled in already. */
  readonly others: Readonly<Record<string, string>>;
}

export interface CompletionAnswer {
  readonly values: readonly string[];
  readonly total?: number;
  readonly hasMore?: boolean;
}

/** An entry of `skills/list` and `skills/get`, as the MCP extension for skills has it. */
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

/** One level of a folder, as `resources/directory/read` answers it. */
export interface OfferedDirectory {
  readonly resources: readonly OfferedResource[];
}

export type OfferingChange =
  | { readonly kind: "prompts" | "resources" | "skills" }
  /** The content of a resource is another one. */
  | { readonly kind: "resource"; readonly uri: string };

/**
 * A place that prompts, resources and skills come from. Everything but the key is optional. Every function may be
 * called at any time and any number of times at once; may throw or reject, and then the reader is told the message,
 * while lists go on without this source. What a reader may not use, a source leaves out and does not answer to.
 */
export interface OfferingSource {
  /** Unique and stable; sources are listed in the order of their keys. */
  readonly key: string;
  prompts?(reader: OfferingReader): readonly OfferedPrompt[] | Promise<readonly OfferedPrompt[]>;
  /** Undefined: this source has no such prompt. */
  getPrompt?(
    name: string,
    args: Readonly<Record<string, string>>,
    reader: OfferingReader,
  ): Promise<PromptAnswer | undefined>;
  resources?(reader: OfferingReader): readonly OfferedResource[] | Promise<readonly OfferedResource[]>;
  resourceTemplates?(
    reader: OfferingReader,
  ): readonly OfferedTemplate[] | Promise<readonly OfferedTemplate[]>;
  /**
   * When a result of this source last linked to this address, on the `performance` clock. Undefined: never, or not in a
   * result that this reader may see.
   */
  linkedAt?(uri: string, reader: OfferingReader): number | undefined;
  /**
   * Undefined: this source has no such resource. Asked only for what the source lists for this reader, has linked to, or
   * has a template for.
   */
  readResource?(uri: string, reader: OfferingReader): Promise<ResourceAnswer | undefined>;
  /** Undefined: what it refers to is not of this source. */
  complete?(request: CompletionRequest, reader: OfferingReader): Promise<CompletionAnswer | undefined>;
  /**
   * Begins to tell listeners of changes of this resource, until the function that it answers is called. Undefined:
   * this source has no such resource. Called once for each URI, however many wait for it.
   */
  watchResource?(uri: string): (() => void) | undefined;
  skills?(reader: OfferingReader): readonly OfferedSkill[] | Promise<readonly OfferedSkill[]>;
  /** One level of a folder below a skill. Undefined: not of this source. */
  readDirectory?(uri: string, reader: OfferingReader): Promise<OfferedDirectory | undefined>;
  /** Answers how to stop being told. */
  subscribe?(listener: (change: OfferingChange) => void): () => void;
}

/** The schemes whose addresses the rack itself answers for, and by which source. Nobody else can put something there. */
const reserved: ReadonlyMap<string, string | undefined> = new Map([
  ["skill", "skills"],
  ["toolrack", undefined],
]);

/** Whether an address, or a template of addresses, is not for the source with this key. */
export function isReservedFrom(sourceKey: string, uri: string): boolean {
  const scheme = uri.slice(0, Math.max(uri.indexOf(":"), 0)).toLowerCase();
  return reserved.has(scheme) && reserved.get(scheme) !== sourceKey;
}
