import {
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request as requestHttp,
} from "node:http";
import { request as requestHttps } from "node:https";
import { setTimeout as wait } from "node:timers/promises";
import { urlToHttpOptions } from "node:url";
import { whenAborted } from "../helpers/index.ts";
import type { AnswerPiece } from "./answer-chunks.ts";
import { AnswerReader, parsedAnswer } from "./answer-reader.ts";
import {
  cutOff,
  failure,
  noApi,
  ProviderError,
  redirected,
  reportedError,
  silent,
  tooLong,
} from "./errors.ts";
import { type ModelEndpoint, parsedJson } from "./model.ts";

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
      await readAnswer(endpoint, { path: "/chat/completions", bytes, headers, signal }, (piece) => {
        hasBegun ||= piece.saysSomething || piece.finish !== undefined;
        onPiece(piece);
      });
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
  try {
    const bytes = body && Buffer.from(JSON.stringify(body));
    const response = await open(endpoint, { path, bytes, signal });
    const pieces: string[] = [];
    let size = 0;
    for await (const piece of response) {
      size += piece.length;
      if (size > LONGEST_WHOLE) throw tooLong(endpoint, LONGEST_WHOLE);
      pieces.push(piece);
    }
    return parsedAnswer(endpoint, pieces.join(""));
  } catch (thrown) {
    signal.throwIfAborted();
    throw thrown instanceof ProviderError ? thrown : cutOff(endpoint, thrown);
  }
}

/** Where and how models are asked, by URL: reading a URL takes 6 µs. */
const targets = new Map<string, Target>();
const MOST_TARGETS = 100;

/**
 * The address of a request in the form that Node takes. It has no further members, because Node copies all of them
 * several times.
 */
interface Target {
  readonly protocol: string;
  readonly hostname: RequestOptions["hostname"];
  readonly port: RequestOptions["port"];
  readonly path: RequestOptions["path"];
  /** The value of the header `Host`. */
  readonly host: string;
}

function targetOf({ baseURL }: ModelEndpoint, path: string): Target {
  const known = targets.get(baseURL + path);
  if (known !== undefined) return known;
  const url = new URL(baseURL);
  // The base URL may have a query of its own.
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  const { hostname, port, path: whole } = urlToHttpOptions(url);
  const target = { protocol: url.protocol, hostname, port, path: whole, host: url.host };
  if (targets.size >= MOST_TARGETS) targets.clear();
  targets.set(baseURL + path, target);
  return target;
}

/** The headers of a request, as a list of names and values: that costs Node less than an object of them. */
function headersOf(
  { apiKey, headers }: ModelEndpoint,
  host: string,
  { bytes, headers: given }: ModelRequest,
): string[] {
  const all = {
    host,
    ...given,
    "accept-encoding": "identity",
    // Some providers refuse requests without one.
    "user-agent": "toolrack",
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
    ...(bytes === undefined ? {} : { "content-length": String(bytes.length) }),
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
function retryAfterOf(headers: IncomingMessage["headers"]): number | undefined {
  const after = headers["retry-after"]?.trim() || undefined;
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

/** Asks once. Throws `ProviderError`, and what `onPiece` throws. */
async function readAnswer(
  endpoint: ModelEndpoint,
  request: ModelRequest,
  onPiece: StreamOptions["onPiece"],
): Promise<void> {
  const response = await open(endpoint, request);
  const reader = new AnswerReader(endpoint, response.headers["content-type"] ?? "", onPiece);
  // Each piece goes from the socket to the client without a promise in between: tokens come one by one.
  await new Promise<void>((resolve, reject) => {
    const attempt = (act: () => void) => {
      try {
        act();
      } catch (thrown) {
        reject(thrown);
        response.destroy();
      }
    };
    response.on("data", (text: string) =>
      attempt(() => {
        reader.add(text);
        if (!reader.isOver) return;
        reader.end();
        resolve();
        response.removeAllListeners("data").resume();
        if (response.complete) return;
        const lingering = setTimeout(() => response.destroy(), LINGER).unref();
        // Nearly always the end comes in the same packet. Until then the timer keeps the whole answer in memory.
        response.once("close", () => clearTimeout(lingering));
      }),
    );
    response.on("end", () =>
      attempt(() => {
        if (!reader.isOver) reader.end();
        resolve();
      }),
    );
    response.on("error", (thrown) => {
      if (reader.isComplete) resolve();
      else reject(thrown instanceof ProviderError ? thrown : cutOff(endpoint, thrown));
    });
  }).catch((thrown) => {
    response.destroy();
    throw thrown;
  });
}

/** Sends the request and resolves to the response, whose head says that it is an answer. Throws `ProviderError`. */
async function open(endpoint: ModelEndpoint, request: ModelRequest): Promise<IncomingMessage> {
  const response = await send(endpoint, request);
  const { headers, statusCode: status = 0 } = response;
  response.setEncoding("utf8");
  // An unread response that is destroyed reports that as an error.
  response.on("error", () => {});
  if (status >= 300 && status < 400) {
    response.destroy();
    throw redirected(endpoint, status, headers.location);
  }
  const type = headers["content-type"] ?? "";
  const isAnswer = status >= 200 && status < 300;
  if (isAnswer && !/\bhtml\b/i.test(type)) return response;
  if (isAnswer) {
    response.destroy();
    throw noApi(endpoint, type);
  }
  const text = await beginningOf(response);
  throw reportedError(endpoint, parsedJson(text), { status, text, retryAfter: retryAfterOf(headers) });
}

/**
 * Sends the request and resolves to the response as soon as its head is there. Uses `node:http`, because with `fetch` every
 * token and every request takes several times as long. Redirects are not followed.
 */
function send(endpoint: ModelEndpoint, asked: ModelRequest, isAgain = false): Promise<IncomingMessage> {
  const { bytes, signal } = asked;
  const { host, ...target } = targetOf(endpoint, asked.path);
  const headers = headersOf(endpoint, host, asked);
  const timeout = endpoint.idleSeconds * 1000;
  const method = bytes === undefined ? "GET" : "POST";
  const options = { ...target, method, headers, timeout, ...(isAgain ? { agent: false } : {}) };
  return new Promise((resolve, reject) => {
    const request = target.protocol === "https:" ? requestHttps : requestHttp;
    let outgoing: ClientRequest;
    try {
      outgoing = request(options);
    } catch (thrown) {
      // A key or a header of the config has characters that no header may have.
      reject(failure("unreachable", endpoint, "cannot be asked", thrown));
      return;
    }
    // Node's own option `signal` watches the request with a dozen listeners.
    outgoing.once(
      "close",
      whenAborted(signal, () => outgoing.destroy(new Error("the request was stopped"))),
    );
    let connecting: NodeJS.Timeout | undefined;
    let response: IncomingMessage | undefined;
    outgoing.on("socket", (socket) => {
      if (!socket.connecting) return;
      const slow = Object.assign(new Error("no connection in time"), { code: "ETIMEDOUT" });
      connecting = setTimeout(() => outgoing.destroy(slow), CONNECT_TIMEOUT);
      socket.once("connect", () => clearTimeout(connecting));
    });
    outgoing.on("timeout", () => {
      const error = silent(endpoint);
      if (response === undefined) outgoing.destroy(error);
      else response.destroy(error);
    });
    outgoing.on("error", (thrown) => {
      clearTimeout(connecting);
      const isReset = Object(thrown).code === "ECONNRESET";
      // The provider may close a connection that was kept open at the moment in which it is used again.
      if (outgoing.reusedSocket && isReset && !isAgain && response === undefined && !signal.aborted)
        send(endpoint, asked, true).then(resolve, reject);
      else if (thrown instanceof ProviderError) reject(thrown);
      else reject(failure("unreachable", endpoint, "cannot be reached", thrown));
    });
    outgoing.on("response", (incoming) => {
      response = incoming;
      resolve(incoming);
    });
    outgoing.end(bytes);
  });
}

/** The beginning of an error page. If the connection breaks, the text before it is used. */
async function beginningOf(response: IncomingMessage): Promise<string> {
  const kept: string[] = [];
  let size = 0;
  try {
    for await (const piece of response) {
      kept.push(piece);
      size += piece.length;
      if (size > LONGEST_PAGE) break;
    }
  } catch {}
  return kept.join("");
}
