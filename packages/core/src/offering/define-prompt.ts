import { DefinitionError } from "../tool/definition-error.ts";
import type { ContentBlock } from "../tool/result.ts";
import type { OfferingContext } from "./offering-context.ts";

export interface PromptMessage {
  readonly role: "user" | "assistant";
  readonly content: ContentBlock;
}

export interface PromptArgument {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly required?: boolean;
  /** What a person may mean who has typed so far; `others` has the arguments that are filled in already. */
  readonly complete?: (
    typed: string,
    others: Readonly<Record<string, string>>,
    context: OfferingContext,
  ) => readonly string[] | Promise<readonly string[]>;
}

export interface PromptConfig {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly arguments?: readonly PromptArgument[];
  /** Makes the messages. A text is one message of the user. May throw: the caller is told its message. */
  readonly messages: (
    args: Readonly<Record<string, string>>,
    context: OfferingContext,
  ) => string | readonly PromptMessage[] | Promise<string | readonly PromptMessage[]>;
}

const brand = Symbol.for("toolrack.prompt");

/** A text with gaps that a person picks, fills in and gives to a model. */
export interface PromptInfo extends PromptConfig {
  readonly arguments: readonly PromptArgument[];
}

/** Throws `DefinitionError` when it could not be served. */
export function definePrompt(config: PromptConfig): PromptInfo {
  const { name, messages } = config;
  if (typeof name !== "string" || name.trim() === "") {
    throw new DefinitionError("A prompt needs a name: a text that is not empty.", "name");
  }
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
  return Object.freeze({ ...config, arguments: Object.freeze([...given]), [brand]: true });
}

/** Recognised by its brand: a workspace may have its own copy of this package. */
export function isPrompt(value: unknown): value is PromptInfo {
  return typeof value === "object" && value !== null && (value as { [brand]?: unknown })[brand] === true;
}
