import { v7 as uuid } from "uuid";

type Members = Readonly<Record<string, unknown>>;

/** One model of one provider, and how it is reached. */
export interface ModelEndpoint {
  readonly provider: string;
  /** Without a slash at the end. */
  readonly baseURL: string;
  /** The address as written in the config, with unfilled references, to show to people. */
  readonly address: string;
  readonly apiKey: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Values to mask in messages, in every form in which they may be written. */
  readonly secrets: readonly string[];
  /** The provider's name of the model. */
  readonly model: string;
  /** `tags`: the model has no native tool calls and writes them into its text. */
  readonly toolCalls: "native" | "tags";
  readonly images: boolean;
  /** Context window. Undefined: the chat's own setting. */
  readonly contextTokens: number | undefined;
}

/** A message of Chat Completions. Other members are passed on unchanged. */
export interface ModelMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: string | readonly ModelContentPart[] | null;
  readonly tool_calls?: readonly ModelToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
  readonly [key: string]: unknown;
}

export interface ModelContentPart {
  readonly type: string;
  readonly text?: string;
  readonly [key: string]: unknown;
}

/** A call with JSON arguments, or a call of a `custom` tool with any text as input. */
export type ModelToolCall = ModelFunctionCall | ModelCustomCall;

interface ModelFunctionCall {
  readonly id: string;
  /** `function`, or another type that the client declared for its tool. */
  readonly type: string;
  readonly function: { readonly name: string; readonly arguments: string };
  readonly custom?: undefined;
  /** Other members from the provider. */
  readonly [key: string]: unknown;
}

interface ModelCustomCall {
  readonly id: string;
  readonly type: "custom";
  readonly custom: { readonly name: string; readonly input: string };
  readonly function?: undefined;
  readonly [key: string]: unknown;
}

/** A member of `tools`, ours or the client's. */
export interface ModelTool {
  readonly type: string;
  readonly function?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly custom?: { readonly name?: unknown; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/**
 * The name by which the model calls a tool; undefined for tools without one, such as those that the provider runs
 * itself.
 */
export function nameOf({ type, function: described, custom }: ModelTool): string | undefined {
  const name = type === "custom" ? custom?.name : described?.name;
  return typeof name === "string" && name !== "" ? name : undefined;
}

/** `written`: the arguments, or the input of a `custom` tool. */
export function calledIn(call: ModelToolCall): { readonly name: string; readonly written: string } {
  if (call.custom !== undefined) return { name: call.custom.name, written: call.custom.input };
  return { name: call.function.name, written: call.function.arguments };
}

/** The text of a message, without images and other parts. */
export function textOf({ content }: Pick<ModelMessage, "content">): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("");
}

export function newCallId(): string {
  return `call_${uuid().replaceAll("-", "")}`;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Parses a JSON object; undefined for any other text. */
export function parsedObject(written: string): object | undefined {
  try {
    const value: unknown = JSON.parse(written);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Token counts of one request. Other members are passed on unchanged. */
export interface ModelUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** For example how many were read from the prompt cache. */
  readonly prompt_tokens_details?: Members | null | undefined;
  readonly completion_tokens_details?: Members | null | undefined;
}

/** The provider's counts, with missing numbers filled in. */
export function wholeUsage(usage: Partial<ModelUsage>): ModelUsage {
  const countOf = (value: unknown) => (typeof value === "number" && value > 0 ? value : 0);
  const prompt_tokens = countOf(usage.prompt_tokens);
  const completion_tokens = countOf(usage.completion_tokens);
  const total_tokens = countOf(usage.total_tokens) || prompt_tokens + completion_tokens;
  return { ...usage, prompt_tokens, completion_tokens, total_tokens };
}

export function addUsage(one: ModelUsage, other: ModelUsage): ModelUsage {
  const prompt = addDetails(one.prompt_tokens_details, other.prompt_tokens_details);
  const completion = addDetails(one.completion_tokens_details, other.completion_tokens_details);
  return {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(prompt && { prompt_tokens_details: prompt }),
    ...(completion && { completion_tokens_details: completion }),
  };
}

function addDetails(...given: readonly (Members | null | undefined)[]): Members | undefined {
  const known = given.filter((details) => details !== null && details !== undefined);
  if (known.length === 0) return undefined;
  const sums: Record<string, number> = {};
  for (const [key, count] of known.flatMap((details) => Object.entries(details))) {
    if (typeof count === "number") sums[key] = (sums[key] ?? 0) + count;
  }
  return sums;
}
