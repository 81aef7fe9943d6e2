import { AsyncLocalStorage } from "node:async_hooks";
import {
  extractWWWAuthenticateParams,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { isRecord } from "../../../helpers/index.ts";
import { rpcCodes } from "../../wire/index.ts";
import type { ResolvedEntry } from "../config/resolve-entry.ts";
import { type RefusalFacts, sentence, UpstreamError } from "../failures.ts";
import type { RecentLines } from "../process/recent-lines.ts";
import { type Answering, headerValue, LONGEST_MESSAGE } from "./messages.ts";
import { describeStatus, parsed, wordsIn } from "./sdk-errors.ts";

export type AddressEntry = ResolvedEntry & { readonly kind: "address" };

export type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** The way to a server. */
export interface Connection {
  readonly transport: Transport;
  /** Where the request is noted that a message belongs to, when each has an answer of its own. */
  readonly scope?: AsyncLocalStorage<Answering>;
  /** Whether a server that is reached over HTTP gave us a stream on which it can speak by itself. */
  readonly hearing?: { isOpen: boolean };
}

/** The way to a server at an address. Nothing is sent there yet. */
export function openAddress(
  { url, headers }: AddressEntry,
  kind: "http" | "sse",
  lines: RecentLines,
): Connection & Required<Pick<Connection, "hearing">> {
  const requestInit = { headers: { ...headers } };
  const hearing = { isOpen: false };
  if (kind === "http") {
    const scope = new AsyncLocalStorage<Answering>();
    const fetch = upstreamFetch(boundedFetch(LONGEST_MESSAGE), hearing, scope);
    return { transport: new StreamableHTTPClientTransport(url, { requestInit, fetch }), scope, hearing };
  }
  const bounded = boundedFetch(LONGEST_MESSAGE, ({ message }) => {
    lines.add("rack", message);
    void transport.close();
  });
  const fetch = upstreamFetch(bounded, hearing);
  const transport = new SSEClientTransport(url, { requestInit, fetch });
  return { transport, hearing };
}

/**
 * A fetch whose answers end with an error once they are larger than `limit` bytes. Of a stream of events, which may go
 * on for ever, each event is measured for itself. `onTooLarge` is for a transport that shares one stream between all
 * answers: there it cannot be told which of them it was.
 */
export function boundedFetch(limit: number, onTooLarge: (error: UpstreamError) => void = () => {}): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, headers, status, statusText } = response;
    // A redirect that is not followed has no status at all, and nothing to read.
    if (body === null || status < 200) return response;
    // The length of a packed answer says nothing about what it becomes.
    const length = headers.get("content-length");
    if (length !== null && !headers.has("content-encoding") && Number(length) <= limit) return response;
    const isStream = isEventStream(headers);
    let size = 0;
    const measured = body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          const end = isStream ? endOfEvent(piece) : -1;
          size = end === -1 ? size + piece.byteLength : piece.byteLength - end;
          if (size <= limit) {
            controller.enqueue(piece);
            return;
          }
          const error = tooLarge(limit);
          controller.error(error);
          onTooLarge(error);
        },
      }),
    );
    const bounded = new Response(measured, { status, statusText, headers });
    // A response that is made by hand has no address, and redirects are judged by it.
    Object.defineProperty(bounded, "url", { value: response.url });
    return bounded;
  };
}

/** Where the last event ends, with an empty line. One that is cut in two pieces is missed; the next one is not. */
function endOfEvent({ buffer, byteOffset, byteLength }: Uint8Array): number {
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  return Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\n\r\n"), bytes.lastIndexOf("\r\r"));
}

function tooLarge(limit: number): UpstreamError {
  const size = limit >= 1024 * 1024 ? `${Math.floor(limit / 1024 / 1024)} MB` : `${limit} bytes`;
  return new UpstreamError(
    "broken",
    `The server's answer is larger than ${size} and was not read to its end. Ask for less at one time.`,
  );
}

/** What is said of an answer that was too large, when that is what the error is about. */
export function tooLargeIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  return /The server's answer is larger than .*$/.exec(message)?.[0];
}

/** With this the SDK finds out what a server speaks, and goes by the status of the answer. */
const PROBE = "server/discover";
/** With this one a session begins. */
const BEGINNING = "initialize";

/**
 * A fetch that throws an `UpstreamError` with all that is known when a request is answered with an HTTP status that is an
 * error; the SDK would keep only the text. Notes for a request what kind of answer came: of one that has ended without a
 * result, the SDK says nothing unless it was a stream. Without a `scope`, one stream is the session of all messages.
 */
function upstreamFetch(
  fetch: Fetch,
  hearing: { isOpen: boolean },
  scope?: AsyncLocalStorage<Answering>,
): Fetch {
  return async (input, init) => {
    const answering = scope?.getStore();
    const { routingName } = answering?.request ?? {};
    // The SDK names in a header what the requests are about that it knows, where the protocol wants that.
    if (routingName !== undefined && init?.headers instanceof Headers && init.headers.has("mcp-method"))
      init.headers.set("mcp-name", headerValue(routingName));
    const response = await fetch(input, init);
    const { status, headers } = response;
    if (answering !== undefined) {
      answering.status = status;
      // The answer to a question of the server belongs to the same request, and is answered without a stream.
      if (isEventStream(headers)) answering.isStream = true;
    }
    const method = init?.method ?? "GET";
    // With an id, a stream is taken up again, mostly that of a request.
    if (method === "GET" && !new Headers(init?.headers).has("last-event-id"))
      hearing.isOpen = response.ok && isEventStream(headers);
    // A request of our own learns elsewhere that no answer comes; a request of the SDK would wait for one.
    const isAccepted = status === 202 && scope !== undefined && answering === undefined;
    if (method !== "POST" || (status < 400 && !isAccepted)) return response;
    const request = parsed(typeof init?.body === "string" ? init.body : "");
    if (!isRecord(request) || request.id === undefined || request.method === undefined) return response;
    if (isAccepted) throw onlyAccepted();
    const asksToWait = status === 429 || (status >= 500 && headers.has("retry-after"));
    if (request.method === PROBE && !asksToWait) return response;
    const isInSession = scope === undefined || new Headers(init?.headers).has("mcp-session-id");
    throw await refusalIn(response, request.id, isInSession && request.method !== BEGINNING);
  };
}

/** What is said of a request that was taken, and of whose answer nobody will ever hear. */
export function onlyAccepted(): UpstreamError {
  return new UpstreamError("broken", "It answered with 202 Accepted, after which no result comes any more.");
}

function isEventStream(headers: Headers): boolean {
  return /^\s*text\/event-stream/i.test(headers.get("content-type") ?? "");
}

async function refusalIn(response: Response, id: unknown, hasSession: boolean): Promise<UpstreamError> {
  const { status, headers } = response;
  const text = await response.text();
  const body = parsed(text);
  const error = isRecord(body) && isRecord(body.error) ? body.error : undefined;
  const isAboutRequest = error !== undefined && isRecord(body) && body.id === id;
  const said = wordsIn(body) ?? text;
  const challenge = extractWWWAuthenticateParams(response);
  const isScope = status === 403 && challenge.error === "insufficient_scope";
  const retryAfter = waitIn(headers);
  const facts: RefusalFacts = {
    status,
    code: typeof error?.code === "number" ? error.code : undefined,
    data: error?.data,
    retryAfter,
    scope: isScope ? (challenge.scope ?? "") : undefined,
  };
  if (status === 401) return new UpstreamError("unauthorized", describeStatus(status, text), facts);
  const isLost = hasSession && isLostSession(status, said, isAboutRequest ? error.code : undefined);
  // What the server says about the request itself needs no status to be understood.
  const message = isAboutRequest && !isLost ? said : describeStatus(status, text);
  const whole = retryAfter === undefined ? message : `${sentence(message)} It asks to wait ${retryAfter} s.`;
  return new UpstreamError(isLost ? "session" : "refused", whole, facts);
}

/** With these, servers say of a request that it belongs to no session, or to none that they know. */
const sessionCodes: ReadonlySet<unknown> = new Set([rpcCodes.refused, rpcCodes.unavailable]);

/**
 * Servers that forgot a session should answer 404; several answer 400. `code` is that of an error about the request
 * itself, which may have a session of another kind in its words.
 */
function isLostSession(status: number, said: string, code: unknown): boolean {
  const isAboutSession = /session/i.test(said);
  if (status === 404) return code === undefined || isAboutSession;
  return status === 400 && isAboutSession && (code === undefined || sessionCodes.has(code));
}

/** In seconds. The header has those, or a date. */
function waitIn(headers: Headers): number | undefined {
  const given = headers.get("retry-after")?.trim() ?? "";
  if (given === "") return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}
