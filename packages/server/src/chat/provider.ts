import { setTimeout as wait } from "node:timers/promises";
import { redact } from "@toolrack/core/internal";
import { createParser } from "eventsource-parser";
import { type AnswerPiece, objectsIn, readChunk } from "./answer-chunks.ts";
import { type ModelEndpoint, parsedJson } from "./model.ts";

export interface StreamOptions {
  readonly signal: AbortSignal;
  /**
   * Sent beside the headers of the provider's config. A header of the config wins over one of the same name.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Called before the pause that precedes a repeated request. */
  readonly onRetry?: (retry: { attempt: number; waitMs: number; reason: string }) => void;
  /** How often a failed request is repeated. Default 4. */
  readonly retries?: number;
  /** The pause before the first retry, in milliseconds; each further pause is twice as long. Default 500. */
  readonly backoff?: number;
}

const LONGEST_BACKOFF = 16_000;
/** If a provider asks for a longer pause, the request fails, and the caller decides when to ask again. */
const LONGEST_WAIT = 60_000;
/** At most this many characters of an error page are read. */
const LONGEST_PAGE = 64_000;
/**
 * At most this many characters of one event are read. Model output is far shorter; images as text come close.
 */
const LONGEST_EVENT = 32_000_000;

/**
 * Asks the model and yields the chunks of its answer. A temporary failure is retried only before the first chunk with
 * content, so that nothing is said or called twice. Throws `ProviderError`, or the signal's reason.
 */
export async function* streamCompletion(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  { signal, headers, onRetry, retries = 4, backoff = 500 }: StreamOptions,
): AsyncGenerator<AnswerPiece> {
  const init = { method: "POST", signal, headers, body: JSON.stringify(body) };
  for (let attempt = 1; ; attempt++) {
    let hasBegun = false;
    try {
      const response = await askProvider(endpoint, "/chat/completions", init);
      for await (const piece of readResponse(endpoint, response)) {
        hasBegun ||= piece.saysSomething || piece.finish !== undefined;
        yield piece;
      }
      signal.throwIfAborted();
      return;
    } catch (thrown) {
      signal.throwIfAborted();
      const error =
        thrown instanceof ProviderError
          ? thrown
          : failure("unreachable", endpoint, "cannot be reached", thrown);
      const pause = pauseBefore(attempt, error, backoff);
      if (hasBegun || attempt > retries || !mayPass(error) || pause > LONGEST_WAIT) throw error;
      onRetry?.({ attempt, waitMs: pause, reason: error.message });
      await wait(pause, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** Sends a request to a path below the base URL, which may have a query of its own. */
export function askProvider(endpoint: ModelEndpoint, path: string, init: RequestInit): Promise<Response> {
  const url = new URL(endpoint.baseURL);
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  const { apiKey } = endpoint;
  const headers = {
    ...init.headers,
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...endpoint.headers,
  };
  // A redirect could change the request or send the key to another host.
  return fetch(url, { ...init, headers, redirect: "error" });
}

function mayPass({ kind, code }: ProviderError): boolean {
  // Waiting does not help against these.
  if (code === "insufficient_quota" || code === TOO_LONG) return false;
  return kind === "busy" || kind === "failed" || kind === "unreachable" || kind === "cut";
}

/** Milliseconds to wait before the next attempt; more than none, even if the provider asks for no pause. */
function pauseBefore(attempt: number, { retryAfter = 0 }: ProviderError, backoff: number): number {
  // Random, so that callers that failed together do not retry together.
  const own = Math.min(backoff * 2 ** (attempt - 1), LONGEST_BACKOFF) * (0.5 + Math.random() / 2);
  return Math.max(retryAfter * 1000, own);
}

/**
 * The pause that the provider asks for, in seconds. Headers give it in seconds, in milliseconds or as a date.
 * Undefined when there is no such header.
 */
function retryAfterOf(headers: Headers): number | undefined {
  const after = headers.get("retry-after")?.trim() || undefined;
  const exact = Number(headers.get("retry-after-ms")?.trim() || Number.NaN) / 1000;
  const seconds = [exact, Number(after), (Date.parse(after ?? "") - Date.now()) / 1000].find(Number.isFinite);
  return seconds === undefined ? undefined : Math.max(0, seconds);
}

/** Length of `retry:`, the longest field name with which a stream may begin. */
const LONGEST_FIELD = 6;

/** Yields the chunks of an answer, streamed or not. Throws `ProviderError`. */
async function* readResponse(endpoint: ModelEndpoint, response: Response): AsyncGenerator<AnswerPiece> {
  const { body, headers, status, ok } = response;
  const pieces = decoded(body ?? []);
  if (!ok) {
    // Only the beginning of an error page is read. If the connection breaks, the text before it is used.
    const text = await joined(pieces, LONGEST_PAGE, true);
    const retryAfter = retryAfterOf(headers);
    throw reportedError(endpoint, parsedJson(text), { status, text, retryAfter });
  }
  try {
    let isStream = /\btext\/event-stream\b/i.test(headers.get("content-type") ?? "");
    let head = "";
    // Some servers do not declare an event stream, so the beginning of the body decides.
    while (!isStream && head.length < LONGEST_FIELD) {
      const { done, value } = await pieces.next();
      if (done) break;
      head = (head + value).trimStart();
    }
    isStream ||= /^(?:data|event|id|retry)?:/.test(head);
    if (isStream) {
      yield* readStream(endpoint, head, pieces);
      return;
    }
    const text = head + (await joined(pieces, LONGEST_EVENT));
    const completion = checked(endpoint, text);
    if (objectsIn(Object(completion).choices).length === 0)
      throw unreadable(endpoint, "no completion, because it has no choices", text);
    yield readChunk(completion, true);
  } catch (thrown) {
    if (thrown instanceof ProviderError) throw thrown;
    throw thrown instanceof EventTooLong ? tooLong(endpoint) : cutOff(endpoint, thrown);
  }
}

async function* readStream(
  endpoint: ModelEndpoint,
  head: string,
  pieces: AsyncIterable<string>,
): AsyncGenerator<AnswerPiece> {
  let isComplete = false;
  let hasBegun = false;
  try {
    for await (const data of readEvents(head, pieces, LONGEST_EVENT)) {
      if (data.trim() === "[DONE]") {
        // [DONE] completes the answer only if there was content before it.
        isComplete ||= hasBegun;
        break;
      }
      const piece = readChunk(checked(endpoint, data));
      isComplete ||= piece.finish !== undefined;
      hasBegun ||= piece.saysSomething;
      yield piece;
    }
  } catch (thrown) {
    // An answer with a finish reason is complete; only its usage may be missing.
    const isBroken = !(thrown instanceof ProviderError || thrown instanceof EventTooLong);
    if (!isComplete || !isBroken) throw thrown;
  }
  // Not every server sends [DONE]. An answer with neither [DONE] nor a finish reason was cut off.
  if (!isComplete) throw cutOff(endpoint);
}

/** Parses an event of a stream, or a whole answer. Throws the error that the provider reports in it. */
function checked(endpoint: ModelEndpoint, text: string): unknown {
  const value = parsedJson(text);
  if (value === undefined) throw unreadable(endpoint, "not JSON", text);
  const { error } = Object(value);
  if (error === undefined || error === null) return value;
  throw reportedError(endpoint, value);
}

async function* decoded(
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  for await (const piece of bytes) yield decoder.decode(piece, { stream: true });
  yield decoder.decode();
}

/**
 * Joins the pieces. A text with more than `longest` characters throws `EventTooLong`; with `isCut` it is cut
 * about there, or where the connection breaks.
 */
async function joined(pieces: AsyncIterable<string>, longest: number, isCut = false): Promise<string> {
  const kept: string[] = [];
  let size = 0;
  try {
    for await (const piece of pieces) {
      kept.push(piece);
      size += piece.length;
      if (size > longest) throw new EventTooLong();
    }
  } catch (thrown) {
    if (!isCut) throw thrown;
  }
  return kept.join("");
}

/** One event has more characters than allowed. */
export class EventTooLong extends Error {
  override readonly name = "EventTooLong";
}

/**
 * Yields the `data` of each event, however the bytes were split. Comments and other fields are ignored. Throws
 * `EventTooLong`.
 */
export function readSse(bytes: AsyncIterable<Uint8Array>, longest = LONGEST_EVENT): AsyncGenerator<string> {
  return readEvents("", decoded(bytes), longest);
}

async function* readEvents(
  head: string,
  pieces: AsyncIterable<string>,
  longest: number,
): AsyncGenerator<string> {
  const events: string[] = [];
  let isTooLong = false;
  const parser = createParser({
    maxBufferSize: longest,
    onEvent: ({ data }) => events.push(data),
    onError: ({ type }) => {
      isTooLong ||= type === "max-buffer-size-exceeded";
    },
  });
  parser.feed(head);
  yield* events.splice(0);
  for await (const piece of pieces) {
    parser.feed(piece);
    yield* events.splice(0);
    if (isTooLong) throw new EventTooLong();
  }
  // Some servers leave out the empty line at the end.
  parser.feed("\n\n");
  yield* events;
}

/**
 * `unreachable`: no connection, or one that broke before the answer began. `cut`: the answer ended in the
 * middle. `busy`: status 429. `unauthorized`: the key is not accepted. `refused`: the request itself is not
 * accepted. `failed`: everything else.
 */
type ProviderErrorKind = "unreachable" | "cut" | "busy" | "refused" | "unauthorized" | "failed";

/**
 * The model did not answer. The message is for the person who asked. There is no `cause`, because the original error
 * may hold the provider's key.
 */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  readonly kind: ProviderErrorKind;
  /** For programs: the provider's name, and its own `status`, `code`, `type` and `param`. */
  readonly details: Readonly<Record<string, unknown>>;
  /** Seconds after which the provider allows another request. */
  readonly retryAfter: number | undefined;

  constructor(kind: ProviderErrorKind, provider: string, message: string, own?: object, retryAfter?: number) {
    super(message);
    this.kind = kind;
    this.details = { provider, ...own };
    this.retryAfter = retryAfter;
  }

  /** The provider's own error code, such as `context_length_exceeded`. */
  get code(): unknown {
    return this.details.code;
  }
}

/** At most this many characters of a provider's error message are shown. */
const LONGEST_WORDS = 1_000;
/** At most this many characters of each code in a provider's error are shown. */
const LONGEST_CODE = 100;
/** At most this many characters of an unreadable answer, or of a network error, are shown. */
const LONGEST_NONSENSE = 200;
/** Error code for an answer that is too long. No retry follows, because the result would be the same. */
const TOO_LONG = "response_too_long";

interface FailedResponse {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: number | undefined;
}

/**
 * The error that a provider's answer reports. `response`: given for an answer with an HTTP error status. An
 * error inside a stream may name a status of its own.
 */
function reportedError(endpoint: ModelEndpoint, answer: unknown, response?: FailedResponse): ProviderError {
  const { error = answer } = Object(answer);
  const { message, status: ownStatus, code, type, param } = Object(error);
  const number = Number(ownStatus ?? code ?? Number.NaN);
  const status = response?.status ?? (number >= 400 && number < 600 ? number : 500);
  const said = [error, message, response?.text].find((text) => typeof text === "string") ?? "";
  const words = shownWords(endpoint, said, LONGEST_WORDS);
  const told = `${place(endpoint)} answered ${status} for the model "${endpoint.model}"${words === "" ? "" : `: ${words}`}`;
  const codes = Object.entries({ code, type, param })
    .filter(([, text]) => typeof text === "string")
    .map(([key, text]) => [key, shownWords(endpoint, text, LONGEST_CODE)]);
  const own = { status, ...Object.fromEntries(codes) };
  return new ProviderError(kindOf(status), endpoint.provider, told, own, response?.retryAfter);
}

function kindOf(status: number): ProviderErrorKind {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 429) return "busy";
  return status >= 400 && status < 500 && status !== 408 ? "refused" : "failed";
}

/** An error about a provider. `problem`: the words that follow the provider's name. */
export function failure(
  kind: ProviderErrorKind,
  endpoint: ModelEndpoint,
  problem: string,
  thrown: unknown,
): ProviderError {
  const message = `${place(endpoint)} ${problem}: ${reasonOf(endpoint, thrown)}.`;
  return new ProviderError(kind, endpoint.provider, message);
}

/** The provider sent something that cannot be read. */
function unreadable(endpoint: ModelEndpoint, what: string, text: string): ProviderError {
  const message = `${place(endpoint)} sent something that is ${what}: ${shownWords(endpoint, text, LONGEST_NONSENSE)}`;
  return new ProviderError("failed", endpoint.provider, message);
}

/** The answer ended in the middle. `thrown`: the error that ended it, if any. */
function cutOff(endpoint: ModelEndpoint, thrown?: unknown): ProviderError {
  const reason = thrown === undefined ? "" : ` (${reasonOf(endpoint, thrown)})`;
  const message = `The answer of ${place(endpoint, "the")} broke off before its end${reason}.`;
  return new ProviderError("cut", endpoint.provider, message);
}

function tooLong(endpoint: ModelEndpoint): ProviderError {
  const message =
    `${place(endpoint)} sent more than ${LONGEST_EVENT} characters at once for the model "${endpoint.model}", which is the most ` +
    "that is taken in of one event or of one answer that is not streamed. Ask for less at a time, or use a server that streams in smaller pieces.";
  return new ProviderError("failed", endpoint.provider, message, { code: TOO_LONG });
}

/** Prefers an error code, because network error messages contain addresses. */
function reasonOf(endpoint: ModelEndpoint, thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  const { code, message } = Object(cause);
  const reason = typeof code === "string" ? code : (message ?? thrown);
  return shownWords(endpoint, String(reason), LONGEST_NONSENSE);
}

function place({ provider, address }: ModelEndpoint, article = "The"): string {
  return `${article} model provider "${provider}" (${address})`;
}

/** A provider's text made safe to show: masked before it is cut, so that no half of a secret remains. */
function shownWords({ secrets }: ModelEndpoint, text: string, longest: number): string {
  const masked = String(redact(text, { values: secrets })).trim();
  return masked.length <= longest ? masked : `${masked.slice(0, longest).toWellFormed()}…`;
}
