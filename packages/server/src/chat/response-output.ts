import { objectsIn } from "./answer-chunks.ts";
import type { Completion } from "./completions.ts";
import { calledIn, type ModelToolCall } from "./model.ts";
import { failedAfterCalls } from "./model-messages.ts";
import { digitsIn, newItemId } from "./response-items.ts";
import { type ResponseSettings, showsCalls, wantsJson } from "./response-request.ts";
import {
  isTool,
  type MessagePart,
  separator,
  type TextPart,
  type ToolPart,
  type TurnEnd,
  textOfParts,
  whyFailed,
} from "./turn.ts";

/** An item of a response's output while it is written. */
interface OutputItem {
  readonly type: string;
  readonly id: string;
  status: "in_progress" | "completed" | "incomplete" | "failed";
  [key: string]: unknown;
}

type ShownCall = Pick<ToolPart, "callId" | "name" | "arguments" | "client">;

/** An event of a response stream, without its number. */
export type OutputEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

/** The part of an item to which text is added now. */
interface OpenText {
  readonly item: OutputItem;
  readonly kind: TextPart["type"];
  /** The members that say in an event which text is meant. */
  readonly place: Readonly<Record<string, unknown>>;
  readonly logprobs: unknown[];
  text: string;
}

/**
 * Writes the output of a response: reasoning, messages, and calls that the client must run. Streams and whole
 * answers are made by this one class, so that they agree. Text of several rounds is one message as long as the
 * client saw nothing between: the rack's own calls are shown only to clients that ask for it, as `mcp_call` items, which
 * OpenAI has for tools that run on a server.
 */
export class ResponseOutput {
  readonly items: OutputItem[] = [];
  readonly #digits: string;
  readonly #emit: (event: OutputEvent) => void;
  readonly #showsCalls: boolean;
  /** The items of the rack's calls that have not ended, by the call's id. */
  readonly #calls = new Map<string, OutputItem>();
  #open: OpenText | undefined;
  #isNewRound = false;

  /** `digits`: those of the answer's id, which are part of the ids of its items. */
  constructor(digits: string, showsCalls = false, emit: (event: OutputEvent) => void = () => {}) {
    this.#digits = digits;
    this.#showsCalls = showsCalls;
    this.#emit = emit;
  }

  /** Begins a new paragraph with the next text. */
  beginRound(): void {
    this.#isNewRound = true;
  }

  /** Notes a call that the model asked for. Calls that the client must run are added at the end. */
  beginCall({ callId, name, arguments: written, client }: ShownCall): void {
    this.beginRound();
    if (!this.#showsCalls || client) return;
    const call = { server_label: "toolrack", name, arguments: written, output: null, error: null };
    const item = this.#addItem("mcp_call", call);
    this.#calls.set(callId, item);
    const place = this.#placeOf(item);
    this.#emit({ type: "response.mcp_call.in_progress", ...place });
    this.#emit({ type: "response.mcp_call_arguments.done", ...place, arguments: written });
  }

  /** Notes the state of a call. */
  noteState({ callId, state }: Pick<ToolPart, "callId" | "state">): void {
    const item = this.#calls.get(callId);
    if (item === undefined || (state.status !== "completed" && state.status !== "error")) return;
    this.#calls.delete(callId);
    const isDone = state.status === "completed";
    item.output = isDone ? state.output : null;
    item.error = isDone ? null : state.error;
    const status = isDone ? "completed" : "failed";
    this.#emit({ type: `response.mcp_call.${status}`, ...this.#placeOf(item) });
    this.#finishItem(item, status);
  }

  add(kind: TextPart["type"], added: string, logprobs?: unknown): void {
    if (added === "") return;
    const { kind: last, text: before = "" } = this.#open ?? {};
    const text = this.#isNewRound && last === kind ? separator(before) + added : added;
    this.#isNewRound = false;
    const open = last === kind && this.#open ? this.#open : this.begin(kind);
    open.text += text;
    const probabilities = objectsIn(Object(logprobs).content);
    open.logprobs.push(...probabilities);
    const more = kind === "text" ? { logprobs: probabilities } : {};
    this.#emit({ type: `${eventNames[kind]}.delta`, ...open.place, delta: text, ...more });
  }

  /** Adds the parts of an answer, or with `isJson` only the text after the last call. */
  addParts(parts: readonly MessagePart[], isJson: boolean): void {
    const last = parts.findLastIndex(isTool);
    for (const [at, part] of parts.entries()) {
      if (isTool(part)) {
        this.beginCall(part);
        this.noteState(part);
      } else if (!isJson || part.type !== "text" || at > last) this.add(part.type, part.text);
    }
  }

  /** Adds the calls that the client must run. */
  addCalls(calls: readonly ModelToolCall[]): void {
    for (const call of calls) {
      const { name, written } = calledIn(call);
      const isCustom = call.custom !== undefined;
      const type = isCustom ? "custom_tool_call" : "function_call";
      const member = isCustom ? "input" : "arguments";
      const event = isCustom ? "response.custom_tool_call_input" : "response.function_call_arguments";
      const item = this.#addItem(type, { call_id: call.id, name, [member]: "" });
      const place = this.#placeOf(item);
      this.#emit({ type: `${event}.delta`, ...place, delta: written });
      this.#emit({ type: `${event}.done`, ...place, name, [member]: written });
      item[member] = written;
      this.#finishItem(item, "completed");
    }
  }

  /** Adds what is known only at the end of the answer. `isTold`: its text was added as it came. */
  addEnd(completion: Completion, settings: ResponseSettings, isTold: boolean): void {
    const { parts, end, calls, hasActed } = completion;
    const isJson = wantsJson(settings);
    if (!isTold) this.addParts(parts, isJson);
    // With JSON output, only the last text is the answer. Until now it was not known which text is the last, so
    // none was streamed.
    else if (isJson) this.add("text", textOfParts(parts.slice(parts.findLastIndex(isTool) + 1)));
    if (hasFailed(end) && hasActed && !isJson) {
      this.beginRound();
      this.add("text", `[${failedAfterCalls(whyFailed(end))}]`);
    }
    // Clients take an answer without any item for one that is not there yet.
    if (this.items.length === 0 && end.reason === "stop") this.begin("text");
    this.finish(outcomeOf(completion, isJson) === "completed" ? "completed" : "incomplete");
    this.addCalls(calls);
  }

  /** Ends the item under way. `status`: `incomplete` when the answer was cut, `in_progress` when it goes on. */
  finish(status: OutputItem["status"] = "completed"): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#finishText(open);
    this.#open = undefined;
    this.#finishItem(open.item, status);
  }

  /** Begins a text: in a new item, or as a further part of the message under way. */
  begin(kind: TextPart["type"]): OpenText {
    const before = this.#open;
    const isSameItem = kind !== "reasoning" && before !== undefined && before.kind !== "reasoning";
    if (isSameItem) this.#finishText(before);
    else this.finish();
    const isReasoning = kind === "reasoning";
    const item = isSameItem
      ? before.item
      : isReasoning
        ? this.#addItem("reasoning", { summary: [] })
        : this.#addItem("message", { role: "assistant", content: [] });
    const index = isReasoning ? { summary_index: 0 } : { content_index: objectsIn(item.content).length };
    const place = { ...this.#placeOf(item), ...index };
    const open: OpenText = { item, kind, place, logprobs: [], text: "" };
    this.#open = open;
    this.#emit({ type: `${partNames[kind]}.added`, ...place, part: partOf(kind, "", []) });
    return open;
  }

  #finishText({ item, kind, place, text, logprobs }: OpenText): void {
    const part = partOf(kind, text, logprobs);
    const member = kind === "refusal" ? { refusal: text } : { text };
    const more = kind === "text" ? { logprobs } : {};
    this.#emit({ type: `${eventNames[kind]}.done`, ...place, ...member, ...more });
    this.#emit({ type: `${partNames[kind]}.done`, ...place, part });
    const list = kind === "reasoning" ? "summary" : "content";
    item[list] = [...objectsIn(item[list]), part];
  }

  #addItem(type: string, members: Readonly<Record<string, unknown>>): OutputItem {
    this.finish();
    const id = newItemId(type, this.#digits, this.items.length);
    const item: OutputItem = { type, id, status: "in_progress", ...members };
    this.items.push(item);
    this.#emit({
      type: "response.output_item.added",
      output_index: this.items.length - 1,
      item: { ...item },
    });
    return item;
  }

  #placeOf(item: OutputItem): { item_id: string; output_index: number } {
    return { item_id: item.id, output_index: this.items.indexOf(item) };
  }

  #finishItem(item: OutputItem, status: OutputItem["status"]): void {
    item.status = status;
    this.#emit({
      type: "response.output_item.done",
      output_index: this.items.indexOf(item),
      item: { ...item },
    });
  }
}

/** The output of an answer that has ended. */
export function wholeOutput(completion: Completion, settings: ResponseSettings): ResponseOutput {
  const output = new ResponseOutput(digitsIn(completion.id), showsCalls(settings));
  output.addEnd(completion, settings, false);
  return output;
}

/** The status of a response that has ended. */
export function outcomeOf(
  { end, hasActed }: Pick<Completion, "end" | "hasActed">,
  isJson: boolean,
): "completed" | "incomplete" | "failed" | "cancelled" {
  const { reason } = end;
  if (reason === "stopped") return "cancelled";
  // Clients try again after a failure, and what tools did must not be done twice. A line of text says what failed; it
  // would break JSON, so that a client that expects JSON is told that the answer was cut.
  if (hasFailed(end)) return hasActed ? (isJson ? "incomplete" : "completed") : "failed";
  const isWhole = reason === "stop" || reason === "client_tools" || (reason === "loop" && !isJson);
  return isWhole ? "completed" : "incomplete";
}

function hasFailed({ reason }: TurnEnd): boolean {
  return reason === "error" || reason === "interrupted";
}

const eventNames = {
  text: "response.output_text",
  refusal: "response.refusal",
  reasoning: "response.reasoning_summary_text",
} as const;

const partNames = {
  text: "response.content_part",
  refusal: "response.content_part",
  reasoning: "response.reasoning_summary_part",
} as const;

function partOf(kind: TextPart["type"], text: string, logprobs: readonly unknown[]): Record<string, unknown> {
  if (kind === "text") return { type: "output_text", text, annotations: [], logprobs };
  return kind === "refusal" ? { type: "refusal", refusal: text } : { type: "summary_text", text };
}
