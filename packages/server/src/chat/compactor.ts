import { estimateTokens } from "@toolrack/core/internal";
import { readResultName } from "../calls/index.ts";
import { imageCallOf } from "./messages.ts";
import { type ModelMessage, textOf } from "./model.ts";

/** Results are removed once the messages fill more than this share of the limit. */
const FULL = 0.8;
/** Results are removed until the messages fill only this share of the limit. */
const ROOMY = 0.5;
/** A result with fewer characters is not removed, because that would save too little. */
const SHORTEST = 800;
const SHOWN = 200;
/** An answer of the model with at least this many characters may be shortened. */
const LONG_ANSWER = 20_000;
/** How many characters a shortened answer keeps of its beginning, and as many of its end. */
const KEPT_OF_ANSWER = 4_000;
/** Prefix of the key under which removed images are remembered; the model's id of their call follows. */
const IMAGES = "images of ";
const IMAGE_TOKENS = 1_000;

/**
 * Keeps a conversation within the model's context window. Before the window is full, the oldest tool results
 * are cut to a short beginning and a line that says how to read them again, and images from tools are
 * replaced by a line that mentions them. If that is not enough, the model's oldest long answers are
 * shortened. What was removed stays removed, so that the beginning of the conversation, and with it the
 * provider's prompt cache, seldom changes.
 */
export class Compactor {
  #limit: number;
  readonly #callIdOf: (toolCallId: string) => string | undefined;
  /**
   * Keys of what was removed: for a result the model's id of its call, for images that id after the prefix
   * `IMAGES`.
   */
  readonly taken: Set<string>;

  /**
   * `limit`: tokens that all messages together may take. `callIdOf` maps the model's id of a call to the
   * rack's; a result without an id of the rack could not be read again, so it is never removed.
   */
  constructor(
    limit: number,
    callIdOf: (toolCallId: string) => string | undefined,
    taken: Iterable<string> = [],
  ) {
    this.#limit = limit;
    this.#callIdOf = callIdOf;
    this.taken = new Set(taken);
  }

  /** Sets another limit, for another model. */
  resize(limit: number): void {
    this.#limit = limit;
  }

  /** Returns the shortened messages, and the keys of what was removed this time. */
  apply(given: readonly ModelMessage[]): { messages: ModelMessage[]; out: string[] } {
    const messages = given.map((message) => this.#withoutTaken(message));
    const out: string[] = [];
    let size = messages.reduce((sum, message) => sum + tokensOf(message), 0);
    const shorten = (before: number, shorter: (message: ModelMessage) => ModelMessage | undefined) => {
      for (const [at, message] of messages.entries()) {
        if (at >= before || size <= this.#limit * ROOMY) return;
        messages[at] = shorter(message) ?? message;
        size += tokensOf(messages[at]) - tokensOf(message);
      }
    };
    if (size <= this.#limit * FULL) return { messages, out };
    // The results after the model's last answer stay, because the model has not read them yet.
    const last = messages.findLastIndex(({ role }) => role === "assistant");
    shorten(last === -1 ? messages.length : last, (message) => {
      const key = this.#keyOf(message);
      if (key === undefined || this.taken.has(key)) return undefined;
      this.taken.add(key);
      out.push(key);
      return this.#withoutTaken(message);
    });
    // Which answers were shortened is not remembered: a conversation only grows, so they are shortened every
    // time.
    if (size > this.#limit * FULL) shorten(messages.length, shortAnswer);
    return { messages, out };
  }

  /** The key under which a removed message is remembered; undefined for a message that must stay. */
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
    const text = textOf(message);
    if (key.startsWith(IMAGES)) return { role: "user", content: `${text} taken out to make room.` };
    const content =
      `${text.slice(0, SHOWN).toWellFormed()}\n… This result of ${message.name ?? "the tool"} was taken out to make room. It had ` +
      `${text.length} characters and is kept as call ${this.#callIdOf(key)}; to read it again, call ${readResultName} with that callId.`;
    return { ...message, content };
  }
}

/** A long answer of the model, cut to its beginning and its end. Undefined for any other message. */
function shortAnswer(message: ModelMessage): ModelMessage | undefined {
  const text = textOf(message);
  if (message.role !== "assistant" || text.length < LONG_ANSWER) return undefined;
  const content = [
    text.slice(0, KEPT_OF_ANSWER).toWellFormed(),
    `… ${text.length - 2 * KEPT_OF_ANSWER} characters of this answer were left out here to make room. The person has all of it.`,
    text.slice(-KEPT_OF_ANSWER).toWellFormed(),
  ].join("\n");
  return { ...message, content };
}

export function tokensOf(message: ModelMessage): number {
  const { content, tool_calls, reasoning_content = "", reasoning = "", reasoning_details = "" } = message;
  const thoughts = [reasoning_content, reasoning, reasoning_details].map((thought) =>
    typeof thought === "string" ? thought : JSON.stringify(thought),
  );
  const calls = tool_calls === undefined ? "" : JSON.stringify(tool_calls);
  const images = Array.isArray(content) ? content.filter(({ type }) => type !== "text").length : 0;
  return (
    estimateTokens(textOf(message) + thoughts.join("")) + estimateTokens(calls) + images * IMAGE_TOKENS + 4
  );
}
