import { DefinitionError } from "../tool/definition-error.ts";
import type { OfferingContext } from "./offering-context.ts";

/** One part of what a resource holds: text, or bytes in base64. */
export interface ResourceContents {
  readonly uri: string;
  readonly mimeType?: string;
  readonly text?: string;
  readonly blob?: string;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** What a read may return: a text, bytes, or parts with URIs of their own. */
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
  /** May throw: the caller is told its message. */
  readonly read: (context: OfferingContext) => ResourceBody | Promise<ResourceBody>;
  /** Calls `changed` whenever the content is another one, until the function that it returns is called. */
  readonly watch?: (changed: () => void) => () => void;
}

export interface ResourceTemplateConfig extends ResourceDescription {
  /** `notes://{folder}/{name}`; a variable stands for one segment, `{+name}` for any number. */
  readonly uriTemplate: string;
  /** Undefined when there is no such resource. */
  readonly read: (
    variables: Readonly<Record<string, string>>,
    context: OfferingContext,
  ) => ResourceBody | undefined | Promise<ResourceBody | undefined>;
  /** What a variable may be, for each by its name. */
  readonly complete?: Readonly<
    Record<
      string,
      (
        typed: string,
        others: Readonly<Record<string, string>>,
        context: OfferingContext,
      ) => readonly string[] | Promise<readonly string[]>
    >
  >;
}

export type ResourceConfig = FixedResourceConfig | ResourceTemplateConfig;

/** Something that can be read by its URI. */
export type ResourceInfo = ResourceConfig;

const brand = Symbol.for("toolrack.resource");

/** Throws `DefinitionError` when it could not be served. */
export function defineResource(config: FixedResourceConfig): FixedResourceConfig;
export function defineResource(config: ResourceTemplateConfig): ResourceTemplateConfig;
export function defineResource(config: ResourceConfig): ResourceConfig {
  const { name, read } = config;
  const place = "uri" in config ? config.uri : config.uriTemplate;
  if (typeof name !== "string" || name.trim() === "") {
    throw new DefinitionError("A resource needs a name: a text that is not empty.", "name");
  }
  if (typeof place !== "string" || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(place)) {
    throw new DefinitionError(
      `The resource "${name}" needs a uri or a uriTemplate with a scheme, such as notes://{id}.`,
      "uri" in config ? "uri" : "uriTemplate",
    );
  }
  if (typeof read !== "function") {
    throw new DefinitionError(`The resource "${name}" needs read: a function that returns it.`, "read");
  }
  return Object.freeze({ ...config, [brand]: true });
}

/** Recognised by its brand: a workspace may have its own copy of this package. */
export function isResource(value: unknown): value is ResourceInfo {
  return typeof value === "object" && value !== null && (value as { [brand]?: unknown })[brand] === true;
}
