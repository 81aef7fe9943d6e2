import type { ServerResponse } from "node:http";
import { jsonText, type sent } from "../../http/wire/index.ts";
import { type CompletionRequest, offersFunctions } from "../completion-request.ts";
import { type Completion, completionId } from "../completions.ts";
import { calledIn, type ModelToolCall } from "../model.ts";
import { failedAfterCalls } from "../model-messages.ts";
import {
  isTool,
  type MessagePart,
  separator,
  shownCalls,
  type TurnEnd,
  type TurnEvent,
  textOfParts,
} from "../turn.ts";
import { errorOfEnd } from "./route-errors.ts";
import { AnswerStream } from "./served-run.ts";

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

/** A completion that has failed says so in its text and in `toolrack.error`. */
export function toCompletion(completion: Completion, form: CompletionForm): Record<string, unknown> {
  const { id, model, parts, usage, facts, end, calls, sessionID } = completion;
  const { logprobs = null, annotations, ...more } = facts;
  const refusal = textOfParts(parts, "refusal");
  const said = answerText(parts, form);
  const line = failureLine(completion, form);
  const text = line === "" ? said : said + separator(said) + line;
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
    ...toolrackMember(end, form.tellsEvents ? { sessionID, end, calls: shownCalls(parts) } : {}),
  };
}

/** Writes the answer as chunks. */
export class CompletionStream extends AnswerStream {
  readonly #form: CompletionForm;
  readonly #head: Record<string, unknown>;
  /** The JSON of a chunk up to its delta: a text is sent without writing the rest of the JSON anew. */
  readonly #beforeDelta: string;
  /** Which models were asked before the stream opened. */
  readonly #early: TurnEvent[] = [];
  /** The last two characters of the text so far. */
  #lastText = "";
  #isNewRound = false;

  constructor(outgoing: ServerResponse, form: CompletionForm, model: string) {
    super(outgoing, form.isJson);
    this.#form = form;
    // Clients that ask for the usage expect the member in every chunk.
    const usage = form.wantsUsage ? { usage: null } : {};
    this.#head = { id: completionId(), object: "chat.completion.chunk", created: now(), model, ...usage };
    this.#beforeDelta = `data: ${jsonText(this.#head).slice(0, -1)},"choices":[{"index":0,"delta":`;
  }

  tell(event: TurnEvent): void {
    if (event.type === "text") this.isJson || this.#text(event.text, event.logprobs);
    else if (event.type === "reasoning") this.#delta({ reasoning_content: event.text });
    else if (event.type === "refusal") this.#delta({ refusal: event.text });
    else if (event.type === "model" && !this.outgoing.headersSent) this.#early.push(event);
    else if (this.#form.tellsEvents) this.#write({ choices: [], toolrack: event });
    else if (event.type === "approval") this.question(event.approval);
    if (event.type !== "call") return;
    this.#isNewRound = true;
    this.open();
  }

  end(completion: Completion, isTold: boolean): typeof sent {
    const { parts, end, calls, usage, facts, hasActed } = completion;
    const error = errorOfEnd(end);
    if (error !== undefined && !hasActed) {
      if (!this.outgoing.headersSent) throw error;
      if (this.#form.wantsUsage) this.#write({ choices: [], usage });
      this.send(dataOf(error.toEnvelope()));
    } else {
      if (!isTold) {
        this.#delta({ reasoning_content: textOfParts(parts, "reasoning") });
        this.#delta({ refusal: textOfParts(parts, "refusal") });
      }
      if (!isTold || this.isJson) this.#text(answerText(parts, this.#form));
      this.paragraph(failureLine(completion, this.#form));
      const indexed = calls.map((call, index) => ({ index, ...call }));
      if (calls.length > 0) this.#write({ choices: [choiceOf(callMembers(indexed, this.#form))] });
      if (this.#form.tellsEvents) this.#write({ choices: [], toolrack: { type: "end", end } });
      const { logprobs: _logprobs, annotations, ...more } = facts;
      const choices = [choiceOf({ annotations }, finishReason(end, this.#form))];
      this.#write({ choices, ...more, ...toolrackMember(end) });
      if (this.#form.wantsUsage) this.#write({ choices: [], usage });
    }
    this.send("data: [DONE]\n\n");
    return this.close();
  }

  protected paragraph(text: string): void {
    this.#isNewRound = true;
    this.#text(text);
    this.#isNewRound = true;
  }

  #text(text: string, logprobs?: unknown): void {
    if (text === "") return;
    const between = this.#isNewRound ? separator(this.#lastText) : "";
    this.#isNewRound = false;
    this.#lastText = (this.#lastText + between + text).slice(-2);
    if (logprobs !== undefined) {
      this.#delta({ content: between + text }, logprobs);
      return;
    }
    this.open();
    this.send(`${this.#beforeDelta}{"content":${jsonText(between + text)}${AFTER_DELTA}`);
  }

  /** Sends nothing for empty text. */
  #delta(delta: Readonly<Record<string, string>>, logprobs?: unknown): void {
    if (Object.values(delta).some((text) => text !== ""))
      this.#write({ choices: [choiceOf(delta, null, logprobs)] });
  }

  protected begin(): void {
    this.send(`${this.#beforeDelta}{"role":"assistant","content":""${AFTER_DELTA}`);
    if (this.#form.tellsEvents)
      for (const event of this.#early) this.#write({ choices: [], toolrack: event });
  }

  #write(chunk: Readonly<Record<string, unknown>>): void {
    this.open();
    this.send(this.#chunk(chunk));
  }

  #chunk(chunk: Readonly<Record<string, unknown>>): string {
    return dataOf({ ...this.#head, ...chunk });
  }
}

/** What follows `#beforeDelta` and the members of the delta; see `choiceOf`. */
const AFTER_DELTA = '},"logprobs":null,"finish_reason":null}]}\n\n';

function choiceOf(delta: object, finish: string | null = null, logprobs: unknown = null): object {
  return { index: 0, delta, logprobs, finish_reason: finish };
}

function dataOf(value: unknown): string {
  return `data: ${jsonText(value)}\n\n`;
}

function finishReason({ reason }: TurnEnd, { isJson, isFunctions }: CompletionForm): string {
  if (reason === "client_tools") return isFunctions ? "function_call" : "tool_calls";
  if (reason === "content_filter") return reason;
  // A notice would break the JSON, so a client that expects JSON is told that the answer was cut.
  return reason === "stop" || (reason === "loop" && !isJson) ? "stop" : "length";
}

/** Empty for an answer that has not failed, and for a client that expects JSON. */
function failureLine({ end, hasActed }: Completion, { isJson }: CompletionForm): string {
  const error = isJson ? undefined : errorOfEnd(end);
  if (error === undefined) return "";
  return `[${hasActed ? failedAfterCalls(error.message) : error.message}]`;
}

/** The member of an answer that only the rack has; none when there is nothing to tell. */
function toolrackMember(end: TurnEnd, told: object = {}): object {
  const error = errorOfEnd(end)?.toEnvelope();
  const toolrack = { ...told, ...error };
  return Object.keys(toolrack).length === 0 ? {} : { toolrack };
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
