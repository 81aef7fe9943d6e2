import { isJson, type ModelToolCall, type ModelUsage, newCallId, wholeUsage } from "./model.ts";

type Members = Readonly<Record<string, unknown>>;

/** What a provider sends. It leaves out, repeats and adds; what is named here is looked at with care. */
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

/** What came as an event of a stream. A choice that is no object says nothing. */
export function toChunk(value: unknown): CompletionChunk {
  return { ...Object(value), choices: objectsIn(Object(value).choices) };
}

/** A whole completion as the one chunk that a stream of it could have been: some servers never stream. */
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

/** What a delta says, whichever of their forms the provider uses. */
interface DeltaContent {
  readonly text: string;
  readonly reasoning: string;
  /** What the provider calls its reasoning, where it is a field of its own. */
  readonly reasoningField: "reasoning_content" | "reasoning" | undefined;
  /** Pieces of `reasoning_details`. */
  readonly details: readonly Members[];
  readonly refusal: string;
  /** Pieces of calls. */
  readonly pieces: readonly Members[];
}

export function readDelta(delta: unknown): DeltaContent {
  const { content, reasoning_content, reasoning, reasoning_details, refusal, tool_calls, function_call } =
    Object(delta);
  const thought = stringOf(reasoning_content) || stringOf(reasoning);
  // The older form has one call, without an index.
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

/** Text is a text, or a list of parts of which some are text. */
function partsText(value: unknown): string {
  if (typeof value === "string") return value;
  return objectsIn(value)
    .map(({ type, text }) => (type === "text" ? stringOf(text) : ""))
    .join("");
}

/** Some models of Mistral think in parts of the content. */
function thinkingIn(content: unknown): string {
  return objectsIn(content)
    .map(({ type, thinking }) => (type === "thinking" ? partsText(thinking) : ""))
    .join("");
}

/** What a chunk added. */
export interface Shown extends Pick<DeltaContent, "text" | "reasoning" | "refusal"> {
  /** Of the arguments of calls. */
  readonly written: string;
  /** Characters of what else is kept of it. */
  readonly kept: number;
  /** Of its text, where the client asked for them. */
  readonly logprobs: unknown;
}

/** What else is said of an answer, under the provider's own names: `system_fingerprint`, `logprobs` and the like. */
export type AnswerFacts = Members;

/** A call that is being put together. */
interface Slot {
  id: string;
  isCustom: boolean;
  name: string;
  /** Or the input of a `custom` tool. */
  arguments: string;
  /** What else the provider said of it, such as `extra_content`, in which Gemini signs its thoughts. */
  extra: Members;
}

/** Tokens of one answer whose probabilities are kept. */
const MOST_LOGPROBS = 100_000;
/** Members of a detail of the reasoning that come in pieces. */
const streamedDetails = new Set(["text", "summary", "data"]);

/**
 * Puts the pieces of a streamed answer together. The same stream gives the same calls however it was cut. Pieces of a
 * call belong together by `index`; where a provider leaves that out, or gives all calls the same, by their ids and order.
 */
export class DeltaMerger {
  readonly #slots: Slot[] = [];
  readonly #byIndex = new Map<number, Slot>();
  text = "";
  reasoning = "";
  /** What the provider calls its reasoning. */
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
    const said = readDelta(delta);
    const { text, reasoning, refusal, details } = said;
    this.text += text;
    this.reasoning += reasoning;
    this.reasoningField ??= said.reasoningField;
    for (const detail of details) this.#mergeDetail(detail);
    const { annotations } = Object(delta);
    if (Array.isArray(annotations) && annotations.length > 0) this.#facts.annotations = annotations;
    this.#addLogprobs(logprobs);
    let written = "";
    let kept = sizeOf(details);
    for (const piece of said.pieces) {
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

  /** How many calls were begun. */
  get begun(): number {
    return this.#slots.length;
  }

  /** In the order in which they were begun. Every one has an id that no other has. */
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
    // Some repeat the name with every piece, some cut it like the arguments.
    if (name !== slot.name && slot.arguments === "") slot.name += name;
    slot.arguments += written;
    const told = Object.entries(extra).filter(([, value]) => value !== null && value !== undefined);
    if (told.length > 0) slot.extra = { ...slot.extra, ...Object.fromEntries(told) };
    return { written, kept: name.length + stringOf(id).length + sizeOf(told) };
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
    // A name where arguments have begun is the beginning of the next call.
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

  /** Pieces of one detail have the same `index` and `type`; their texts are cut like all others. */
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

/** Whether a piece begins another call than the one that its index says. */
function isAnother({ id: known, isCustom, arguments: before }: Slot, id: string, piece: Members): boolean {
  const { name, written } = calledBy(piece);
  if (name === "") return false;
  if (id !== "") return known !== "" && known !== id;
  // Where any text is an input, none is known to be whole.
  if (isCustom) return false;
  // Some give all calls the index 0 and no id: one whose arguments are whole has ended.
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
  // Some servers send the arguments as the object that they are.
  const isWhole = typeof written === "object" && written !== null;
  return { name: stringOf(name), written: isWhole ? JSON.stringify(written) : stringOf(written) };
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The members of a list that are objects; none of what is no list. */
function objectsIn(value: unknown): Members[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function sizeOf(list: readonly unknown[]): number {
  return list.length === 0 ? 0 : JSON.stringify(list).length;
}
