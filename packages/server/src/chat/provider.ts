import { StringDecoder } from "node:string_decoder";
import { setTimeout as wait } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { brokeBetween, openAgent, parsedJson, whenAborted } from "../helpers/index.ts";
import type { AnswerPiece } from "./answer-chunks.ts";
import { AnswerReader, parsedAnswer } from "./answer-reader.ts";
import {
  compressed,
  cutOff,
  failure,
  noApi,
  ProviderError,
  redirected,
  reportedError,
  silent,
  tooLong,
} from "./errors.ts";
import type { ModelEndpoint } from "./model.ts";

export interface StreamOptions {
  readonly signal: AbortSignal;
  /**
   * Sent beside the headers of the provider's config. A header of the config wins over one of the same name.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Called for each chunk of the answer as it arrives. What it throws ends the request and is thrown on. */
  readonly onPiece: (piece: AnswerPiece) => void;
  /** Called before the pause that precedes a repeated request. */
  readonly onRetry?: (retry: { attempt: number; waitMs: number; reason: string }) => void;
  /** How often a failed request is repeated. Default 4. */
  readonly retries?: number | undefined;
  /** The pause before the first retry, in milliseconds; each further pause is twice as long. Default 500. */
  readonly backoff?: number | undefined;
}

const LONGEST_BACKOFF = 16_000;
/** If a provider asks for a longer pause, the request fails, and the caller decides when to ask again. */
const LONGEST_WAIT = 60_000;
/** At most this many characters of an error page are read. */
const LONGEST_PAGE = 64_000;
/** An answer that is not streamed may have at most this many: room for embeddings of 2,000 texts with 3,000 numbers each. */
const LONGEST_WHOLE = 64_000_000;
/** How long it may take to open a connection, in milliseconds. */
const CONNECT_TIMEOUT = 10_000;
/** How long a connection is kept for the next message of a person, in milliseconds. Opening another takes remote ones 100 ms and more. */
const KEEP_ALIVE = 60_000;
/** How long a connection stays open after the provider said that its answer is over, in milliseconds. */
const LINGER = 1_000;

/**
 * Asks the model. Resolves at the end of its answer. A temporary failure is retried only before the first chunk with
 * content, so that nothing is said or called twice. Throws `ProviderError`, or the signal's reason.
 */
export async function streamCompletion(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  { signal, headers, onPiece, onRetry, retries = 4, backoff = 500 }: StreamOptions,
): Promise<void> {
  const bytes = bodyBytes(body);
  for (let attempt = 1; ; attempt++) {
    let hasBegun = false;
    try {
      signal.throwIfAborted();
      const take = (piece: AnswerPiece) => {
        hasBegun ||= piece.saysSomething || piece.finish !== undefined;
        onPiece(piece);
      };
      const request = { path: "/chat/completions", bytes, headers, signal };
      await exchange(endpoint, request, (type) => new AnswerReader(endpoint, type, take));
      return;
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof ProviderError)) throw thrown;
      thrown.hasAnswered = hasBegun;
      const pause = pauseBefore(attempt, thrown, backoff);
      if (hasBegun || attempt > retries || !thrown.mayPass || pause > LONGEST_WAIT) throw thrown;
      onRetry?.({ attempt, waitMs: pause, reason: thrown.message });
      await wait(pause, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** Lists of tools as they were sent before. The rack offers the same list in most requests. */
const sentTools = new WeakMap<object, Buffer>();

/**
 * The body as JSON in UTF-8. A list of tools is written once and its bytes are kept: to write 100 tools anew takes 100 µs
 * for each request, and one letter outside of Latin-1 makes it twice as much.
 */
function bodyBytes({ tools, ...others }: Readonly<Record<string, unknown>>): Buffer {
  const text = JSON.stringify(others);
  if (!Array.isArray(tools)) return Buffer.from(text);
  const known = sentTools.get(tools) ?? Buffer.from(`"tools":${JSON.stringify(tools)}}`);
  sentTools.set(tools, known);
  return Buffer.concat([Buffer.from(text === "{}" ? "{" : `${text.slice(0, -1)},`), known]);
}

/**
 * Asks once for something that is not streamed, at a path below the base URL. Throws `ProviderError`, or the signal's reason.
 */
export async function askProvider(
  endpoint: ModelEndpoint,
  path: string,
  { signal, body }: { readonly signal: AbortSignal; readonly body?: object },
): Promise<unknown> {
  const bytes = body && Buffer.from(JSON.stringify(body));
  const pieces: string[] = [];
  let size = 0;
  await exchange(endpoint, { path, bytes, signal }, () => ({
    add(text) {
      size += text.length;
      if (size > LONGEST_WHOLE) throw tooLong(endpoint, LONGEST_WHOLE);
      pieces.push(text);
    },
    end: () => {},
  }));
  return parsedAnswer(endpoint, pieces.join(""));
}

/** The headers of a request, as a list of names and values: that costs less than an object of them. */
function headersOf({ apiKey, headers }: ModelEndpoint, { headers: given }: ModelRequest): string[] {
  const all = {
    ...given,
    "accept-encoding": "identity",
    // Some providers refuse requests without one.
    "user-agent": "toolrack",
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
  return Object.entries(all).flat();
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
  const after = String(headers["retry-after"] ?? "").trim() || undefined;
  const exact = Number(String(headers["retry-after-ms"] ?? "").trim() || Number.NaN) / 1000;
  const seconds = [exact, Number(after), (Date.parse(after ?? "") - Date.now()) / 1000].find(Number.isFinite);
  return seconds === undefined ? undefined : Math.max(0, seconds);
}

interface ModelRequest {
  /** Where to ask, below the base URL. */
  readonly path: string;
  /** The body; not given for a `GET`. */
  readonly bytes: Buffer | undefined;
  readonly headers?: StreamOptions["headers"];
  readonly signal: AbortSignal;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Takes in the text of a response as it comes. What its methods throw ends the request, and is thrown on. */
interface ResponseReader {
  add(text: string): void;
  /** Called after the last text. */
  end(): void;
  /** Nothing follows, even if the connection stays open. */
  readonly isOver?: boolean;
  /** A connection that breaks now changes nothing. */
  readonly isComplete?: boolean;
  /** Called when the connection breaks. The error to tell of instead of that. */
  cut?(): ProviderError;
}

/** Called when the head of a response says that it is an answer. `contentType`: the header of that name. */
type OpenReader = (contentType: string) => ResponseReader;

/**
 * Not `node:http`: of 200 requests that come at once, each would take 100 µs more until the first token; nor `fetch`, where
 * every token takes several times as long.
 */
let agent: Dispatcher | undefined;
let opening: Promise<Dispatcher> | undefined;

/**
 * Sends the request and gives what comes back to a reader. Resolves at the end of the answer. Throws `ProviderError`, the
 * signal's reason, and what the reader throws.
 */
async function exchange(endpoint: ModelEndpoint, asked: ModelRequest, open: OpenReader): Promise<void> {
  opening ??= openAgent({ connectTimeout: CONNECT_TIMEOUT, keepAliveTimeout: KEEP_ALIVE });
  agent ??= await opening;
  const started = new Exchange(endpoint, asked, open);
  started.send();
  await started.done.promise;
}

/** One request and its response. Each piece goes from the socket to its reader without a promise in between. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #endpoint: ModelEndpoint;
  readonly #asked: ModelRequest;
  readonly #open: OpenReader;
  readonly done = Promise.withResolvers<void>();
  readonly #unfollow: () => void;
  readonly #decoder = new StringDecoder("utf8");
  #controller: Dispatcher.DispatchController | undefined;
  #reader: ResponseReader | undefined;
  #isSettled = false;
  #isAgain = false;
  #lingering: NodeJS.Timeout | undefined;

  constructor(endpoint: ModelEndpoint, asked: ModelRequest, open: OpenReader) {
    this.#endpoint = endpoint;
    this.#asked = asked;
    this.#open = open;
    this.#unfollow = whenAborted(asked.signal, () => this.#fail(asked.signal.reason));
  }

  send(): void {
    if (this.#isSettled) return;
    const { bytes, path } = this.#asked;
    const { idleSeconds, url } = this.#endpoint;
    const timeout = idleSeconds * 1000;
    try {
      // `exchange` has loaded it.
      agent?.dispatch(
        {
          origin: url.origin,
          // The base URL may have a query of its own.
          path: url.path + path + url.query,
          method: bytes === undefined ? "GET" : "POST",
          headers: headersOf(this.#endpoint, this.#asked),
          body: bytes ?? null,
          headersTimeout: timeout,
          bodyTimeout: timeout,
        },
        this,
      );
    } catch (thrown) {
      this.#fail(failure("unreachable", this.#endpoint, "cannot be asked", thrown));
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isSettled) this.#stop();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (this.#isSettled || status < 200) return;
    try {
      this.#reader = readerOf(this.#endpoint, status, headers, this.#open);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  onResponseData(_: Dispatcher.DispatchController, bytes: Buffer): void {
    if (!this.#isSettled) this.#take(this.#decoder.write(bytes));
  }

  onResponseEnd(): void {
    // Nearly always the end comes in the same packet as the end of the answer. Until then the timer keeps it in memory.
    clearTimeout(this.#lingering);
    if (!this.#isSettled) this.#take(this.#decoder.end(), true);
  }

  onResponseError(_: Dispatcher.DispatchController, thrown: Error): void {
    clearTimeout(this.#lingering);
    if (this.#isSettled) return;
    if (brokeBetween(thrown) && !this.#isAgain) {
      this.#isAgain = true;
      this.send();
    } else if (this.#reader?.isComplete) this.#settle();
    else this.#fail(this.#errorOf(thrown));
  }

  #errorOf(thrown: Error): ProviderError {
    const endpoint = this.#endpoint;
    const { code } = Object(thrown);
    if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT") return silent(endpoint);
    const known = nodeCodes[code];
    const named = known === undefined ? thrown : Object.assign(new Error(thrown.message), { code: known });
    if (this.#reader !== undefined) return this.#reader.cut?.() ?? cutOff(endpoint, named);
    // A key or a header of the config may have characters that no header may have.
    const problem = code === "UND_ERR_INVALID_ARG" ? "cannot be asked" : "cannot be reached";
    return failure("unreachable", endpoint, problem, named);
  }

  #take(text: string, isLast = false): void {
    const reader = this.#reader;
    if (reader === undefined) return;
    try {
      if (text !== "") reader.add(text);
      if (!isLast && !reader.isOver) return;
      reader.end();
    } catch (thrown) {
      this.#fail(thrown);
      return;
    }
    this.#settle();
    if (!isLast) this.#lingering = setTimeout(() => this.#stop(), LINGER).unref();
  }

  #settle(): void {
    this.#isSettled = true;
    this.#unfollow();
    this.done.resolve();
  }

  #fail(thrown: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#unfollow?.();
    this.done.reject(thrown);
    this.#stop();
  }

  #stop(): void {
    this.#controller?.abort(new Error("the request was stopped"));
  }
}

/** Codes of errors for which Node has names that people know. */
const nodeCodes: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: "ETIMEDOUT",
  UND_ERR_SOCKET: "ECONNRESET",
  UND_ERR_INVALID_ARG: "ERR_INVALID_CHAR",
};

/** A reader for the response with this head. Throws `ProviderError` for one that is no answer. */
function readerOf(
  endpoint: ModelEndpoint,
  status: number,
  headers: Headers,
  open: OpenReader,
): ResponseReader {
  if (status >= 300 && status < 400) throw redirected(endpoint, status, String(headers.location ?? ""));
  const type = String(headers["content-type"] ?? "");
  if (status < 300 && /\bhtml\b/i.test(type)) throw noApi(endpoint, type);
  const encoding = String(headers["content-encoding"] || "identity");
  if (status < 300 && encoding.toLowerCase() !== "identity") throw compressed(endpoint, encoding);
  if (status < 300) return open(type);
  let text = "";
  const report = () =>
    reportedError(endpoint, parsedJson(text), { status, text, retryAfter: retryAfterOf(headers) });
  return {
    add(piece) {
      text += piece;
      if (text.length > LONGEST_PAGE) throw report();
    },
    end() {
      throw report();
    },
    cut: report,
  };
}
