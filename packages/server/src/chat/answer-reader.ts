import { createParser } from "eventsource-parser";
import { parsedJson } from "../helpers/index.ts";
import { type AnswerPiece, emptyPiece, objectsIn, readChunk } from "./answer-chunks.ts";
import { cutOff, isPage, noApi, ProviderError, reportedError, tooLong, unreadable } from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";

/**
 * At most this many characters of one event are read. Model output is far shorter; images as text come close.
 */
const LONGEST_EVENT = 32_000_000;
/** Length of `retry:`, the longest field name with which a stream may begin. */
const LONGEST_FIELD = 6;

/** Reads the body of an answer, streamed or not, as its text arrives. All methods throw `ProviderError`. */
export class AnswerReader {
  readonly #endpoint: ModelEndpoint;
  readonly #onPiece: (piece: AnswerPiece) => void;
  readonly #template = new TextTemplate();
  readonly #feed = eventReader(LONGEST_EVENT, (data, event) => this.#read(data, event));
  /** The beginning of a body whose form is not known yet, then the pieces of a body that is no stream. */
  #whole = "";
  #isStream: boolean | undefined;
  #isComplete = false;
  #isOver = false;
  #hasBegun = false;

  /** `contentType`: the header of that name. Some servers do not declare an event stream there. */
  constructor(endpoint: ModelEndpoint, contentType: string, onPiece: (piece: AnswerPiece) => void) {
    this.#endpoint = endpoint;
    this.#onPiece = onPiece;
    if (/\btext\/event-stream\b/i.test(contentType)) this.#isStream = true;
  }

  /** Whether the answer has an end; only its usage may be missing. A connection that breaks then changes nothing. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Whether the stream said that nothing follows. Not every server closes the connection then. */
  get isOver(): boolean {
    return this.#isOver;
  }

  add(text: string): void {
    if (this.#isStream === undefined) {
      this.#whole = (this.#whole + text).trimStart();
      if (this.#whole.length < LONGEST_FIELD) return;
      this.#isStream = /^(?:data|event|id|retry)?:/.test(this.#whole);
      if (!this.#isStream) return;
      text = this.#whole;
    }
    if (this.#isStream) this.#take(text);
    else {
      this.#whole += text;
      if (this.#whole.length > LONGEST_EVENT) throw tooLong(this.#endpoint, LONGEST_EVENT);
    }
  }

  /** Must be called after the last text. */
  end(): void {
    // A body shorter than a field name is no stream.
    if (!this.#isStream) {
      this.#readWhole();
      return;
    }
    // Some servers leave out the empty line at the end.
    this.#take("\n\n");
    // Not every server sends [DONE]. An answer with neither [DONE] nor a finish reason was cut off.
    if (!this.#isComplete) throw cutOff(this.#endpoint);
  }

  #take(text: string): void {
    try {
      this.#feed(text);
    } catch (thrown) {
      const error = thrown instanceof EventTooLong ? tooLong(this.#endpoint, LONGEST_EVENT) : thrown;
      // An answer with its finish reason is whole, whatever goes wrong behind it.
      if (!this.#isComplete || !(error instanceof ProviderError)) throw error;
      this.#isOver = true;
    }
  }

  #read(data: string, event: string | undefined): void {
    if (this.#isOver) return;
    let piece = this.#template.read(data);
    if (piece === undefined) {
      const trimmed = data.trim();
      // Some servers send events without data to keep the connection open.
      if (trimmed === "") return;
      if (trimmed === "[DONE]") {
        // [DONE] completes the answer only if there was content before it.
        this.#isComplete ||= this.#hasBegun;
        this.#isOver = true;
        return;
      }
      if (event === "error") throw reportedError(this.#endpoint, parsedJson(data) ?? data);
      piece = readChunk(parsedAnswer(this.#endpoint, data));
      this.#template.learn(data, piece);
    }
    this.#isComplete ||= piece.finish !== undefined;
    this.#hasBegun ||= piece.saysSomething;
    this.#onPiece(piece);
  }

  #readWhole(): void {
    const text = this.#whole;
    const completion = parsedAnswer(this.#endpoint, text);
    if (objectsIn(Object(completion).choices).length === 0)
      throw unreadable(this.#endpoint, "no completion, because it has no choices", text);
    this.#isComplete = true;
    this.#onPiece(readChunk(completion, true));
  }
}

/** Parses a whole answer, or an event of a stream. Throws `ProviderError`, also for the error that the answer reports. */
export function parsedAnswer(endpoint: ModelEndpoint, text: string): unknown {
  const value = parsedJson(text);
  if (value === undefined && isPage(text)) throw noApi(endpoint, "text/html");
  if (value === undefined) throw unreadable(endpoint, "not JSON", text);
  const { error } = Object(value);
  if (error === undefined || error === null) return value;
  throw reportedError(endpoint, value);
}

/** Longer texts are parsed as usual: they are rare, and a pattern for them would need much memory. */
const LONGEST_TOKEN = 2_000;
const [QUOTE, BACKSLASH, SPACE] = [0x22, 0x5c, 0x20];
/**
 * Most chunks of an answer differ from the one before them only in their text. Such a chunk is not parsed: parsing takes
 * more time than all else that is done with a token.
 */
class TextTemplate {
  #before = "";
  #after = "";
  #field: "text" | AnswerPiece["reasoningField"];

  /** Undefined when the chunk differs in more than its text. */
  read(data: string): AnswerPiece | undefined {
    const start = this.#before.length;
    const end = data.length - this.#after.length;
    if (this.#field === undefined || end <= start || end - start > LONGEST_TOKEN) return undefined;
    // Comparing slices is several times as fast as `startsWith` and `endsWith`.
    if (data.slice(0, start) !== this.#before || data.slice(end) !== this.#after) return undefined;
    const text = unescaped(data.slice(start, end));
    if (text === undefined) return undefined;
    if (this.#field === "text") return { ...emptyPiece, text, saysSomething: true };
    return { ...emptyPiece, reasoning: text, reasoningField: this.#field, saysSomething: true };
  }

  /** Remembers the chunk if it has a text and nothing else that changes from chunk to chunk. */
  learn(data: string, piece: AnswerPiece): void {
    this.#field = undefined;
    const { text, reasoning, reasoningField, details, refusal, calls, logprobs, finish, usage } = piece;
    if ((text === "") === (reasoning === "") || data.length > LONGEST_TOKEN) return;
    if (details.length + calls.length > 0 || refusal || logprobs || finish !== undefined || usage) return;
    const key = text === "" ? reasoningField : "content";
    const [before, after, ...others] = data.split(`"${key}"`);
    if (key === undefined || before === undefined || after === undefined || others.length > 0) return;
    const [whole = "", start = "", written = ""] = /^(\s*:\s*")((?:[^"\\]|\\.)*)"/.exec(after) ?? [];
    if (whole === "" || unescaped(written) !== text + reasoning) return;
    this.#before = `${before}"${key}"${start}`;
    this.#after = data.slice(this.#before.length + written.length);
    this.#field = text === "" ? reasoningField : "text";
  }
}

/** The text of a JSON string, given without its quotation marks; undefined when that is not one string. */
function unescaped(written: string): string | undefined {
  for (let at = 0; at < written.length; at++) {
    const code = written.charCodeAt(at);
    if (code !== QUOTE && code !== BACKSLASH && code >= SPACE) continue;
    const text = parsedJson(`"${written}"`);
    return typeof text === "string" ? text : undefined;
  }
  return written;
}

/** One event has more characters than allowed. */
export class EventTooLong extends Error {
  override readonly name = "EventTooLong";
}

/**
 * Returns a function that takes in the text of a stream, however it is split, and calls `onEvent` for each event. Comments
 * and other fields are ignored. The function throws `EventTooLong`, and what `onEvent` throws.
 */
function eventReader(longest: number, onEvent: (data: string, event?: string) => void) {
  let isTooLong = false;
  const parser = createParser({
    maxBufferSize: longest,
    onEvent: ({ data, event }) => onEvent(data, event),
    onError: ({ type }) => {
      isTooLong ||= type === "max-buffer-size-exceeded";
    },
  });
  let isFirst = true;
  return (text: string): void => {
    // Some servers begin with a byte order mark, which the parser would take for a part of the first field's name.
    parser.feed(isFirst ? text.replace(/^\uFEFF/, "") : text);
    isFirst = false;
    if (isTooLong) throw new EventTooLong();
  };
}

/** Yields the `data` of each event of a stream of bytes. Throws `EventTooLong`. */
export async function* readSse(
  bytes: AsyncIterable<Uint8Array>,
  longest = LONGEST_EVENT,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const events: string[] = [];
  const feed = eventReader(longest, (data) => events.push(data));
  for await (const piece of bytes) {
    feed(decoder.decode(piece, { stream: true }));
    yield* events.splice(0);
  }
  feed(`${decoder.decode()}\n\n`);
  yield* events;
}
