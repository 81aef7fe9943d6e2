import { imageCallOf } from "./messages.ts";
import { type ModelMessage, textOf } from "./model.ts";
import { estimateTokens, readResultName } from "./tools.ts";

/** From which part of the window on results are taken out, and down to which. */
const FULL = 0.8;
const ROOMY = 0.5;
/** Shorter results are not worth it. */
const SHORTEST = 800;
const SHOWN = 200;
/** Characters of an answer from which on it may be shortened, and how many of its beginning and of its end stay. */
const LONG_ANSWER = 20_000;
const KEPT_OF_ANSWER = 4_000;
/** What the key of images begins with; the rest is the call's id. */
const IMAGES = "images of ";
/** About what an image takes. */
const IMAGE_TOKENS = 1_000;

/**
 * Keeps a conversation within what a model can read: before the window is full, the oldest results give way to a line
 * that says how to read them again, and images that tools returned to one that says that they were there. When that is
 * not enough, the oldest long answers of the model itself are shortened. What was taken out stays out, so that the
 * beginning of the conversation, and with it the provider's prompt cache, changes seldom.
 */
export class Compactor {
  readonly #limit: number;
  readonly #callIdOf: (toolCallId: string) => string | undefined;
  /** What is out: the model's ids of calls, with a word before them for their images. */
  readonly taken: Set<string>;

  /** `limit`: tokens of all messages. `callIdOf`: the rack's id of a call; a result without one cannot be read again. */
  constructor(
    limit: number,
    callIdOf: (toolCallId: string) => string | undefined,
    taken: Iterable<string> = [],
  ) {
    this.#limit = limit;
    this.#callIdOf = callIdOf;
    this.taken = new Set(taken);
  }

  /** Answers with the ids whose results were taken out now. */
  apply(messages: readonly ModelMessage[]): { messages: ModelMessage[]; out: string[] } {
    const before = messages.map((message) => this.#withoutTaken(message));
    let size = before.reduce((sum, message) => sum + tokensOf(message), 0);
    const out: string[] = [];
    if (size <= this.#limit * FULL) return { messages: before, out };
    const last = lastRound(messages);
    for (const [at, message] of before.entries()) {
      if (at >= last || size <= this.#limit * ROOMY) break;
      const key = this.#keyOf(message);
      if (key === undefined || this.taken.has(key)) continue;
      this.taken.add(key);
      out.push(key);
      before[at] = this.#withoutTaken(message);
      size += tokensOf(before[at]) - tokensOf(message);
    }
    if (size > this.#limit * FULL) this.#shortenAnswers(before, size);
    return { messages: before, out };
  }

  /** A conversation only grows, so that what is shortened once is shortened ever after. */
  #shortenAnswers(messages: ModelMessage[], size: number): void {
    let left = size;
    for (const [at, message] of messages.entries()) {
      if (left <= this.#limit * ROOMY) return;
      if (message.role !== "assistant" || textOf(message).length < LONG_ANSWER) continue;
      const shorter = { ...message, content: headAndTail(textOf(message)) };
      messages[at] = shorter;
      left += tokensOf(shorter) - tokensOf(message);
    }
  }

  /** What the message is known by when it is out; undefined for one that has to stay. */
  #keyOf(message: ModelMessage): string | undefined {
    const images = imageCallOf(message);
    if (images !== undefined) return IMAGES + images;
    const id = message.tool_call_id;
    if (message.role !== "tool" || id === undefined || this.#callIdOf(id) === undefined) return undefined;
    return this.taken.has(id) || textOf(message).length >= SHORTEST ? id : undefined;
  }

  #withoutTaken(message: ModelMessage): ModelMessage {
    const key = this.#keyOf(message);
    if (key === undefined || !this.taken.has(key)) return message;
    if (key.startsWith(IMAGES))
      return { role: "user", content: `${textOf(message)} taken out to make room.` };
    const callId = this.#callIdOf(key);
    const text = textOf(message);
    const content =
      `${text.slice(0, SHOWN).toWellFormed()}\n… This result of ${message.name ?? "the tool"} was taken out to make room. It had ` +
      `${text.length} characters and is kept as call ${callId}; to read it again, call ${readResultName} with that callId.`;
    return { ...message, content };
  }
}

function headAndTail(text: string): string {
  const left = text.length - 2 * KEPT_OF_ANSWER;
  return [
    text.slice(0, KEPT_OF_ANSWER).toWellFormed(),
    `… ${left} characters of this answer were left out here to make room. The person has all of it.`,
    text.slice(-KEPT_OF_ANSWER).toWellFormed(),
  ].join("\n");
}

/** Where the last answer of the model begins: the results that it has not read yet stay. */
function lastRound(messages: readonly ModelMessage[]): number {
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  return at === -1 ? messages.length : at;
}

export function tokensOf(message: ModelMessage): number {
  const calls = message.tool_calls === undefined ? "" : JSON.stringify(message.tool_calls);
  const { reasoning_content = "", reasoning = "", reasoning_details = "" } = message;
  const thoughts = [reasoning_content, reasoning, reasoning_details].map((thought) =>
    typeof thought === "string" ? thought : JSON.stringify(thought),
  );
  const images = Array.isArray(message.content)
    ? message.content.filter(({ type }) => type !== "text").length
    : 0;
  return (
    estimateTokens(textOf(message) + thoughts.join("")) + estimateTokens(calls) + images * IMAGE_TOKENS + 4
  );
}
