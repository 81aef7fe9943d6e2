import type { ServerResponse } from "node:http";
import { v7 as uuid } from "uuid";
import { eventText, type sent } from "../../http/wire/index.ts";
import type { Completion } from "../completions.ts";
import type { ModelUsage } from "../model.ts";
import { digitsIn, digitsOf } from "../response-items.ts";
import { type OutputEvent, outcomeOf, ResponseOutput, wholeOutput } from "../response-output.ts";
import { type ResponseSettings, showsCalls, wantsJson } from "../response-request.ts";
import { shownCalls, type TurnEnd, type TurnEvent, whyFailed } from "../turn.ts";
import { errorOfEnd } from "./route-errors.ts";
import { AnswerStream } from "./served-run.ts";

/** What a response tells beside its output. */
export interface ResponseForm {
  readonly settings: ResponseSettings;
  readonly model: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

type OpenResponse = Pick<Completion, "id" | "parts">;

/** A whole response. One that failed after tools had acted is complete, and says in its text what failed. */
export function toResponse(ended: Completion, form: ResponseForm): Record<string, unknown> {
  const id = `resp_${digitsIn(ended.id)}`;
  return endedResponse({ ...ended, id }, form, wholeOutput(ended, form.settings));
}

/** A response under way. */
export function toOpenResponse({ id, parts }: OpenResponse, form: ResponseForm): Record<string, unknown> {
  const output = new ResponseOutput(digitsIn(id), showsCalls(form.settings));
  if (!wantsJson(form.settings)) output.addParts(parts, false);
  output.finish("in_progress");
  return responseObject(id, form, { status: "in_progress", output: output.items });
}

/** Writes the events of a response. */
export class ResponseStream extends AnswerStream {
  readonly #form: ResponseForm;
  /** Events up to this number were sent before. */
  readonly #after: number;
  #digits: string | undefined;
  #output: ResponseOutput | undefined;
  #number = 0;

  constructor(outgoing: ServerResponse, form: ResponseForm, after = -1) {
    super(outgoing, wantsJson(form.settings));
    this.#form = form;
    this.#after = after;
  }

  tell(event: TurnEvent): void {
    if (event.type === "turn") this.#digits = digitsOf(event.messageId);
    else if (event.type === "text") this.isJson || this.#write(event);
    else if (event.type === "reasoning" || event.type === "refusal") this.#write(event);
    else if (event.type === "call") this.#opened().beginCall(event);
    else if (event.type === "state") this.#opened().noteState(event);
    else if (event.type === "approval") this.question(event.approval);
  }

  end(ended: Completion, isTold: boolean): typeof sent {
    const error = errorOfEnd(ended.end);
    if (error !== undefined && !ended.hasActed && !this.outgoing.headersSent) throw error;
    this.#digits ??= digitsIn(ended.id);
    const output = this.#opened();
    output.addEnd(ended, this.#form.settings, isTold);
    const id = `resp_${this.#digits}`;
    const response = endedResponse({ ...ended, id }, this.#form, output);
    const { status } = response;
    // There is no event for a response that was cancelled. Its status says so.
    const event = status === "cancelled" ? "incomplete" : status;
    this.#event({ type: `response.${event}`, response });
    return this.close();
  }

  #write({ type, text, logprobs }: Extract<TurnEvent, { text: string }>): void {
    if (text !== "") this.#opened().add(type, text, logprobs);
  }

  protected paragraph(text: string): void {
    const output = this.#opened();
    output.beginRound();
    output.add("text", text);
    output.beginRound();
  }

  protected begin(): void {
    this.#digits ??= digitsOf(uuid());
    const response = toOpenResponse({ id: `resp_${this.#digits}`, parts: [] }, this.#form);
    this.#event({ type: "response.created", response });
    this.#event({ type: "response.in_progress", response });
  }

  #opened(): ResponseOutput {
    this.open();
    // `begin` has set the digits.
    this.#output ??= new ResponseOutput(this.#digits!, showsCalls(this.#form.settings), (event) =>
      this.#event(event),
    );
    return this.#output;
  }

  #event(event: OutputEvent): void {
    const sequence_number = this.#number++;
    if (sequence_number > this.#after) this.send(eventText(event.type, { ...event, sequence_number }));
  }
}

function endedResponse(
  ended: Completion,
  form: ResponseForm,
  output: ResponseOutput,
): Record<string, unknown> {
  const { id, end, usage, sessionID, parts, hasActed } = ended;
  const error = hasActed ? errorOfEnd(end)?.toEnvelope() : undefined;
  const told = {
    ...(showsCalls(form.settings) ? { sessionID, end, calls: shownCalls(parts) } : {}),
    ...error,
  };
  return responseObject(
    id,
    { ...form, model: ended.model },
    {
      ...statusOf(ended, form.settings),
      output: output.items,
      completed_at: seconds(Date.now()),
      usage: toUsage(usage),
      ...(Object.keys(told).length === 0 ? {} : { toolrack: told }),
    },
  );
}

function statusOf(ended: Completion, settings: ResponseSettings): Record<string, unknown> {
  const status = outcomeOf(ended, wantsJson(settings));
  const reason = ended.end.reason === "content_filter" ? "content_filter" : "max_output_tokens";
  if (status === "incomplete") return { status, incomplete_details: { reason } };
  return status === "failed" ? { status, error: toError(ended.end) } : { status };
}

function toError(end: TurnEnd): Record<string, unknown> {
  const code = errorOfEnd(end)?.code ?? "internal_error";
  const codes: Readonly<Record<string, string>> = {
    provider_busy: "rate_limit_exceeded",
    provider_refused: "invalid_prompt",
  };
  return { code: codes[code] ?? "server_error", type: code, message: whyFailed(end) };
}

/** The members that all responses have, in the order of OpenAI's documentation. */
function responseObject(
  id: string,
  { settings, model, createdAt }: ResponseForm,
  members: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { instructions = null, metadata, max_output_tokens = null, previous_response_id = null } = settings;
  const {
    temperature = null,
    top_p = null,
    truncation,
    tool_choice,
    tools,
    text,
    reasoning,
    user,
  } = settings;
  return {
    id,
    object: "response",
    created_at: seconds(createdAt),
    background: settings.background ?? false,
    error: null,
    incomplete_details: null,
    instructions,
    max_output_tokens,
    max_tool_calls: settings.max_tool_calls ?? null,
    metadata: metadata ?? {},
    model,
    parallel_tool_calls: settings.parallel_tool_calls ?? true,
    previous_response_id,
    reasoning: { effort: null, summary: null, ...reasoning },
    store: settings.store ?? true,
    temperature,
    text: { format: { type: "text" }, ...text },
    tool_choice: tool_choice ?? "auto",
    tools: tools ?? [],
    top_p,
    truncation: truncation ?? "disabled",
    usage: null,
    ...(user == null ? {} : { user }),
    ...members,
  };
}

function toUsage(usage: ModelUsage): Record<string, unknown> {
  const { prompt_tokens, completion_tokens, total_tokens, estimated } = usage;
  const { cached_tokens = 0 } = Object(usage.prompt_tokens_details);
  const { reasoning_tokens = 0 } = Object(usage.completion_tokens_details);
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens, cache_write_tokens: 0 },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens },
    total_tokens,
    ...(estimated && { estimated }),
  };
}

function seconds(time: number): number {
  return Math.floor(time / 1000);
}
