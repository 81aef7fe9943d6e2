import type { Mask } from "@toolrack/core/internal";
import { v7 as uuid } from "uuid";
import type { ModelTraits } from "../config/index.ts";
import { isRecord, tidySum } from "../helpers/index.ts";

type Members = Readonly<Record<string, unknown>>;

/** One model of one provider, and how it is reached. */
export interface ModelEndpoint {
  readonly provider: string;
  /** The base URL: its path has no slash at the end. It is split once, because that takes 6 µs. */
  readonly url: { readonly origin: string; readonly path: string; readonly query: string };
  /**
   * The base URL as written in the config, to show to people. References like `${NAME}` are not filled in.
   */
  readonly address: string;
  readonly apiKey: string | undefined;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Masks what the provider and its models say: the secrets of the workspace, as they are now, and those of the provider,
   * without ordinary words of its headers.
   */
  readonly mask: () => Mask;
  /** The provider's name of the model. */
  readonly model: string;
  /** `tags`: the model has no native tool calls and writes them into its text. */
  readonly toolCalls: "native" | "tags";
  readonly images: boolean;
  /** What a million tokens cost. */
  readonly price?: ModelTraits["price"];
  /** Context window in tokens. Undefined: the chat's own setting applies. */
  readonly contextTokens: number | undefined;
  /** `tags`: the model writes its reasoning into its text, between `<think>` and `</think>`. */
  readonly reasoning: "native" | "tags";
  /** After this many seconds without a byte the provider is given up. */
  readonly idleSeconds: number;
  /** The models that may answer instead if this one fails, in their order. */
  readonly alternatives?: readonly ModelEndpoint[];
}

/** A message of OpenAI's Chat Completions. Members that are not named here are passed on unchanged. */
export interface ModelMessage extends Members {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: string | readonly ModelContentPart[] | null;
  readonly tool_calls?: readonly ModelToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

export interface ModelContentPart extends Members {
  readonly type: string;
  readonly text?: string;
}

/**
 * A call with JSON arguments, or a call of a `custom` tool with any text as input. Members that are not named
 * here are the provider's.
 */
export interface ModelToolCall extends Members {
  readonly id: string;
  /** `function`, `custom`, or another type that the client declared for its tool. */
  readonly type: string;
  readonly function?: { readonly name: string; readonly arguments: string };
  readonly custom?: { readonly name: string; readonly input: string };
}

/** An entry of `tools` in a request: a tool of the rack or of the client. */
export interface ModelTool extends Members {
  readonly type: string;
  readonly function?: Members;
  readonly custom?: Members;
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
export function calledIn({ custom, function: called }: ModelToolCall): { name: string; written: string } {
  if (custom !== undefined) return { name: custom.name, written: custom.input };
  return { name: called?.name ?? "", written: called?.arguments ?? "" };
}

/** `kind`: the type of the call. `written`: its arguments, or the input of a `custom` tool. */
export function newCall(name: string, written: string, kind = "function", id = newCallId()): ModelToolCall {
  if (kind === "custom") return { id, type: kind, custom: { name, input: written } };
  return { id, type: kind, function: { name, arguments: written } };
}

export function newCallId(): string {
  return `call_${uuid().replaceAll("-", "")}`;
}

/** The text of a message, without images and other parts. */
export function textOf({ content }: Pick<ModelMessage, "content">): string {
  if (typeof content === "string") return content;
  return (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("");
}

/**
 * The first user message of a conversation. It decides which tools are offered when not all fit, so that the
 * choice stays the same.
 */
export function topicOf(messages: readonly ModelMessage[]): string {
  return textOf(messages.find(({ role }) => role === "user") ?? {});
}

/** Token counts of one request. */
export interface ModelUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** For example how many of the prompt's tokens were read from the provider's cache. */
  readonly prompt_tokens_details?: Members | null | undefined;
  readonly completion_tokens_details?: Members | null | undefined;
  /** What it costs by the config's prices, or else what the provider says that it costs. */
  readonly cost?: number;
  /** Some of the tokens are estimated, because the provider did not count them, or not in a way that can be used. */
  readonly estimated?: true;
}

export const noUsage: ModelUsage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** Token counts above this are taken for mistakes of the provider and ignored. */
const MOST_TOKENS = 1_000_000_000;

/** The counts and the cost that a provider sent, which may be of any form; undefined when it sent none. */
export function usableCounts(sent: unknown): Partial<ModelUsage> | undefined {
  if (!isRecord(sent)) return undefined;
  const entries = Object.entries(sent).flatMap(([key, value]): [string, unknown][] => {
    if (/^(?:prompt|completion|total)_tokens$/.test(key)) return isCount(value) ? [[key, value]] : [];
    if (key === "cost") return typeof value === "number" && value >= 0 ? [[key, value]] : [];
    if (!/^(?:prompt|completion)_tokens_details$/.test(key) || !isRecord(value)) return [];
    return [[key, Object.fromEntries(Object.entries(value).filter(isDetail))]];
  });
  return Object.fromEntries(entries);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MOST_TOKENS;
}

function isDetail([key, value]: [string, unknown]): boolean {
  return /^\w{1,40}_tokens$/.test(key) && isCount(value);
}

/**
 * The counts of a request, with `estimated` ones in place of those that the provider did not send, or that cannot be
 * true: no request is empty, and no text has no tokens. `isCut`: the answer did not reach its end, so that the counts
 * in it, if any, are of an earlier moment.
 */
export function wholeUsage(
  counts: Partial<ModelUsage>,
  estimated: { readonly prompt: () => number; readonly completion: number },
  isCut: boolean,
): ModelUsage {
  const { prompt_tokens: prompt = 0, completion_tokens: completion = 0, total_tokens: total = 0 } = counts;
  const isPromptKnown = prompt > 0;
  const isCompletionKnown = !isCut && (completion > 0 || estimated.completion === 0);
  const prompt_tokens = isPromptKnown ? prompt : estimated.prompt();
  const completion_tokens = isCompletionKnown ? completion : Math.max(completion, estimated.completion);
  const isKnown = isPromptKnown && isCompletionKnown;
  const sum = prompt_tokens + completion_tokens;
  return {
    ...counts,
    prompt_tokens,
    completion_tokens,
    // Some providers count reasoning in the total only.
    total_tokens: isKnown ? Math.max(total, sum) : sum,
    ...(isKnown ? {} : { estimated: true }),
  };
}

export function cachedTokensOf({ prompt_tokens, prompt_tokens_details }: ModelUsage): number {
  return Math.min(Number(prompt_tokens_details?.cached_tokens ?? 0), prompt_tokens);
}

/** What a request costs: by the config's prices, which are for a million tokens, or else what the provider says, if anything. */
export function costOf(price: ModelEndpoint["price"], usage: ModelUsage): number | undefined {
  if (price === undefined) return usage.cost;
  const { input = 0, output = 0, cachedInput = input } = price;
  const cached = cachedTokensOf(usage);
  const { prompt_tokens, completion_tokens } = usage;
  const millionths = (prompt_tokens - cached) * input + cached * cachedInput + completion_tokens * output;
  return tidySum(millionths / 1_000_000);
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
    ...((one.cost ?? other.cost) !== undefined && { cost: tidySum((one.cost ?? 0) + (other.cost ?? 0)) }),
    ...((one.estimated || other.estimated) && { estimated: true }),
  };
}

function addDetails(one: Members | null | undefined, other: Members | null | undefined): Members | undefined {
  if (!one && !other) return undefined;
  const sums: Record<string, number> = {};
  for (const [key, count] of [...Object.entries(one ?? {}), ...Object.entries(other ?? {})]) {
    if (typeof count === "number") sums[key] = (sums[key] ?? 0) + count;
  }
  return sums;
}
