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
import { headerValue, LONGEST_MESSAGE, type OpenRequest } from "./messages.ts";
import { describeStatus, messageIn, parsed } from "./sdk-errors.ts";

export type AddressEntry = ResolvedEntry & { readonly kind: "address" };

export type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** A transport to a server. */
export interface Connection {
  readonly transport: Transport;
  /** Holds the request that a message belongs to, if each request has its own answer. */
  readonly scope?: AsyncLocalStorage<OpenRequest>;
  /** Over HTTP: whether there is a stream for the server's own messages. */
  readonly serverStream?: { isOpen: boolean };
}

/** Makes a transport to an address. Sends nothing yet. */
export function openAddress(
  { url, headers }: AddressEntry,
  kind: "http" | "sse",
  lines: RecentLines,
): Connection & Required<Pick<Connection, "serverStream">> {
  const requestInit = { headers: { ...headers } };
  const serverStream = { isOpen: false };
  if (kind === "http") {
    const scope = new AsyncLocalStorage<OpenRequest>();
    const fetch = upstreamFetch(boundedFetch(LONGEST_MESSAGE), serverStream, scope);
    return { transport: new StreamableHTTPClientTransport(url, { requestInit, fetch }), scope, serverStream };
  }
  const bounded = boundedFetch(LONGEST_MESSAGE, ({ message }) => {
    lines.add("rack", message);
    void transport.close();
  });
  const fetch = upstreamFetch(bounded, serverStream);
  const transport = new SSEClientTransport(url, { requestInit, fetch });
  return { transport, serverStream };
}

/**
 * A `fetch` whose answers fail when they are larger than `limit` bytes. A stream of events may go on for ever, so each
 * event is measured alone. `onTooLarge` is for a transport with one stream for all answers, where nobody can tell which
 * answer was too large.
 */
export function boundedFetch(limit: number, onTooLarge: (error: UpstreamError) => void = () => {}): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, headers, status, statusText } = response;
    // A redirect that is not followed has status 0 and no body.
    if (body === null || status < 200) return response;
    // The length of a compressed answer says nothing about its real size.
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
    // A new `Response` has no url, but the SDK needs it to check redirects.
    Object.defineProperty(bounded, "url", { value: response.url });
    return bounded;
  };
}

/** The index of the last empty line, which ends an event. Misses one that is split between two pieces. */
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

/** The message about a too large answer, if the error contains it. */
export function tooLargeIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  return /The server's answer is larger than .*$/.exec(message)?.[0];
}

/** The SDK's question which protocol the server speaks. The SDK needs the status of the answer. */
const PROBE = "server/discover";
/** The request that opens a session. */
const INITIALIZE = "initialize";

/**
 * A `fetch` that throws an `UpstreamError` with all facts when a request is answered with an error status; the SDK would
 * keep only the text. It also notes the kind of answer for each request, because the SDK does not report an answer that
 * ends without a result unless it is a stream. Without a `scope`, all messages share one stream, which is the session.
 */
function upstreamFetch(
  fetch: Fetch,
  serverStream: { isOpen: boolean },
  scope?: AsyncLocalStorage<OpenRequest>,
): Fetch {
  return async (input, init) => {
    const openRequest = scope?.getStore();
    const { routingName } = openRequest?.request ?? {};
    // The protocol wants this header. The SDK sets it only for the methods that it knows.
    if (routingName !== undefined && init?.headers instanceof Headers && init.headers.has("mcp-method"))
      init.headers.set("mcp-name", headerValue(routingName));
    const response = await fetch(input, init);
    const { status, headers } = response;
    if (openRequest !== undefined) {
      openRequest.status = status;
      // Never set back: our answer to a server's question belongs to the same request and gets no stream.
      if (isEventStream(headers)) openRequest.isStream = true;
    }
    const method = init?.method ?? "GET";
    // With this header an earlier stream is resumed, mostly that of a request.
    if (method === "GET" && !new Headers(init?.headers).has("last-event-id"))
      serverStream.isOpen = response.ok && isEventStream(headers);
    // Our own requests notice later that no answer comes. A request of the SDK would wait for ever.
    const isAccepted = status === 202 && scope !== undefined && openRequest === undefined;
    if (method !== "POST" || (status < 400 && !isAccepted)) return response;
    const request = parsed(typeof init?.body === "string" ? init.body : "");
    if (!isRecord(request) || request.id === undefined || request.method === undefined) return response;
    if (isAccepted) throw onlyAccepted();
    const asksToWait = status === 429 || (status >= 500 && headers.has("retry-after"));
    if (request.method === PROBE && !asksToWait) return response;
    const isInSession = scope === undefined || new Headers(init?.headers).has("mcp-session-id");
    throw await refusalIn(response, request.id, isInSession && request.method !== INITIALIZE);
  };
}

/** The error for a request that was accepted but will never be answered. */
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
  const reason = messageIn(body) ?? text;
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
  const isLost = hasSession && isLostSession(status, reason, isAboutRequest ? error.code : undefined);
  // A JSON-RPC error about the request itself is clear without the status.
  const message = isAboutRequest && !isLost ? reason : describeStatus(status, text);
  const whole = retryAfter === undefined ? message : `${sentence(message)} It asks to wait ${retryAfter} s.`;
  return new UpstreamError(isLost ? "session" : "refused", whole, facts);
}

/** Error codes by which servers refuse an unknown or missing session. */
const sessionCodes: ReadonlySet<unknown> = new Set([rpcCodes.refused, rpcCodes.unavailable]);

/**
 * Servers that forgot a session should answer 404, but several answer 400. `code`: that of a JSON-RPC error about the
 * request itself, whose text may mean another kind of session.
 */
function isLostSession(status: number, reason: string, code: unknown): boolean {
  const isAboutSession = /session/i.test(reason);
  if (status === 404) return code === undefined || isAboutSession;
  return status === 400 && isAboutSession && (code === undefined || sessionCodes.has(code));
}

/** In seconds. The header has seconds or a date. */
function waitIn(headers: Headers): number | undefined {
  const given = headers.get("retry-after")?.trim() ?? "";
  if (given === "") return undefined;
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, Math.ceil(seconds)) : undefined;
}
