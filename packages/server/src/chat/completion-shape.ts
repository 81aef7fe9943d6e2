import type { Completion } from "./completions.ts";
import { calledIn, type ModelToolCall, type ModelUsage } from "./model.ts";
import { isTool, type MessagePart, separator, type TurnEnd, textOfParts } from "./turn.ts";

export interface CompletionForm {
  /** Whether the tools' activity is told. */
  readonly tellsEvents: boolean;
  /** See `wantsJson`. */
  readonly isJson: boolean;
  /** The client reads calls in the older form; see `offersFunctions`. */
  readonly isFunctions: boolean;
}

/** The answer in the form of Chat Completions. */
export function toCompletion(completion: Completion, form: CompletionForm): Record<string, unknown> {
  const { tellsEvents, isJson } = form;
  const { id, model, parts, usage, facts, end, calls } = completion;
  const { logprobs = null, annotations, ...more } = facts;
  const refusal = textOfParts(parts, "refusal");
  const reasoning = textOfParts(parts, "reasoning");
  const text = answerText(parts, isJson);
  const message = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(annotations === undefined ? {} : { annotations }),
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
    ...(tellsEvents ? { toolrack: activity(completion) } : {}),
  };
}

/** Makes the chunks of one streamed answer. */
export class ChunkMaker {
  readonly #head: Record<string, unknown>;

  constructor(id: string, model: string) {
    this.#head = { id, object: "chat.completion.chunk", created: now(), model };
  }

  delta(
    delta: Readonly<Record<string, unknown>>,
    finish: string | null = null,
    logprobs: unknown = null,
  ): Record<string, unknown> {
    return { ...this.#head, choices: [{ index: 0, delta, logprobs, finish_reason: finish }] };
  }

  calls(calls: readonly ModelToolCall[], form: Pick<CompletionForm, "isFunctions">): Record<string, unknown> {
    return this.delta(
      callMembers(
        calls.map((call, index) => ({ index, ...call })),
        form,
      ),
    );
  }

  usage(usage: ModelUsage): Record<string, unknown> {
    return { ...this.#head, choices: [], usage };
  }

  /** Says something that only who asked for it is told. */
  event(event: unknown): Record<string, unknown> {
    return { ...this.#head, choices: [], toolrack: event };
  }
}

export function finishReason(
  { reason }: TurnEnd,
  { isJson, isFunctions }: Pick<CompletionForm, "isJson" | "isFunctions">,
): string {
  if (reason === "client_tools") return isFunctions ? "function_call" : "tool_calls";
  // Who reads JSON cannot read why it is not there; clients know that it may be cut.
  if (isJson && (reason === "limit" || reason === "loop")) return "length";
  return reason === "length" || reason === "content_filter" ? reason : "stop";
}

/**
 * What the model said in several rounds is one text to who did not see what it did in between. JSON is only what it said
 * last.
 */
export function answerText(parts: readonly MessagePart[], isJson: boolean): string {
  if (isJson) return textOfParts(parts.slice(parts.findLastIndex(isTool) + 1));
  const rounds = [...Map.groupBy(parts, ({ round }) => round).values()].map((round) => textOfParts(round));
  return rounds.filter((text) => text !== "").reduce((all, text) => all + separator(all) + text, "");
}

/** The members of a message, or of a piece of it, that hold the calls. */
function callMembers(
  calls: readonly ModelToolCall[],
  { isFunctions }: Pick<CompletionForm, "isFunctions">,
): Record<string, unknown> {
  const [first] = calls;
  if (first === undefined) return {};
  if (!isFunctions) return { tool_calls: calls };
  const { name, written } = calledIn(first);
  return { function_call: { name, arguments: written } };
}

function activity({ parts, end, sessionID }: Completion): Record<string, unknown> {
  const calls = parts.filter(isTool).filter(({ client }) => !client);
  return {
    sessionID,
    end,
    calls: calls.map(({ callId, name, displayName, arguments: written, state }) => {
      const { status } = state;
      return { callId, name, displayName, arguments: written, status };
    }),
  };
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
