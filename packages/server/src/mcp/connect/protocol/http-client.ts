import { Agent, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps, Agent as SecureAgent } from "node:https";
import { urlToHttpOptions } from "node:url";
import { acceptedEncodings, decodedBody } from "../../../access/index.ts";
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

/** Connections are kept open. With NODE_USE_ENV_PROXY they go through the proxy that the environment names. */
const kept = {
  keepAlive: true,
  timeout: LONGEST_SILENCE,
  ...(process.env.NODE_USE_ENV_PROXY === "1" ? { proxyEnv: process.env } : {}),
};
const agents = { plain: new Agent(kept), secure: new SecureAgent(kept) };

/**
 * Sends a request and resolves when the head of the answer is there. Uses `node:http`, because a call with `fetch` takes
 * twice the CPU: streams of the web, a signal made of two, and a dozen promises. Rejects with Node's own error when the
 * server cannot be reached. Redirects are not followed.
 */
export function sendRequest(
  url: URL,
  { method, headers, body, signals = [] }: HttpRequest,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    if (url.username + url.password !== "")
      throw new TypeError("A url with a user and a password in it is not asked. Use a header instead.");
    const isSecure = url.protocol === "https:";
    const outgoing = (isSecure ? requestHttps : requestHttp)({
      ...targetOf(url),
      agent: isSecure ? agents.secure : agents.plain,
      method,
      headers: {
        ...headers,
        "accept-encoding": acceptedEncodings,
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
      },
    });
    let answer: IncomingMessage | undefined;
    const stop = () => {
      const stopped = new DOMException("This operation was aborted", "AbortError");
      if (answer === undefined) outgoing.destroy(stopped);
      else answer.destroy(stopped);
    };
    outgoing.on("error", reject);
    outgoing.on("timeout", () => {
      const silent = Object.assign(new Error("it said nothing for too long"), { code: "ESOCKETTIMEDOUT" });
      if (answer === undefined) outgoing.destroy(silent);
      else answer.destroy(silent);
    });
    outgoing.on("response", (incoming) => {
      answer = incoming;
      // An answer that breaks while nobody reads it is reported to whoever reads it next.
      incoming.on("error", () => {});
      resolve(new HttpAnswer(incoming));
    });
    for (const signal of signals) {
      if (signal.aborted) stop();
      signal.addEventListener("abort", stop, { once: true });
      outgoing.once("close", () => signal.removeEventListener("abort", stop));
    }
    outgoing.end(body);
  });
}

/** The parts of an address that Node wants; the same few addresses are asked all the time. */
const targets = new WeakMap<URL, ReturnType<typeof urlToHttpOptions>>();

function targetOf(url: URL): ReturnType<typeof urlToHttpOptions> {
  let target = targets.get(url);
  if (target === undefined) {
    const { protocol, hostname, port, path } = urlToHttpOptions(url);
    target = { protocol, hostname, port, path };
    targets.set(url, target);
  }
  return target;
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
  readonly #message: IncomingMessage;

  constructor(message: IncomingMessage) {
    this.#message = message;
    this.status = message.statusCode ?? 0;
  }

  header(name: string): string | undefined {
    return this.#message.headers[name]?.toString();
  }

  get isEventStream(): boolean {
    return /^\s*text\/event-stream/i.test(this.header("content-type") ?? "");
  }

  /** Gives up the body. */
  cancel(): void {
    const length = Number(this.header("content-length") ?? Number.NaN);
    if (length <= LARGEST_DRAINED) this.#message.resume();
    else this.#message.destroy();
  }

  /** The body as it comes, decompressed. Throws when the connection breaks before its end. */
  async *pieces(): AsyncGenerator<Buffer> {
    yield* (await decodedBody(this.#message)) as AsyncIterable<Buffer>; // No encoding is set, so the pieces are bytes.
  }

  /** The whole body as text. Rejects when it is larger than `limit` bytes, or the connection breaks before its end. */
  text(limit = LONGEST_MESSAGE): Promise<string> {
    if (this.header("content-encoding") !== undefined) return boundedText(this.pieces(), limit);
    const message = this.#message;
    return new Promise((resolve, reject) => {
      const pieces: Buffer[] = [];
      let size = 0;
      message.on("data", (piece: Buffer) => {
        size += piece.length;
        pieces.push(piece);
        if (size > limit) message.destroy(tooLarge(limit));
      });
      message.on("end", () => resolve((pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)).toString()));
      message.on("error", reject);
      message.on("close", () => reject(new Error("The connection was closed in the middle of the answer.")));
      if (message.destroyed) reject(message.errored ?? new Error("The connection was closed."));
    });
  }
}
