import { setTimeout as wait } from "node:timers/promises";
import { type CompletionChunk, readDelta, saysSomething, toChunk, toOnlyChunk } from "./deltas.ts";
import {
  cutOff,
  errorInStream,
  noCompletion,
  notJson,
  ProviderError,
  refusal,
  retryAfterOf,
  TOO_LONG,
  tooLong,
  unreachable,
} from "./failure.ts";
import { addressBelow, headersOf, type ModelEndpoint } from "./providers.ts";

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** Sent beside those of the provider. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Is told before each wait. */
  readonly onRetry?: (retry: {
    readonly attempt: number;
    readonly waitMs: number;
    readonly reason: string;
  }) => void;
  /** How often a request is made again. Default 4. */
  readonly retries?: number;
  /** The first wait, in milliseconds; each further one is twice as long. Default 500. */
  readonly backoff?: number;
}

const USUAL_RETRIES = 4;
const USUAL_BACKOFF = 500;
const LONGEST_BACKOFF = 16_000;
/** A provider that wants a longer pause is not waited for: whoever asked decides. */
const LONGEST_WAIT = 60_000;
/** Characters of an error page that are read. */
const LONGEST_PAGE = 64_000;

/**
 * Asks the model, and gives the chunks of its answer as they come. Until the first one that says something, a failure
 * that may pass is met by asking again; from then on never, so that nothing is said or called twice. Throws
 * `ProviderError`, or the signal's reason.
 */
export async function* streamCompletion(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  options: StreamOptions,
): AsyncGenerator<CompletionChunk> {
  const { signal, headers, onRetry, retries = USUAL_RETRIES, backoff = USUAL_BACKOFF } = options;
  for (let attempt = 1; ; attempt++) {
    let hasBegun = false;
    try {
      for await (const chunk of request(endpoint, body, signal, headers)) {
        hasBegun ||= isBegun(chunk);
        yield chunk;
      }
      signal.throwIfAborted();
      return;
    } catch (thrown) {
      signal.throwIfAborted();
      const error = thrown instanceof ProviderError ? thrown : unreachable(endpoint, thrown);
      const pause = pauseBefore(attempt, error, backoff);
      if (hasBegun || attempt > retries || !mayPass(error) || pause > LONGEST_WAIT) throw error;
      onRetry?.({ attempt, waitMs: pause, reason: error.message });
      await wait(pause, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

async function* request(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
  headers: StreamOptions["headers"],
): AsyncGenerator<CompletionChunk> {
  const response = await fetch(addressBelow(endpoint, "/chat/completions"), {
    method: "POST",
    signal,
    // A redirect would turn the request into another one, or send the key elsewhere.
    redirect: "error",
    headers: { ...headers, ...headersOf(endpoint) },
    body: JSON.stringify(body),
  });
  if (!response.ok) {
    const text = await readBeginning(response, LONGEST_PAGE);
    throw refusal(endpoint, response.status, text, retryAfterOf(response.headers));
  }
  try {
    yield* readCompletion(endpoint, response);
  } catch (thrown) {
    throw thrown instanceof ProviderError ? thrown : cutOff(endpoint, thrown);
  }
}

function mayPass({ kind, code }: ProviderError): boolean {
  // Nothing that passes by waiting a moment.
  if (code === "insufficient_quota" || code === TOO_LONG) return false;
  return kind === "busy" || kind === "failed" || kind === "unreachable" || kind === "cut";
}

/** Never without a pause, whatever the provider asks for. */
function pauseBefore(attempt: number, { retryAfter = 0 }: ProviderError, backoff: number): number {
  // Spread out, so that callers who failed together do not come back together.
  const own = Math.min(backoff * 2 ** (attempt - 1), LONGEST_BACKOFF) * (0.5 + Math.random() / 2);
  return Math.max(retryAfter * 1000, own);
}

function isBegun({ choices = [] }: CompletionChunk): boolean {
  return choices.some(
    ({ delta, finish_reason }) => typeof finish_reason === "string" || saysSomething(readDelta(delta)),
  );
}

/** The chunks of an answer, streamed or not. Throws `ProviderError`, or what broke the connection while it was sent. */
async function* readCompletion(
  endpoint: ModelEndpoint,
  { body, headers }: Response,
): AsyncGenerator<CompletionChunk> {
  const bytes = body ?? ReadableStream.from([]);
  try {
    if (/\btext\/event-stream\b/i.test(headers.get("content-type") ?? "")) {
      yield* readStream(endpoint, bytes);
      return;
    }
    // Some servers forget to say that they stream.
    const { first, all } = await peek(bytes);
    if (/^(?:data|event|id|retry)?:/.test(first)) yield* readStream(endpoint, all);
    else yield readWhole(endpoint, await textOf(all, LONGEST_EVENT));
  } catch (thrown) {
    throw thrown instanceof EventTooLong ? tooLong(endpoint, LONGEST_EVENT) : thrown;
  }
}

/** The beginning of a text, for people: more is not read. */
async function readBeginning({ body }: Response, longest: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const bytes of body ?? []) {
      text += decoder.decode(bytes, { stream: true });
      if (text.length >= longest) break;
    }
  } catch {
    // What came before it broke off is as good.
  }
  return text;
}

async function* readStream(
  endpoint: ModelEndpoint,
  bytes: AsyncIterable<Uint8Array>,
): AsyncGenerator<CompletionChunk> {
  let isComplete = false;
  let hasBegun = false;
  try {
    for await (const data of readSse(bytes)) {
      if (data.trim() === "[DONE]") {
        // It stands for an end only where there is something that can end.
        isComplete ||= hasBegun;
        break;
      }
      const chunk = checked(endpoint, toChunk(parsed(endpoint, data)));
      for (const { delta, finish_reason } of chunk.choices ?? []) {
        isComplete ||= typeof finish_reason === "string";
        hasBegun ||= saysSomething(readDelta(delta));
      }
      yield chunk;
    }
  } catch (thrown) {
    // Nothing is missing of an answer that has ended, but perhaps what it took.
    const isBroken = !(thrown instanceof ProviderError || thrown instanceof EventTooLong);
    if (!isComplete || !isBroken) throw thrown;
  }
  // Not every server says [DONE]; one that gave no reason to end did not mean to.
  if (!isComplete) throw cutOff(endpoint);
}

function readWhole(endpoint: ModelEndpoint, text: string): CompletionChunk {
  const chunk = checked(endpoint, toOnlyChunk(parsed(endpoint, text)));
  if (chunk.choices?.length === 0) throw noCompletion(endpoint, text);
  return chunk;
}

function parsed(endpoint: ModelEndpoint, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notJson(endpoint, text);
  }
}

/** Some failures come in the middle of a stream that began well. */
function checked(endpoint: ModelEndpoint, chunk: CompletionChunk): CompletionChunk {
  if (chunk.error === undefined || chunk.error === null) return chunk;
  throw errorInStream(endpoint, chunk);
}

/** `retry:` */
const LONGEST_FIELD = 6;

/** The first words of a stream, and the whole of it. */
async function peek(
  stream: ReadableStream<Uint8Array>,
): Promise<{ first: string; all: AsyncIterable<Uint8Array> }> {
  const source = stream[Symbol.asyncIterator]();
  const pieces: Uint8Array[] = [];
  const decoder = new TextDecoder();
  let first = "";
  while (first.length < LONGEST_FIELD) {
    const { done, value } = await source.next();
    if (done) break;
    pieces.push(value);
    first = (first + decoder.decode(value, { stream: true })).trimStart().slice(0, LONGEST_FIELD);
  }
  const all = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* pieces.splice(0);
      for (;;) {
        const { done, value } = await source.next();
        if (done) return;
        yield value;
      }
    } finally {
      // The connection is given up with who reads it.
      await source.return?.();
    }
  };
  return { first, all: all() };
}

/** Throws `EventTooLong`. */
async function textOf(stream: AsyncIterable<Uint8Array>, longest: number): Promise<string> {
  const decoder = new TextDecoder();
  const pieces: string[] = [];
  let size = 0;
  for await (const bytes of stream) {
    const piece = decoder.decode(bytes, { stream: true });
    size += piece.length;
    if (size > longest) throw new EventTooLong();
    pieces.push(piece);
  }
  return pieces.join("") + decoder.decode();
}

/** Characters that one event may have. What streams models make is far below it; images as text come near. */
const LONGEST_EVENT = 32_000_000;

/** One event has more characters than are taken in. */
export class EventTooLong extends Error {
  override readonly name = "EventTooLong";
}

/**
 * The `data` of each event of a stream, however its bytes were cut. Comments and other fields are passed over. Throws
 * `EventTooLong`.
 */
export async function* readSse(
  stream: AsyncIterable<Uint8Array>,
  longest = LONGEST_EVENT,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const lines = new SseLines();
  let data: string[] = [];
  let size = 0;
  const take = function* (found: readonly string[]): Generator<string> {
    for (const line of found) {
      if (line === "") {
        if (data.length > 0) yield data.join("\n");
        data = [];
        size = 0;
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
        size += line.length;
      }
    }
    if (size + lines.pending > longest) throw new EventTooLong();
  };
  for await (const bytes of stream) yield* take(lines.add(decoder.decode(bytes, { stream: true })));
  // Some servers leave out the empty line at the end.
  yield* take([...lines.add(decoder.decode()), ...lines.rest(), ""]);
}

/**
 * The lines of such a stream, which end with LF, CR LF or CR. Each piece is looked at once: a long line comes in thousands of them, and looking at
 * all of it every time would hold up everybody.
 */
class SseLines {
  #pieces: string[] = [];
  /** Characters of the line that has not ended. */
  pending = 0;
  #endedWithReturn = false;

  add(text: string): string[] {
    if (text === "") return [];
    const lines: string[] = [];
    // The second half of a CR LF ends nothing.
    let start = this.#endedWithReturn && text.startsWith("\n") ? 1 : 0;
    for (const { 0: end, index } of text.matchAll(/\r\n?|\n/g)) {
      if (index < start) continue;
      this.#keep(text.slice(start, index));
      lines.push(this.#line());
      start = index + end.length;
    }
    this.#keep(text.slice(start));
    this.#endedWithReturn = text.endsWith("\r");
    return lines;
  }

  rest(): string[] {
    return this.pending === 0 ? [] : [this.#line()];
  }

  #keep(piece: string): void {
    if (piece === "") return;
    this.#pieces.push(piece);
    this.pending += piece.length;
  }

  #line(): string {
    const line = this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.join("");
    this.#pieces = [];
    this.pending = 0;
    return line;
  }
}
