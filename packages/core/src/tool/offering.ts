import { DefinitionError } from "./define.ts";
import type { ContentBlock } from "./result.ts";
import type { CallClient } from "./types.ts";

/** What the functions of a prompt or a resource are told about their caller. */
export interface OfferingContext {
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
  /** The caller, if it can answer questions. */
  readonly client: CallClient | undefined;
  /** The caller's name, as in records. */
  readonly caller: string;
}

/** Suggests values for the text typed so far; `others` are the arguments or variables that are filled in already. */
type Complete = (
  typed: string,
  others: Readonly<Record<string, string>>,
  context: OfferingContext,
) => readonly string[] | Promise<readonly string[]>;

/** One message that a prompt makes. */
export interface PromptMessage {
  readonly role: "user" | "assistant";
  readonly content: ContentBlock;
}

/** An argument of a prompt that a person fills in. */
export interface PromptArgument {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly complete?: Complete;
}

/** What an author hands to `Prompt.define`. */
export interface PromptConfig {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly arguments?: readonly PromptArgument[];
  /**
   * Makes the messages of the prompt. A returned text becomes one message of the user. If the function
   * throws, the caller gets the error's message.
   */
  readonly messages: (
    args: Readonly<Record<string, string>>,
    context: OfferingContext,
  ) => string | readonly PromptMessage[] | Promise<string | readonly PromptMessage[]>;
}

/**
 * Prompts and resources are recognised by these symbols, not by a class, because a workspace may have its own
 * copy of this package.
 */
const promptBrand = Symbol.for("toolrack.prompt");
const resourceBrand = Symbol.for("toolrack.resource");

function hasBrand(value: unknown, brand: symbol): boolean {
  return typeof value === "object" && value !== null && Reflect.get(value, brand) === true;
}

function requireName(name: unknown, kind: string): void {
  if (typeof name === "string" && name.trim() !== "") return;
  throw new DefinitionError(`A ${kind} needs a name: a text that is not empty.`, "name");
}

/** A prompt: messages for a model, made from arguments that a person fills in. */
export interface PromptInfo extends PromptConfig {
  readonly arguments: readonly PromptArgument[];
}

/** Throws `DefinitionError` when something is missing or wrong, naming the field. */
export function definePrompt(config: PromptConfig): PromptInfo {
  const { name, messages } = config;
  requireName(name, "prompt");
  if (typeof messages !== "function") {
    throw new DefinitionError(
      `The prompt "${name}" needs messages: a function that returns a text or messages.`,
      "messages",
    );
  }
  const given = config.arguments ?? [];
  const names = given.map((argument) => argument.name);
  const twice = names.find((one, index) => names.indexOf(one) !== index);
  if (twice !== undefined) {
    throw new DefinitionError(`The prompt "${name}" has the argument "${twice}" twice.`, "arguments");
  }
  return Object.freeze({ ...config, arguments: Object.freeze([...given]), [promptBrand]: true });
}

export function isPrompt(value: unknown): value is PromptInfo {
  return hasBrand(value, promptBrand);
}

/** One part of what a resource holds: text, or bytes in base64. */
export interface ResourceContents {
  readonly uri: string;
  readonly mimeType?: string;
  readonly text?: string;
  readonly blob?: string;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** What `read` may return: a text, bytes, or parts with URIs of their own. */
export type ResourceBody = string | Uint8Array | readonly ResourceContents[];

interface ResourceDescription {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
}

export interface FixedResourceConfig extends ResourceDescription {
  readonly uri: string;
  readonly size?: number;
  /** If the function throws, the caller gets the error's message. */
  readonly read: (context: OfferingContext) => ResourceBody | Promise<ResourceBody>;
  /** Calls `changed` whenever the content changes. Returns a function that stops the watching. */
  readonly watch?: (changed: () => void) => () => void;
}

export interface ResourceTemplateConfig extends ResourceDescription {
  /**
   * Such as `notes://{folder}/{name}`. A variable `{name}` stands for one segment, `{+name}` for any number
   * of segments.
   */
  readonly uriTemplate: string;
  /** Returns undefined when there is no such resource. */
  readonly read: (
    variables: Readonly<Record<string, string>>,
    context: OfferingContext,
  ) => ResourceBody | undefined | Promise<ResourceBody | undefined>;
  /** Suggests values for variables, by name. */
  readonly complete?: Readonly<Record<string, Complete>>;
}

/** What an author hands to `Resource.define`. */
export type ResourceConfig = FixedResourceConfig | ResourceTemplateConfig;

/** Something that can be read by its URI. */
export type ResourceInfo = ResourceConfig;

/** Throws `DefinitionError` when something is missing or wrong, naming the field. */
export function defineResource(config: FixedResourceConfig): FixedResourceConfig;
export function defineResource(config: ResourceTemplateConfig): ResourceTemplateConfig;
export function defineResource(config: ResourceConfig): ResourceConfig {
  const { name, read } = config;
  const place = "uri" in config ? config.uri : config.uriTemplate;
  requireName(name, "resource");
  if (typeof place !== "string" || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(place)) {
    throw new DefinitionError(
      `The resource "${name}" needs a uri or a uriTemplate with a scheme, such as notes://{id}.`,
      "uri" in config ? "uri" : "uriTemplate",
    );
  }
  if (typeof read !== "function") {
    throw new DefinitionError(`The resource "${name}" needs read: a function that returns it.`, "read");
  }
  return Object.freeze({ ...config, [resourceBrand]: true });
}

export function isResource(value: unknown): value is ResourceInfo {
  return hasBrand(value, resourceBrand);
}
