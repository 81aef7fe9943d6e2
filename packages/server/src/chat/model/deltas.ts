import { v7 as uuid } from "uuid";
import type { ModelToolCall } from "./providers.ts";

/** What a chunk added. */
export interface Shown extends Pick<DeltaContent, "text" | "reasoning" | "refusal"> {
  /** Of the arguments of calls. */
  readonly written: string;
  /** Characters of what else is kept of it. */
  readonly kept: number;
  /** Of its text, where somebody asked for them. */
  readonly logprobs: unknown;
}

/** What else is said of an answer, under the provider's own names: `system_fingerprint`, `logprobs` and the like. */
export type AnswerFacts = Readonly<Record<string, unknown>>;

interface Slot {
  id: string;
  isCustom: boolean;
  name: string;
  /** Or the input of a `custom` tool. */
  arguments: string;
  extra: Record<string, unknown> | undefined;
}

/**
 * Puts the pieces of a streamed answer together. The same stream gives the same calls however it was cut. Pieces of a
 * call belong together by `index`; where a provider leaves that out, or gives all calls the same, by their ids and order.
 */
export class DeltaMerger {
  readonly #slots: Slot[] = [];
  readonly #byIndex = new Map<number, Slot>();
  text = "";
  reasoning = "";
  refusal = "";
  /** What the provider calls its reasoning. */
  reasoningField: DeltaContent["reasoningField"];
  readonly reasoningDetails: Record<string, unknown>[] = [];
  finishReason: string | undefined;
  usage: ModelUsage | undefined;
  readonly #facts: Record<string, unknown> = {};
  readonly #logprobs: Record<string, unknown[]> = {};
  /** Whether the model has said anything at all. */
  hasBegun = false;

  add({ choices, usage, system_fingerprint, service_tier }: CompletionChunk): Shown {
    if (usage) this.usage = wholeUsage(usage);
    if (system_fingerprint) this.#facts.system_fingerprint = system_fingerprint;
    if (service_tier) this.#facts.service_tier = service_tier;
    const choice = choices?.find(({ index = 0 }) => index === 0);
    if (typeof choice?.finish_reason === "string") this.finishReason = choice.finish_reason;
    const said = readDelta(choice?.delta);
    const { text, reasoning, refusal, pieces, details } = said;
    this.text += text;
    this.reasoning += reasoning;
    this.refusal += refusal;
    this.reasoningField ??= said.reasoningField;
    for (const detail of details) this.#mergeDetail(detail);
    const annotations = choice?.delta?.annotations;
    if (Array.isArray(annotations) && annotations.length > 0) this.#facts.annotations = annotations;
    this.#addLogprobs(choice?.logprobs);
    const merged = pieces.map((piece) => this.#merge(piece));
    if (saysSomething(said)) this.hasBegun = true;
    const kept = merged.reduce((sum, piece) => sum + piece.kept, sizeOf(details));
    const written = merged.map((piece) => piece.written).join("");
    return { text, reasoning, refusal, written, kept, logprobs: choice?.logprobs ?? undefined };
  }

  get facts(): AnswerFacts {
    const { content = null, refusal = null } = this.#logprobs;
    return { ...this.#facts, ...(content || refusal ? { logprobs: { content, refusal } } : {}) };
  }

  /** How many calls were begun. */
  get begun(): number {
    return this.#slots.length;
  }

  /** In the order in which they were begun. Every one has an id that no other has. */
  calls(): ModelToolCall[] {
    const taken = new Set<string>();
    return this.#slots.map((slot) => {
      if (slot.id === "" || taken.has(slot.id)) slot.id = `call_${uuid().replaceAll("-", "")}`;
      taken.add(slot.id);
      const { id, isCustom, name, arguments: written, extra } = slot;
      if (isCustom) return { ...extra, id, type: "custom", custom: { name, input: written } };
      return { ...extra, id, type: "function", function: { name, arguments: written } };
    });
  }

  #merge(piece: ToolCallDelta): { written: string; kept: number } {
    const slot = this.#slotOf(piece);
    const { index: _index, id, type: _type, function: _function, custom: _custom, ...extra } = piece;
    const { name, written } = calledBy(piece);
    slot.isCustom ||= isCustomPiece(piece);
    if (slot.id === "") slot.id = stringOf(id);
    // Some repeat the name with every piece, some cut it like the arguments.
    if (name !== slot.name && slot.arguments === "") slot.name += name;
    slot.arguments += written;
    const told = Object.entries(extra).filter(([, value]) => value !== null && value !== undefined);
    if (told.length > 0) slot.extra = { ...slot.extra, ...Object.fromEntries(told) };
    return { written, kept: name.length + stringOf(id).length + sizeOf(told) };
  }

  #slotOf(piece: ToolCallDelta): Slot {
    const id = stringOf(piece.id);
    const index = typeof piece.index === "number" ? piece.index : undefined;
    const known = index === undefined ? this.#withoutIndex(id, piece) : this.#byIndex.get(index);
    if (known !== undefined && !isAnother(known, id, piece)) return known;
    const slot = { id: "", isCustom: false, name: "", arguments: "", extra: undefined };
    this.#slots.push(slot);
    if (index !== undefined) this.#byIndex.set(index, slot);
    return slot;
  }

  #withoutIndex(id: string, piece: ToolCallDelta): Slot | undefined {
    if (id !== "") return this.#slots.find((slot) => slot.id === id);
    // A name where arguments have begun is the beginning of the next call.
    const last = this.#slots.at(-1);
    const begins = calledBy(piece).name !== "" && last?.arguments !== "";
    return begins ? undefined : last;
  }

  #addLogprobs(logprobs: unknown): void {
    for (const key of ["content", "refusal"]) {
      const added = objectsIn((Object(logprobs) as Record<string, unknown>)[key]);
      if (added.length === 0) continue;
      const known = this.#logprobs[key] ?? [];
      for (const one of added) if (known.length < MOST_LOGPROBS) known.push(one);
      this.#logprobs[key] = known;
    }
  }

  /** Pieces of one detail have the same `index` and `type`; their texts are cut like all others. */
  #mergeDetail(piece: Record<string, unknown>): void {
    const last = this.reasoningDetails.findLast(
      ({ index, type }) => index !== undefined && index === piece.index && type === piece.type,
    );
    if (last === undefined) {
      this.reasoningDetails.push({ ...piece });
      return;
    }
    for (const [key, value] of Object.entries(piece)) {
      const isText = streamedDetails.has(key) && typeof value === "string";
      if (isText) last[key] = stringOf(last[key]) + value;
      else if (value !== null && value !== undefined) last[key] = value;
    }
  }
}

/** Tokens of one answer whose probabilities are kept. */
const MOST_LOGPROBS = 100_000;

/** Members of a detail that come in pieces. */
const streamedDetails = new Set(["text", "summary", "data"]);

/** Whether a piece begins another call than the one that its index says. */
function isAnother(slot: Slot, id: string, piece: ToolCallDelta): boolean {
  const { id: known, isCustom, arguments: before } = slot;
  const { name, written } = calledBy(piece);
  if (name === "") return false;
  if (id !== "") return known !== "" && known !== id;
  // Where any text is an input, none is known to be whole.
  if (isCustom) return false;
  // Some give all calls the index 0 and no id: one whose arguments are whole has ended.
  return written.trim() !== "" && isWhole(before);
}

/** Later pieces of a `custom` call may say neither `type` nor name. */
function isCustomPiece({ type, custom }: ToolCallDelta): boolean {
  return type === "custom" || (typeof custom === "object" && custom !== null);
}

function calledBy(piece: ToolCallDelta): { name: string; written: string } {
  const { function: called, custom } = piece;
  if (isCustomPiece(piece)) return { name: stringOf(custom?.name), written: stringOf(custom?.input) };
  return { name: stringOf(called?.name), written: argumentsOf(called?.arguments) };
}

function isWhole(written: string): boolean {
  if (!written.trimEnd().endsWith("}")) return false;
  try {
    JSON.parse(written);
    return true;
  } catch {
    return false;
  }
}

/** Some servers send the arguments as the object that they are. */
function argumentsOf(value: unknown): string {
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return stringOf(value);
}

function sizeOf(list: readonly unknown[]): number {
  return list.length === 0 ? 0 : JSON.stringify(list).length;
}

function wholeUsage(usage: Partial<ModelUsage>): ModelUsage {
  const prompt_tokens = countOf(usage.prompt_tokens);
  const completion_tokens = countOf(usage.completion_tokens);
  const total_tokens = countOf(usage.total_tokens) || prompt_tokens + completion_tokens;
  return { ...usage, prompt_tokens, completion_tokens, total_tokens };
}

function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

/** What a delta says, whichever of their forms the provider uses. */
interface DeltaContent {
  readonly text: string;
  readonly reasoning: string;
  /** What the provider calls its reasoning, where it is a field of its own. */
  readonly reasoningField: "reasoning_content" | "reasoning" | undefined;
  /** Pieces of `reasoning_details`. */
  readonly details: readonly Record<string, unknown>[];
  readonly refusal: string;
  readonly pieces: readonly ToolCallDelta[];
}

export function readDelta(delta: CompletionDelta | null | undefined): DeltaContent {
  const { content, reasoning_content, reasoning, reasoning_details, refusal, ...asked } = Object(
    delta,
  ) as CompletionDelta;
  const thought = stringOf(reasoning_content) || stringOf(reasoning);
  return {
    text: partsText(content, "text"),
    reasoning: thought + thinkingIn(content),
    reasoningField:
      thought === "" ? undefined : stringOf(reasoning_content) ? "reasoning_content" : "reasoning",
    details: objectsIn(reasoning_details),
    refusal: stringOf(refusal),
    pieces: piecesOf(asked),
  };
}

export function saysSomething({ text, reasoning, details, refusal, pieces }: DeltaContent): boolean {
  return text !== "" || reasoning !== "" || refusal !== "" || details.length > 0 || pieces.length > 0;
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Text is a text, or a list of parts of which some are text. */
function partsText(value: unknown, type: string): string {
  if (typeof value === "string") return value;
  return objectsIn(value)
    .map((part) => (part.type === type ? stringOf(part.text) : ""))
    .join("");
}

/** Some models of Mistral think in parts of the content. */
function thinkingIn(content: unknown): string {
  return objectsIn(content)
    .map((part) => (part.type === "thinking" ? partsText(part.thinking, "text") : ""))
    .join("");
}

function piecesOf({ tool_calls, function_call }: CompletionDelta): ToolCallDelta[] {
  if (Array.isArray(tool_calls)) return objectsIn(tool_calls) as ToolCallDelta[]; // Their members are looked at later.
  // The older form, of one call.
  if (typeof function_call !== "object" || function_call === null) return [];
  return [{ index: 0, function: function_call }];
}

/** What a provider counts of one request. What else it counts is passed on as it is. */
export interface ModelUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** How many of them were read from the prompt cache, and the like. */
  readonly prompt_tokens_details?: UsageDetails;
  readonly completion_tokens_details?: UsageDetails;
}

type UsageDetails = Readonly<Record<string, unknown>> | null;

interface ToolCallDelta {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly type?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
  /** Of a tool whose input is any text. */
  readonly custom?: { readonly name?: unknown; readonly input?: unknown };
  /** Such as `extra_content`, in which Gemini signs its thoughts. */
  readonly [key: string]: unknown;
}

/** What a chunk may say. Providers leave out, repeat and add; only what is named here is looked at, and carefully. */
interface CompletionDelta {
  readonly content?: unknown;
  readonly reasoning_content?: unknown;
  readonly reasoning?: unknown;
  readonly reasoning_details?: unknown;
  readonly refusal?: unknown;
  readonly annotations?: unknown;
  readonly tool_calls?: unknown;
  readonly function_call?: unknown;
}

interface CompletionChoice {
  readonly index?: number;
  readonly delta?: CompletionDelta | null;
  readonly finish_reason?: string | null;
  readonly logprobs?: unknown;
}

export interface CompletionChunk {
  readonly choices?: readonly CompletionChoice[];
  readonly usage?: Partial<ModelUsage> | null;
  readonly error?: unknown;
  readonly system_fingerprint?: unknown;
  readonly service_tier?: unknown;
}

/** What came as an event of a stream. A choice that is no object says nothing. */
export function toChunk(value: unknown): CompletionChunk {
  const { choices, ...rest } = Object(value) as Record<string, unknown>;
  return { ...rest, choices: objectsIn(choices) };
}

/** A whole completion as the one chunk that a stream of it could have been: some servers never stream. */
export function toOnlyChunk(completion: unknown): CompletionChunk {
  const { choices, ...rest } = toChunk(completion);
  return {
    ...rest,
    // They are looked at once more where they are read.
    choices: (choices as readonly Record<string, unknown>[]).map((choice) => ({
      index: Number(choice.index ?? 0),
      delta: Object(choice.message) as CompletionDelta,
      finish_reason: typeof choice.finish_reason === "string" ? choice.finish_reason : "stop",
      ...(choice.logprobs ? { logprobs: choice.logprobs } : {}),
    })),
  };
}

/** The members of a list that are objects; none of what is no list. */
function objectsIn(value: unknown): Record<string, unknown>[] {
  if (!Array.isArray(value)) return [];
  return value.filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
}

/** The tokens of both. */
export function addUsage(one: ModelUsage, other: ModelUsage): ModelUsage {
  const prompt = addDetails(one.prompt_tokens_details, other.prompt_tokens_details);
  const completion = addDetails(one.completion_tokens_details, other.completion_tokens_details);
  return {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    ...(prompt === undefined ? {} : { prompt_tokens_details: prompt }),
    ...(completion === undefined ? {} : { completion_tokens_details: completion }),
  };
}

function addDetails(
  one: UsageDetails | undefined,
  other: UsageDetails | undefined,
): UsageDetails | undefined {
  if (!one && !other) return undefined;
  const sums: Record<string, number> = {};
  for (const [key, count] of [one, other].flatMap((details) => Object.entries(details ?? {}))) {
    if (typeof count === "number") sums[key] = (sums[key] ?? 0) + count;
  }
  return sums;
}
