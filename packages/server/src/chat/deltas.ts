import { isJson, type ModelToolCall, type ModelUsage, newCallId, wholeUsage } from "./model.ts";

type Members = Readonly<Record<string, unknown>>;

/** A chunk from a provider. Providers omit, repeat and add members, so these are all read with care. */
export interface CompletionChunk {
  readonly choices: readonly CompletionChoice[];
  readonly usage?: Partial<ModelUsage> | null;
  readonly error?: unknown;
  readonly system_fingerprint?: unknown;
  readonly service_tier?: unknown;
}

interface CompletionChoice {
  readonly index?: number;
  readonly delta?: unknown;
  readonly finish_reason?: unknown;
  readonly logprobs?: unknown;
}

/** Reads the data of one event. Choices that are not objects are dropped. */
export function toChunk(value: unknown): CompletionChunk {
  return { ...Object(value), choices: objectsIn(Object(value).choices) };
}

/** Turns a whole completion into one chunk, because some servers never stream. */
export function toOnlyChunk(completion: unknown): CompletionChunk {
  const choices = objectsIn(Object(completion).choices).map(
    ({ index, message, finish_reason, logprobs }) => ({
      index: Number(index ?? 0),
      delta: message,
      finish_reason: typeof finish_reason === "string" ? finish_reason : "stop",
      logprobs: logprobs || undefined,
    }),
  );
  return { ...Object(completion), choices };
}

/** The content of a delta, independent of the provider's form. */
interface DeltaContent {
  readonly text: string;
  readonly reasoning: string;
  /** The provider's name for the reasoning field, if it has one. */
  readonly reasoningField: "reasoning_content" | "reasoning" | undefined;
  /** Pieces of `reasoning_details`. */
  readonly details: readonly Members[];
  readonly refusal: string;
  readonly pieces: readonly Members[];
}

export function readDelta(delta: unknown): DeltaContent {
  const { content, reasoning_content, reasoning, reasoning_details, refusal, tool_calls, function_call } =
    Object(delta);
  const thought = stringOf(reasoning_content) || stringOf(reasoning);
  // The older `function_call` form has one call and no index.
  const older = isObject(function_call) ? [{ index: 0, function: function_call }] : [];
  return {
    text: partsText(content),
    reasoning: thought + thinkingIn(content),
    reasoningField:
      thought === "" ? undefined : stringOf(reasoning_content) ? "reasoning_content" : "reasoning",
    details: objectsIn(reasoning_details),
    refusal: stringOf(refusal),
    pieces: Array.isArray(tool_calls) ? objectsIn(tool_calls) : older,
  };
}

export function saysSomething({ text, reasoning, details, refusal, pieces }: DeltaContent): boolean {
  return text !== "" || reasoning !== "" || refusal !== "" || details.length > 0 || pieces.length > 0;
}

/** Joins the text of a string or of a list of parts. */
function partsText(value: unknown): string {
  if (typeof value === "string") return value;
  return objectsIn(value)
    .map(({ type, text }) => (type === "text" ? stringOf(text) : ""))
    .join("");
}

/** Some Mistral models put their reasoning into content parts. */
function thinkingIn(content: unknown): string {
  return objectsIn(content)
    .map(({ type, thinking }) => (type === "thinking" ? partsText(thinking) : ""))
    .join("");
}

/** What a chunk added. */
export interface Shown extends Pick<DeltaContent, "text" | "reasoning" | "refusal"> {
  readonly written: string;
  /** Characters of everything else that is kept. */
  readonly kept: number;
  /** Of the text, if the client asked for them. */
  readonly logprobs: unknown;
}

/** Other members of an answer under the provider's names: `system_fingerprint`, `logprobs` and the like. */
export type AnswerFacts = Members;

interface Slot {
  id: string;
  isCustom: boolean;
  name: string;
  /** The arguments, or the input of a `custom` tool. */
  arguments: string;
  /** Other members of the call, such as `extra_content` with Gemini's thought signatures. */
  extra: Members;
}

/** At most this many tokens of an answer keep their probabilities. */
const MOST_LOGPROBS = 100_000;
/** Members of a reasoning detail that are streamed in pieces. */
const streamedDetails = new Set(["text", "summary", "data"]);

/**
 * Joins the pieces of a streamed answer. The same answer gives the same calls however it was split. Pieces of a call
 * are matched by `index`; if a provider omits it or repeats it for all calls, by id and order.
 */
export class DeltaMerger {
  readonly #slots: Slot[] = [];
  readonly #byIndex = new Map<number, Slot>();
  text = "";
  reasoning = "";
  reasoningField: DeltaContent["reasoningField"];
  readonly reasoningDetails: Record<string, unknown>[] = [];
  finishReason: string | undefined;
  usage: ModelUsage | undefined;
  readonly #facts: Record<string, unknown> = {};
  readonly #logprobs: Record<string, unknown[]> = {};

  add({ choices, usage, system_fingerprint, service_tier }: CompletionChunk): Shown {
    if (usage) this.usage = wholeUsage(usage);
    if (system_fingerprint) this.#facts.system_fingerprint = system_fingerprint;
    if (service_tier) this.#facts.service_tier = service_tier;
    const { delta, finish_reason, logprobs } = choices.find(({ index = 0 }) => index === 0) ?? {};
    if (typeof finish_reason === "string") this.finishReason = finish_reason;
    const deltaContent = readDelta(delta);
    const { text, reasoning, refusal, details } = deltaContent;
    this.text += text;
    this.reasoning += reasoning;
    this.reasoningField ??= deltaContent.reasoningField;
    for (const detail of details) this.#mergeDetail(detail);
    const { annotations } = Object(delta);
    if (Array.isArray(annotations) && annotations.length > 0) this.#facts.annotations = annotations;
    this.#addLogprobs(logprobs);
    let written = "";
    let kept = sizeOf(details);
    for (const piece of deltaContent.pieces) {
      const merged = this.#merge(piece);
      written += merged.written;
      kept += merged.kept;
    }
    return { text, reasoning, refusal, written, kept, logprobs: logprobs ?? undefined };
  }

  get facts(): AnswerFacts {
    const { content = null, refusal = null } = this.#logprobs;
    return { ...this.#facts, ...(content || refusal ? { logprobs: { content, refusal } } : {}) };
  }

  get begun(): number {
    return this.#slots.length;
  }

  /** In the order in which they began. Every call has a unique id. */
  calls(): ModelToolCall[] {
    const taken = new Set<string>();
    return this.#slots.map((slot) => {
      if (slot.id === "" || taken.has(slot.id)) slot.id = newCallId();
      taken.add(slot.id);
      const { id, isCustom, name, arguments: written, extra } = slot;
      if (isCustom) return { ...extra, id, type: "custom", custom: { name, input: written } };
      return { ...extra, id, type: "function", function: { name, arguments: written } };
    });
  }

  #merge(piece: Members): { written: string; kept: number } {
    const slot = this.#slotOf(piece);
    const { index: _index, id, type: _type, function: _function, custom: _custom, ...extra } = piece;
    const { name, written } = calledBy(piece);
    slot.isCustom ||= isCustomPiece(piece);
    if (slot.id === "") slot.id = stringOf(id);
    // Some providers repeat the name in every piece, others split it like the arguments.
    if (name !== slot.name && slot.arguments === "") slot.name += name;
    slot.arguments += written;
    const extras = Object.entries(extra).filter(([, value]) => value !== null && value !== undefined);
    if (extras.length > 0) slot.extra = { ...slot.extra, ...Object.fromEntries(extras) };
    return { written, kept: name.length + stringOf(id).length + sizeOf(extras) };
  }

  #slotOf(piece: Members): Slot {
    const id = stringOf(piece.id);
    const index = typeof piece.index === "number" ? piece.index : undefined;
    const known = index === undefined ? this.#withoutIndex(id, piece) : this.#byIndex.get(index);
    if (known !== undefined && !isAnother(known, id, piece)) return known;
    const slot: Slot = { id: "", isCustom: false, name: "", arguments: "", extra: {} };
    this.#slots.push(slot);
    if (index !== undefined) this.#byIndex.set(index, slot);
    return slot;
  }

  #withoutIndex(id: string, piece: Members): Slot | undefined {
    if (id !== "") return this.#slots.find((slot) => slot.id === id);
    // A name after arguments begins the next call.
    const last = this.#slots.at(-1);
    const begins = calledBy(piece).name !== "" && last?.arguments !== "";
    return begins ? undefined : last;
  }

  #addLogprobs(logprobs: unknown): void {
    for (const key of ["content", "refusal"]) {
      const added = objectsIn(Object(logprobs)[key]);
      if (added.length === 0) continue;
      this.#logprobs[key] ??= [];
      const known = this.#logprobs[key];
      for (const one of added) if (known.length < MOST_LOGPROBS) known.push(one);
    }
  }

  /** Pieces of one detail have the same `index` and `type`; their texts are joined. */
  #mergeDetail(piece: Members): void {
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

/** Whether a piece begins a new call although its index is already in use. */
function isAnother({ id: known, isCustom, arguments: before }: Slot, id: string, piece: Members): boolean {
  const { name, written } = calledBy(piece);
  if (name === "") return false;
  if (id !== "") return known !== "" && known !== id;
  // The input of a custom tool is any text, so its end cannot be recognised.
  if (isCustom) return false;
  // Some providers give all calls the index 0 and no id: a call with complete JSON arguments has ended.
  return written.trim() !== "" && before.trimEnd().endsWith("}") && isJson(before);
}

/** Later pieces of a `custom` call may say neither `type` nor name. */
function isCustomPiece({ type, custom }: Members): boolean {
  return type === "custom" || (typeof custom === "object" && custom !== null);
}

function calledBy(piece: Members): { name: string; written: string } {
  if (isCustomPiece(piece)) {
    const { name, input } = Object(piece.custom);
    return { name: stringOf(name), written: stringOf(input) };
  }
  const { name, arguments: written } = Object(piece.function);
  // Some servers send the arguments as an object instead of text.
  const isWhole = typeof written === "object" && written !== null;
  return { name: stringOf(name), written: isWhole ? JSON.stringify(written) : stringOf(written) };
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The objects in a list; empty for anything that is not a list. */
function objectsIn(value: unknown): Members[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function sizeOf(list: readonly unknown[]): number {
  return list.length === 0 ? 0 : JSON.stringify(list).length;
}
