import { v7 as uuid } from "uuid";
import type { CompletionChunk, CompletionDelta, ModelUsage, ToolCallDelta } from "./completion-chunk.ts";
import type { ModelToolCall } from "./model-message.ts";

/** What a chunk added that somebody can be shown at once. */
export interface Shown {
  readonly text: string;
  readonly reasoning: string;
  readonly refusal: string;
}

interface Slot {
  id: string;
  name: string;
  arguments: string;
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
  finishReason: string | undefined;
  usage: ModelUsage | undefined;
  /** Whether the model has said anything at all. */
  hasBegun = false;

  add({ choices, usage }: CompletionChunk): Shown {
    if (usage) this.usage = wholeUsage(usage);
    const choice = choices?.find(({ index = 0 }) => index === 0);
    if (typeof choice?.finish_reason === "string") this.finishReason = choice.finish_reason;
    const delta = choice?.delta ?? {};
    const shown = {
      text: stringOf(delta.content),
      reasoning: stringOf(delta.reasoning_content ?? delta.reasoning),
      refusal: stringOf(delta.refusal),
    };
    this.text += shown.text;
    this.reasoning += shown.reasoning;
    this.refusal += shown.refusal;
    const pieces = piecesOf(delta);
    for (const piece of pieces) this.#merge(piece);
    if (pieces.length > 0 || shown.text || shown.reasoning || shown.refusal) this.hasBegun = true;
    return shown;
  }

  /** In the order in which they were begun. Every one has an id that no other has. */
  calls(): ModelToolCall[] {
    const taken = new Set<string>();
    return this.#slots.map((slot) => {
      if (slot.id === "" || taken.has(slot.id)) slot.id = `call_${uuid().replaceAll("-", "")}`;
      taken.add(slot.id);
      return { id: slot.id, type: "function", function: { name: slot.name, arguments: slot.arguments } };
    });
  }

  #merge(piece: ToolCallDelta): void {
    const slot = this.#slotOf(piece);
    const name = stringOf(piece.function?.name);
    if (slot.id === "") slot.id = stringOf(piece.id);
    // Some repeat the name with every piece, some cut it like the arguments.
    if (name !== slot.name && slot.arguments === "") slot.name += name;
    slot.arguments += argumentsOf(piece.function?.arguments);
  }

  #slotOf(piece: ToolCallDelta): Slot {
    const id = stringOf(piece.id);
    const index = typeof piece.index === "number" ? piece.index : undefined;
    const known = index === undefined ? this.#withoutIndex(id, piece) : this.#byIndex.get(index);
    const isAnother = id !== "" && known?.id !== "" && known?.id !== id && piece.function?.name;
    if (known !== undefined && !isAnother) return known;
    const slot = { id: "", name: "", arguments: "" };
    this.#slots.push(slot);
    if (index !== undefined) this.#byIndex.set(index, slot);
    return slot;
  }

  #withoutIndex(id: string, piece: ToolCallDelta): Slot | undefined {
    if (id !== "") return this.#slots.find((slot) => slot.id === id);
    // A name where arguments have begun is the beginning of the next call.
    const last = this.#slots.at(-1);
    const begins = stringOf(piece.function?.name) !== "" && last?.arguments !== "";
    return begins ? undefined : last;
  }
}

function piecesOf({ tool_calls, function_call }: CompletionDelta): ToolCallDelta[] {
  if (Array.isArray(tool_calls))
    return tool_calls.filter((piece) => typeof piece === "object" && piece !== null);
  // The older form, of one call.
  if (typeof function_call !== "object" || function_call === null) return [];
  return [{ index: 0, function: function_call }];
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Some servers send the arguments as the object that they are. */
function argumentsOf(value: unknown): string {
  if (typeof value === "object" && value !== null) return JSON.stringify(value);
  return stringOf(value);
}

function wholeUsage(usage: Partial<ModelUsage>): ModelUsage {
  const { prompt_tokens = 0, completion_tokens = 0 } = usage;
  return {
    ...usage,
    prompt_tokens,
    completion_tokens,
    total_tokens: usage.total_tokens ?? prompt_tokens + completion_tokens,
  };
}
