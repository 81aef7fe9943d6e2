import { isRecord, parsedJson } from "../helpers/index.ts";
import { type ModelToolCall, type ModelUsage, newCall, newCallId, usableCounts } from "./model.ts";

type Members = Readonly<Record<string, unknown>>;

/** One chunk of an answer, independent of the provider's form. Providers omit, repeat and add members. */
export interface AnswerPiece {
  readonly text: string;
  readonly reasoning: string;
  /** The provider's name for the reasoning field; undefined when the chunk has no such field. */
  readonly reasoningField: "reasoning_content" | "reasoning" | undefined;
  readonly details: readonly Members[];
  readonly refusal: string;
  readonly calls: readonly Members[];
  /** Log probabilities of the text's tokens, if the client asked for them. */
  readonly logprobs: unknown;
  readonly finish: string | undefined;
  /** The token counts of the provider, without those that are missing or no numbers. */
  readonly usage: Partial<ModelUsage> | undefined;
  readonly facts: AnswerFacts;
  /** Whether the chunk has content: text, reasoning, a refusal or a piece of a call. */
  readonly saysSomething: boolean;
}

/**
 * Members of an answer that are passed on to the client under the provider's names: `system_fingerprint`,
 * `logprobs` and the like.
 */
export type AnswerFacts = Members;

/** A piece without anything in it. */
export const emptyPiece: AnswerPiece = {
  text: "",
  reasoning: "",
  reasoningField: undefined,
  details: [],
  refusal: "",
  calls: [],
  logprobs: undefined,
  finish: undefined,
  usage: undefined,
  facts: {},
  saysSomething: false,
};

/** Reads a chunk of a stream, or with `isWhole` a completion of a server that does not stream. */
export function readChunk(value: unknown, isWhole = false): AnswerPiece {
  const { choices, usage, system_fingerprint, service_tier } = Object(value);
  const choice: Members = objectsIn(choices).find(({ index }) => Number(index ?? 0) === 0) ?? {};
  const delta = Object(isWhole ? choice.message : choice.delta);
  const { content, reasoning_content, reasoning, tool_calls, function_call, annotations } = delta;
  const thought = stringOf(reasoning_content) || stringOf(reasoning);
  const piece = {
    text: partsText(content),
    // Some Mistral models put their reasoning into content parts.
    reasoning: thought + partsText(content, "thinking"),
    details: objectsIn(delta.reasoning_details),
    refusal: stringOf(delta.refusal),
    // The older `function_call` form has one call and no index.
    calls:
      isRecord(function_call) && !Array.isArray(tool_calls)
        ? [{ index: 0, function: function_call }]
        : objectsIn(tool_calls),
  };
  const facts = Object.entries({ system_fingerprint, service_tier, annotations });
  return {
    ...emptyPiece,
    ...piece,
    reasoningField:
      thought === "" ? undefined : stringOf(reasoning_content) ? "reasoning_content" : "reasoning",
    logprobs: choice.logprobs || undefined,
    finish: finishOf(choice) ?? (isWhole ? "stop" : undefined),
    usage: usableCounts(usage),
    facts: Object.fromEntries(facts.filter(([, fact]) => fact && Object(fact).length !== 0)),
    saysSomething: Object.values(piece).some(({ length }) => length > 0),
  };
}

/** What providers call the end of an answer that they did not finish, each in its own words. */
const cutFinishes = /^(?:model_length|max_tokens|insufficient_system_resource|abort|error)$/i;

/** Undefined while the answer goes on. Some providers say so with an empty text. */
function finishOf({ finish_reason: reason }: Members): string | undefined {
  if (typeof reason !== "string" || reason === "" || reason === "null") return undefined;
  return cutFinishes.test(reason) ? "length" : reason;
}

/**
 * Joins the texts of a message's content, which is a string or a list of parts; with the type `thinking`, the
 * reasoning in those parts.
 */
function partsText(value: unknown, type: "text" | "thinking" = "text"): string {
  if (typeof value === "string") return type === "text" ? value : "";
  const parts = objectsIn(value).filter((part) => part.type === type);
  return parts.map((part) => (type === "text" ? stringOf(part.text) : partsText(part.thinking))).join("");
}

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
  reasoningField: AnswerPiece["reasoningField"];
  readonly reasoningDetails: Record<string, unknown>[] = [];
  finishReason: string | undefined;
  usage: Partial<ModelUsage> = {};
  readonly #facts: Record<string, unknown> = {};
  readonly #logprobs: Record<string, unknown[]> = {};

  /**
   * `written`: the call arguments in the piece. `kept`: the number of characters of the other members of
   * calls and of the reasoning details in it.
   */
  add(piece: AnswerPiece): { written: string; kept: number } {
    this.text += piece.text;
    this.reasoningField ??= piece.reasoningField;
    this.finishReason = piece.finish ?? this.finishReason;
    if (piece.usage !== undefined) this.usage = { ...this.usage, ...piece.usage };
    if (piece.facts !== emptyPiece.facts) Object.assign(this.#facts, piece.facts);
    for (const detail of piece.details) this.#mergeDetail(detail);
    if (piece.logprobs !== undefined) this.#addLogprobs(piece.logprobs);
    if (piece.calls.length === 0) return { written: "", kept: sizeOf(piece.details) };
    const merged = piece.calls.map((call) => this.#merge(call));
    return {
      written: merged.map(({ written }) => written).join(""),
      kept: merged.reduce((sum, { kept }) => sum + kept, sizeOf(piece.details)),
    };
  }

  get facts(): AnswerFacts {
    const { content = null, refusal = null } = this.#logprobs;
    return { ...this.#facts, ...(content || refusal ? { logprobs: { content, refusal } } : {}) };
  }

  get begun(): number {
    return this.#slots.length;
  }

  /** The calls in the order in which they began. Every call has a unique id. */
  calls(): ModelToolCall[] {
    const taken = new Set<string>();
    return this.#slots.map((slot) => {
      if (slot.id === "" || taken.has(slot.id)) slot.id = newCallId();
      taken.add(slot.id);
      const { id, isCustom, name, arguments: written, extra } = slot;
      return { ...extra, ...newCall(name, written, isCustom ? "custom" : "function", id) };
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
      const known = this.#logprobs[key] ?? [];
      this.#logprobs[key] = known;
      known.push(...added.slice(0, MOST_LOGPROBS - known.length));
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
  return written.trim() !== "" && before.trimEnd().endsWith("}") && parsedJson(before) !== undefined;
}

/** Later pieces of a `custom` call may have no `type`, so a member `custom` is enough. */
function isCustomPiece({ type, custom }: Members): boolean {
  return type === "custom" || isRecord(custom);
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

/** The objects in a list; empty for anything that is not a list. */
export function objectsIn(value: unknown): Members[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function sizeOf(list: readonly unknown[]): number {
  return list.length === 0 ? 0 : JSON.stringify(list).length;
}
