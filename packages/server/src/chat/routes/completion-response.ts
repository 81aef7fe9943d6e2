import type { ServerResponse } from "node:http";
import { v7 as uuid } from "uuid";
import { jsonText, openEventStream, sent } from "../../http/wire/index.ts";
import type { CompletionRequest } from "../completion-request.ts";
import type { Completion } from "../completions.ts";
import { calledIn, type ModelToolCall } from "../model.ts";
import { offersFunctions } from "../older-functions.ts";
import { isTool, type MessagePart, separator, type TurnEnd, type TurnEvent, textOfParts } from "../turn.ts";
import { errorOfEnd, MOST_WAITING } from "./chat-stream.ts";

interface CompletionForm {
  /** Whether tool activity is sent as extra events. */
  readonly tellsEvents: boolean;
  /** The client expects JSON, so the answer holds only the model's last text. */
  readonly isJson: boolean;
  /** The client uses the older form of calls; see `offersFunctions`. */
  readonly isFunctions: boolean;
  /** Whether the last chunk reports the usage. */
  readonly wantsUsage: boolean;
}

export function formOf(body: CompletionRequest, tellsEvents: boolean): CompletionForm {
  const { type } = Object(body.response_format);
  return {
    tellsEvents,
    isJson: type === "json_object" || type === "json_schema",
    isFunctions: offersFunctions(body),
    wantsUsage: body.stream_options?.include_usage === true,
  };
}

export function toCompletion(completion: Completion, form: CompletionForm): Record<string, unknown> {
  const { id, model, parts, usage, facts, end, calls, sessionID } = completion;
  const { logprobs = null, annotations, ...more } = facts;
  const refusal = textOfParts(parts, "refusal");
  const text = answerText(parts, form);
  const own = parts.filter(isTool).filter(({ client }) => !client);
  const activity = own.map(({ callId, name, displayName, arguments: written, state: { status } }) => {
    return { callId, name, displayName, arguments: written, status };
  });
  const message = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal || null,
    reasoning_content: textOfParts(parts, "reasoning") || undefined,
    annotations,
    ...callMembers(calls, form),
  };
  return {
    id,
    object: "chat.completion",
    created: now(),
    model,
    choices: [{ index: 0, message, logprobs, finish_reason: finishReason(end, form) }],
    usage,
    ...more,
    ...(form.tellsEvents ? { toolrack: { sessionID, end, calls: activity } } : {}),
  };
}

/**
 * Writes the answer as chunks. The stream opens with the first chunk or call, so that an early failure still gets its
 * own HTTP status.
 */
export class CompletionStream {
  readonly #outgoing: ServerResponse;
  readonly #form: CompletionForm;
  readonly #head: Record<string, unknown>;
  /** The last two characters of the text so far. */
  #lastText = "";
  #isNewRound = false;

  constructor(outgoing: ServerResponse, form: CompletionForm, model: string) {
    this.#outgoing = outgoing;
    this.#form = form;
    const id = `chatcmpl-${uuid().replaceAll("-", "")}`;
    this.#head = { id, object: "chat.completion.chunk", created: now(), model };
  }

  readonly tell = (event: TurnEvent): void => {
    // A client that expects JSON gets only the last text, and which text is last is known at the end.
    if (event.type === "text") this.#form.isJson || this.#text(event.text, event.logprobs);
    else if (event.type === "reasoning") this.#delta({ reasoning_content: event.text });
    else if (event.type === "refusal") this.#delta({ refusal: event.text });
    else if (this.#form.tellsEvents) this.#write({ choices: [], toolrack: event });
    if (event.type !== "call") return;
    this.#isNewRound = true;
    this.#open();
  };

  readonly keepAlive = (): void => {
    this.#open();
    this.#send(": alive\n\n");
  };

  /** `isTold`: the events were streamed as they happened. */
  end({ parts, end, calls, usage, facts }: Completion, isTold: boolean): typeof sent {
    const error = errorOfEnd(end);
    if (error !== undefined) {
      if (!this.#outgoing.headersSent) throw error;
      this.#send(dataOf(error.toEnvelope()));
    } else {
      if (!isTold) {
        this.#delta({ reasoning_content: textOfParts(parts, "reasoning") });
        this.#delta({ refusal: textOfParts(parts, "refusal") });
      }
      if (!isTold || this.#form.isJson) this.#delta({ content: answerText(parts, this.#form) });
      const indexed = calls.map((call, index) => ({ index, ...call }));
      if (calls.length > 0) this.#write({ choices: [choiceOf(callMembers(indexed, this.#form))] });
      if (this.#form.tellsEvents) this.#write({ choices: [], toolrack: { type: "end", end } });
      const { logprobs: _logprobs, annotations, ...more } = facts;
      this.#write({ choices: [choiceOf({ annotations }, finishReason(end, this.#form))], ...more });
      if (this.#form.wantsUsage) this.#write({ choices: [], usage });
    }
    this.#outgoing.end("data: [DONE]\n\n");
    return sent;
  }

  #text(text: string, logprobs: unknown): void {
    const between = this.#isNewRound ? separator(this.#lastText) : "";
    this.#isNewRound = false;
    this.#lastText = (this.#lastText + between + text).slice(-2);
    this.#delta({ content: between + text }, logprobs);
  }

  /** Sends nothing for empty text. */
  #delta(delta: Readonly<Record<string, string>>, logprobs?: unknown): void {
    if (Object.values(delta).some((text) => text !== ""))
      this.#write({ choices: [choiceOf(delta, null, logprobs)] });
  }

  #open(): void {
    if (this.#outgoing.headersSent) return;
    openEventStream(this.#outgoing);
    this.#write({ choices: [choiceOf({ role: "assistant", content: "" })] });
  }

  #write(chunk: Readonly<Record<string, unknown>>): void {
    this.#open();
    this.#send(dataOf({ ...this.#head, ...chunk }));
  }

  #send(text: string): void {
    if (this.#outgoing.destroyed) return;
    this.#outgoing.write(text);
    if (this.#outgoing.writableLength > MOST_WAITING) this.#outgoing.destroy();
  }
}

function choiceOf(delta: object, finish: string | null = null, logprobs: unknown = null): object {
  return { index: 0, delta, logprobs, finish_reason: finish };
}

function dataOf(value: unknown): string {
  return `data: ${jsonText(value)}\n\n`;
}

function finishReason({ reason }: TurnEnd, { isJson, isFunctions }: CompletionForm): string {
  if (reason === "client_tools") return isFunctions ? "function_call" : "tool_calls";
  // A notice would break the JSON, so a client that expects JSON is told that the answer was cut.
  if (isJson && (reason === "limit" || reason === "loop")) return "length";
  return reason === "length" || reason === "content_filter" ? reason : "stop";
}

/**
 * The texts of all rounds as one, because the client did not see the calls between them. For a client that
 * expects JSON, only the text after the last call.
 */
function answerText(parts: readonly MessagePart[], { isJson }: CompletionForm): string {
  if (isJson) return textOfParts(parts.slice(parts.findLastIndex(isTool) + 1));
  const rounds = [...Map.groupBy(parts, ({ round }) => round).values()].map((round) => textOfParts(round));
  return rounds.filter((text) => text !== "").reduce((all, text) => all + separator(all) + text, "");
}

/** The members of a message, or of a piece of it, that hold the calls. */
function callMembers(calls: readonly ModelToolCall[], { isFunctions }: CompletionForm): object {
  const [first] = calls;
  if (first === undefined) return {};
  if (!isFunctions) return { tool_calls: calls };
  const { name, written } = calledIn(first);
  return { function_call: { name, arguments: written } };
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
