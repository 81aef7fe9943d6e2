import { setTimeout as delay } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import { isRecord, reasonOf } from "../../../helpers/index.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { sentence, UpstreamError } from "../failures.ts";
import { HttpAnswer, type HttpRequest, LONGEST_MESSAGE, sendRequest, tooLarge } from "./http-client.ts";
import { lostConnection, refusalIn } from "./http-errors.ts";
import type { Message, SendOptions, Transport, UpstreamRequest } from "./messages.ts";

export type AddressEntry = ResolvedEntry & { readonly kind: "address" };

interface StreamEvent {
  readonly id?: string | undefined;
  readonly event?: string | undefined;
  readonly data: string;
}

/** The request that a stream belongs to, if it belongs to one. */
interface Answered extends Partial<SendOptions> {
  readonly id?: unknown;
}

const MOST_REDIRECTS = 5;
/** How many attempts in a row are made to open a broken stream again. */
const MOST_RETRIES = 2;
/** The pause before the first attempt to open a broken stream again, in milliseconds. */
const RETRY_PAUSE = 1_000;
/** How long a server may take to end our session, in milliseconds. */
const TERMINATE_LIMIT = 1_000;

/**
 * Speaks to a server at an address. `http`: each request has an answer of its own, one message or a stream, and a stream
 * that breaks is continued if the server can. `sse`, the older way: all answers come on one stream.
 */
export class HttpTransport implements Transport {
  onmessage?: Transport["onmessage"];
  onclose?: Transport["onclose"];
  protocolVersion: string | undefined;
  readonly hasOwnAnswers: boolean;
  isListening = false;
  /** Whether a stream for the server's own messages has ever been open. */
  hasOpened = false;
  problem: string | undefined;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  #sessionId: string | undefined;
  /** Where messages are sent. With `sse` the server names the place. */
  #endpoint: URL;
  /** The pause before a stream is opened again, if the server has named one. */
  #retryPause: number | undefined;
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor({ url, headers }: AddressEntry, kind: "http" | "sse") {
    this.#url = url;
    this.#endpoint = url;
    this.#headers = headers;
    this.hasOwnAnswers = kind === "http";
  }

  /** Resolves at once, or with `sse` when the server has named the place for messages. */
  async start(): Promise<void> {
    if (this.hasOwnAnswers) return;
    const response = await this.#open();
    if (!response.isEventStream)
      throw new UpstreamError("broken", "It answered with something that is no stream of events.");
    this.isListening = true;
    this.hasOpened = true;
    const named = Promise.withResolvers<void>();
    const read = async () => {
      for await (const { event = "message", data } of this.#events(response)) {
        if (event === "endpoint") {
          this.#endpoint = endpointIn(data, this.#url);
          named.resolve();
        } else if (event === "message") this.#deliver(data);
      }
    };
    void read()
      .catch((thrown: unknown) => {
        named.reject(thrown);
        if (thrown instanceof UpstreamError) this.problem = thrown.message;
      })
      .finally(() => {
        named.reject(new UpstreamError("broken", "Its stream ended before it named a place for messages."));
        void this.close();
      });
    await named.promise;
  }

  async send(message: Message, { request, signal, headers }: Partial<SendOptions> = {}): Promise<void> {
    const { id, method } = message;
    const isHandshake = method === "initialize";
    const response = await this.#send(
      this.#endpoint,
      {
        method: "POST",
        body: JSON.stringify(message),
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...this.#ownHeaders(),
          ...headers,
        },
      },
      signal,
    );
    const { status } = response;
    if (status >= 400) {
      const hasSession = !isHandshake && (this.#sessionId !== undefined || !this.hasOwnAnswers);
      throw await refusalIn(response, id, hasSession);
    }
    if (isHandshake) this.#sessionId = response.header("mcp-session-id");
    if (!this.hasOwnAnswers || request === undefined) {
      response.cancel();
      if (method === "notifications/initialized" && status === 202) void this.#listen();
    } else if (status === 202) {
      response.cancel();
      const text = "It answered with 202 Accepted, after which no result comes any more.";
      throw new UpstreamError("broken", text);
    } else if (!response.isEventStream) await this.#readMessages(response, id, request);
    else if (!(await this.#readStream(response, { id, request, signal })))
      throw new UpstreamError("broken", "The server ended its answer before it was complete.");
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  /** Also ends the session at the server, which would otherwise keep it. */
  async #end(): Promise<void> {
    const headers = { ...this.#headers, ...this.#ownHeaders() };
    const signal = AbortSignal.timeout(TERMINATE_LIMIT);
    this.#closing.abort();
    this.isListening = false;
    this.onclose?.();
    if (this.#sessionId === undefined) return;
    await sendRequest(this.#url, { method: "DELETE", headers, signals: [signal] }).then(
      (answer) => answer.cancel(),
      () => {},
    );
  }

  #ownHeaders(): Record<string, string> {
    return {
      ...(this.#sessionId === undefined ? {} : { "mcp-session-id": this.#sessionId }),
      ...(this.protocolVersion === undefined ? {} : { "mcp-protocol-version": this.protocolVersion }),
    };
  }

  /** Follows redirects within the same origin, or to https on the same host, because the headers of the entry are sent along. */
  async #send(url: URL, { method, headers, body }: HttpRequest, signal?: AbortSignal): Promise<HttpAnswer> {
    const { signal: closing } = this.#closing;
    const wanted = {
      method,
      headers: { ...this.#headers, ...headers },
      body,
      signals: signal === undefined ? [closing] : [closing, signal],
    };
    let at = url;
    for (let followed = 0; ; followed++) {
      const response = await sendRequest(at, wanted).catch((thrown: unknown) => {
        throw lostConnection(thrown) ?? thrown;
      });
      const { status } = response;
      const target = status >= 300 && status < 400 ? URL.parse(response.header("location") ?? "", at) : null;
      if (target === null) return response;
      response.cancel();
      const keepsMethod = method === "GET" || status === 307 || status === 308;
      const isSecured = target.protocol === "https:" && target.hostname === at.hostname;
      const isOwn = (target.origin === at.origin || isSecured) && target.username + target.password === "";
      if (!keepsMethod || !isOwn || followed === MOST_REDIRECTS) throw redirected(target, at, status);
      at = target;
    }
  }

  /** Opens a stream for the server's own messages, or with `lastEventId` continues one. */
  async #open(lastEventId?: string, signal?: AbortSignal): Promise<HttpAnswer> {
    const headers = {
      accept: "text/event-stream",
      ...this.#ownHeaders(),
      ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
    };
    const response = await this.#send(this.#url, { method: "GET", headers }, signal);
    if (response.status >= 400) throw await refusalIn(response, undefined, false);
    return response;
  }

  /** Listens to the server's own messages for as long as it lets us. */
  async #listen(): Promise<void> {
    const first = await this.#open().catch(() => undefined);
    if (first === undefined || !first.isEventStream) return first?.cancel();
    await this.#readStream(first, {}, true);
    // The server let us listen before and cannot be reached any more.
    void this.close();
  }

  /**
   * Delivers the messages of a stream. If the stream ends before the answer and its events have ids, it is
   * opened again where it ended. `isOwn`: whether it is the stream for the server's own messages, which has no
   * answer and is always opened again. Returns whether the answer came.
   */
  async #readStream(first: HttpAnswer, { id, request, signal }: Answered, isOwn = false): Promise<boolean> {
    let lastEventId: string | undefined;
    let isAnswered = false;
    for (let response: HttpAnswer | undefined = first; response !== undefined && !isAnswered; ) {
      if (isOwn) this.isListening = true;
      try {
        for await (const found of this.#events(response)) {
          const { id: eventId, event = "message", data }: StreamEvent = found;
          if (eventId !== undefined) lastEventId = eventId;
          if (event === "message") isAnswered = this.#deliver(data, request, id) || isAnswered;
        }
      } catch (thrown) {
        // A stream that breaks is treated like one that ends.
        if (thrown instanceof UpstreamError && !isOwn) throw thrown;
      }
      if (isOwn) this.isListening = false;
      const canResume: boolean = !isAnswered && (isOwn || lastEventId !== undefined);
      response = canResume ? await this.#openAgain(lastEventId, signal) : undefined;
    }
    return isAnswered;
  }

  /** Undefined when the stream cannot be opened. */
  async #openAgain(lastEventId: string | undefined, signal?: AbortSignal): Promise<HttpAnswer | undefined> {
    for (let failures = 0; failures < MOST_RETRIES; failures++) {
      await delay(this.#retryPause ?? RETRY_PAUSE * 1.5 ** failures, undefined, { ref: false });
      if (this.#closing.signal.aborted || signal?.aborted) return undefined;
      const response = await this.#open(lastEventId, signal).catch((thrown: unknown) => thrown);
      if (response instanceof HttpAnswer) return response;
      if (response instanceof UpstreamError && response.facts.status === 405) return undefined;
    }
    return undefined;
  }

  async #readMessages(response: HttpAnswer, id: unknown, request: UpstreamRequest): Promise<void> {
    const type = response.header("content-type");
    if (!/^\s*application\/json\b/i.test(type ?? "")) {
      response.cancel();
      const reason = type === undefined ? "it has no content, or one without a type" : `its type is ${type}`;
      throw new UpstreamError("broken", `It answered with something that is no message of MCP: ${reason}.`);
    }
    const given = await messagesIn(response);
    const messages = Array.isArray(given) ? given : [given];
    if (!messages.every(isMessage))
      throw new UpstreamError("broken", "It answered with JSON that is no message of MCP.");
    for (const message of messages) this.onmessage?.(message, request);
    if (messages.some((message) => answers(message, id))) return;
    throw new UpstreamError(
      "broken",
      "It answered with something that is not the answer to this request: none with its id is in it.",
    );
  }

  /**
   * Passes a message on. Returns whether it is the answer to the request with this id. A text that is no
   * message is skipped.
   */
  #deliver(text: string, request?: UpstreamRequest, id?: unknown): boolean {
    try {
      const message: unknown = JSON.parse(text);
      if (!isMessage(message)) return false;
      this.onmessage?.(message, request);
      return answers(message, id);
    } catch {
      return false;
    }
  }

  /**
   * Reads the events of a stream. The size limit applies to each event alone, because a stream may go on for
   * ever.
   */
  async *#events(answer: HttpAnswer): AsyncGenerator<StreamEvent> {
    const events: StreamEvent[] = [];
    let isTooLarge = false;
    const parser = createParser({
      maxBufferSize: LONGEST_MESSAGE,
      onEvent: (event) => events.push(event),
      onRetry: (pause) => {
        this.#retryPause = pause;
      },
      onError: ({ type }) => {
        isTooLarge ||= type === "max-buffer-size-exceeded";
      },
    });
    const decoder = new TextDecoder();
    for await (const piece of answer.pieces()) {
      parser.feed(decoder.decode(piece, { stream: true }));
      yield* events.splice(0);
      if (isTooLarge) throw tooLarge(LONGEST_MESSAGE);
    }
  }
}

function isMessage(value: unknown): value is Message {
  return isRecord(value) && value.jsonrpc === "2.0" && (typeof value.method === "string" || "id" in value);
}

function answers({ id, method }: Message, wanted: unknown): boolean {
  return method === undefined && wanted !== undefined && id === wanted;
}

async function messagesIn(response: HttpAnswer): Promise<unknown> {
  try {
    return JSON.parse(await response.text());
  } catch (thrown) {
    if (thrown instanceof UpstreamError) throw thrown;
    const text =
      thrown instanceof SyntaxError
        ? sentence(`It answered with something that is no message of MCP: ${reasonOf(thrown)}`)
        : "The connection was closed in the middle of the answer.";
    throw new UpstreamError("broken", text, { cause: thrown });
  }
}

function endpointIn(text: string, url: URL): URL {
  const endpoint = URL.parse(text, url);
  if (endpoint?.origin === url.origin) return endpoint;
  throw new UpstreamError(
    "unavailable",
    `It wants its messages sent to ${endpoint?.origin ?? text.slice(0, 300)}, which is another place than its url, and where the rack sends nothing. If that is the server that is meant, make its address there the url of its entry.`,
  );
}

function redirected(target: URL, from: URL, status: number): UpstreamError {
  const shown = new URL(target);
  Object.assign(shown, { username: "", password: "", search: "", hash: "" });
  // A server that redirects to plain http mostly means the same place with https.
  if (from.protocol === "https:") shown.protocol = "https:";
  return new UpstreamError(
    "refused",
    `It redirects to another place, where the rack does not follow. If ${shown.href} is the server that is meant, make that the url of its entry.`,
    { status },
  );
}
