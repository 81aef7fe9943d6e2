import { type CompletionChunk, toChunk, toOnlyChunk } from "./completion-chunk.ts";
import type { ModelEndpoint } from "./endpoint.ts";
import { ProviderError } from "./provider-error.ts";
import { cutOff, errorInStream, noCompletion, notJson, tooLong } from "./provider-failure.ts";
import { readDelta, saysSomething } from "./read-delta.ts";
import { EventTooLong, LONGEST_EVENT, readSse } from "./read-sse.ts";

/** The chunks of an answer, streamed or not. Throws `ProviderError`, or what broke the connection while it was sent. */
export async function* readCompletion(
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
export async function readBeginning({ body }: Response, longest: number): Promise<string> {
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
