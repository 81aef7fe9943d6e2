import type { Completion } from "./completion-service.ts";
import type { ModelUsage } from "./model/completion-chunk.ts";
import type { ModelToolCall } from "./model/model-message.ts";
import { isTool, type MessagePart, textOfParts } from "./turn/message-part.ts";
import type { TurnEnd } from "./turn/turn-event.ts";

export interface CompletionForm {
  /** Whether the tools' activity is told. */
  readonly tellsEvents: boolean;
  /** See `wantsJson`. */
  readonly isJson: boolean;
}

/** The answer in the form of Chat Completions. */
export function toCompletion(
  completion: Completion,
  { tellsEvents, isJson }: CompletionForm,
): Record<string, unknown> {
  const { id, model, parts, usage, end, calls } = completion;
  const refusal = textOfParts(parts, "refusal");
  const reasoning = textOfParts(parts, "reasoning");
  const text = answerText(parts, isJson);
  const message = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    refusal: refusal === "" ? null : refusal,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    id,
    object: "chat.completion",
    created: now(),
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(end, isJson) }],
    usage,
    ...(tellsEvents ? { toolrack: activity(completion) } : {}),
  };
}

/** Makes the chunks of one streamed answer. */
export class ChunkMaker {
  readonly #head: Record<string, unknown>;

  constructor(id: string, model: string) {
    this.#head = { id, object: "chat.completion.chunk", created: now(), model };
  }

  delta(delta: Readonly<Record<string, unknown>>, finish: string | null = null): Record<string, unknown> {
    return { ...this.#head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] };
  }

  calls(calls: readonly ModelToolCall[]): Record<string, unknown> {
    return this.delta({ tool_calls: calls.map((call, index) => ({ index, ...call })) });
  }

  usage(usage: ModelUsage): Record<string, unknown> {
    return { ...this.#head, choices: [], usage };
  }

  /** Says something that only who asked for it is told. */
  event(event: unknown): Record<string, unknown> {
    return { ...this.#head, choices: [], toolrack: event };
  }
}

export function finishReason({ reason }: TurnEnd, isJson: boolean): string {
  if (reason === "client_tools") return "tool_calls";
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

/** What stands between the text of one round and that of the next. */
export function separator(before: string): string {
  return before === "" || before.endsWith("\n\n") ? "" : before.endsWith("\n") ? "\n" : "\n\n";
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
