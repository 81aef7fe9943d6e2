import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { acceptedEncodings, decodedBody } from "../../../access/index.ts";
import { openAgent } from "../../../helpers/index.ts";
import { UpstreamError } from "../failures.ts";

export interface HttpRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** The request ends when any of these signals is aborted. */
  readonly signals?: readonly AbortSignal[];
}

/** Milliseconds that a server may be silent before or within an answer. A listening stream is opened again after that. */
const LONGEST_SILENCE = 300_000;
/** Bytes of a body that nobody wants and that is still read to its end, because the connection can be used again then. */
const LARGEST_DRAINED = 64 * 1024;

let agent: Dispatcher | undefined;
let opening: Promise<Dispatcher> | undefined;

/**
 * Sends a request and resolves when the head of the answer is there. Uses undici's dispatcher: with `node:http` each request
 * takes about 10 µs of CPU more, and with `fetch` more than that. Rejects with the error of the connection when the server
 * cannot be reached. Redirects are not followed.
 */
export async function sendRequest(url: URL, request: HttpRequest): Promise<HttpAnswer> {
  if (url.username + url.password !== "")
    throw new TypeError("A url with a user and a password in it is not asked. Use a header instead.");
  // How long a connection may take to open is the limit of the whole attempt.
  opening ??= openAgent({ connectTimeout: 0, keepAliveTimeout: LONGEST_SILENCE });
  agent ??= await opening;
  const { method, headers, body = null, signals = [] } = request;
  const exchange = new Exchange(signals);
  agent.dispatch(
    {
      ...{ origin: url.origin, path: url.pathname + url.search, method, body },
      headers: { ...headers, "accept-encoding": acceptedEncodings },
      headersTimeout: LONGEST_SILENCE,
      bodyTimeout: LONGEST_SILENCE,
    },
    exchange,
  );
  return exchange.answer.promise;
}

/** One request and its answer, whose body goes from the connection to its reader. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly answer = Promise.withResolvers<HttpAnswer>();
  readonly #signals: readonly AbortSignal[];
  #controller: Dispatcher.DispatchController | undefined;
  #body: Readable | undefined;
  #stopped: Error | undefined;
  #isOver = false;

  constructor(signals: readonly AbortSignal[]) {
    this.#signals = signals;
    for (const signal of signals) {
      if (signal.aborted) this.#stop();
      signal.addEventListener("abort", this.#stop, { once: true });
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#stopped !== undefined) controller.abort(this.#stopped);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200) return;
    this.#body = new Readable({
      read: () => controller.resume(),
      destroy: (error, done) => {
        if (!this.#isOver) controller.abort(error ?? new Error("the answer was given up"));
        done(error);
      },
    });
    // An answer that breaks while nobody reads it is reported to whoever reads it next.
    this.#body.on("error", () => {});
    this.answer.resolve(new HttpAnswer(status, headers, this.#body));
  }

  onResponseData(controller: Dispatcher.DispatchController, bytes: Buffer): void {
    if (this.#body?.push(bytes) === false) controller.pause();
  }

  onResponseEnd(): void {
    this.#end();
    this.#body?.push(null);
  }

  onResponseError(_: Dispatcher.DispatchController, thrown: Error): void {
    this.#end();
    const error = this.#stopped ?? named(thrown);
    this.answer.reject(error);
    this.#body?.destroy(error);
  }

  #end(): void {
    this.#isOver = true;
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#stop);
  }

  readonly #stop = (): void => {
    this.#stopped ??= new DOMException("This operation was aborted", "AbortError");
    this.answer.reject(this.#stopped);
    this.#controller?.abort(this.#stopped);
  };
}

type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Gives errors for which Node has names the codes that people know. */
function named(thrown: Error): Error {
  const { code } = Object(thrown);
  if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT")
    return Object.assign(new Error("it said nothing for too long"), { code: "ESOCKETTIMEDOUT" });
  return code === "UND_ERR_SOCKET"
    ? Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })
    : thrown;
}

/** The longest message of a server that is read, in bytes. */
export const LONGEST_MESSAGE = 64 * 1024 * 1024;

/** The whole text of a body. Rejects when it is larger than `limit` bytes. */
export async function boundedText(body: AsyncIterable<Uint8Array>, limit: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of body) {
    size += piece.byteLength;
    if (size > limit) throw tooLarge(limit);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

export function tooLarge(limit: number): UpstreamError {
  const size = limit >= 1024 * 1024 ? `${Math.floor(limit / 1024 / 1024)} MB` : `${limit} bytes`;
  return new UpstreamError(
    "broken",
    `The server's answer is larger than ${size} and was not read to its end. Ask for less at one time.`,
  );
}

/** The answer of a server. Its body must be read or given up, or its connection stays in use. */
export class HttpAnswer {
  readonly status: number;
  readonly #headers: AnswerHeaders;
  readonly #body: Readable;

  constructor(status: number, headers: AnswerHeaders, body: Readable) {
    this.status = status;
    this.#headers = headers;
    this.#body = body;
  }

  header(name: string): string | undefined {
    return this.#headers[name]?.toString();
  }

  get isEventStream(): boolean {
    return /^\s*text\/event-stream/i.test(this.header("content-type") ?? "");
  }

  /** Gives up the body. */
  cancel(): void {
    const length = Number(this.header("content-length") ?? Number.NaN);
    if (length <= LARGEST_DRAINED) this.#body.resume();
    else this.#body.destroy();
  }

  /** The body as it comes, decompressed. Throws when the connection breaks before its end. */
  async *pieces(): AsyncGenerator<Buffer> {
    const body: AsyncIterable<Buffer> = await decodedBody(this.#body, this.header("content-encoding"));
    yield* body;
  }

  /** The whole body as text. Rejects when it is larger than `limit` bytes, or the connection breaks before its end. */
  text(limit = LONGEST_MESSAGE): Promise<string> {
    if (this.header("content-encoding") !== undefined) return boundedText(this.pieces(), limit);
    const body = this.#body;
    return new Promise((resolve, reject) => {
      const pieces: Buffer[] = [];
      let size = 0;
      body.on("data", (piece: Buffer) => {
        size += piece.length;
        pieces.push(piece);
        if (size > limit) body.destroy(tooLarge(limit));
      });
      body.on("end", () => resolve((pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)).toString()));
      body.on("error", reject);
      body.on("close", () => reject(new Error("The connection was closed in the middle of the answer.")));
      if (body.destroyed) reject(body.errored ?? new Error("The connection was closed."));
    });
  }
}
