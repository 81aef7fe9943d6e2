import type { AsyncLocalStorage } from "node:async_hooks";
import { STATUS_CODES } from "node:http";
import { extractWWWAuthenticateParams } from "@modelcontextprotocol/client";
import { isRecord } from "../../../helpers/index.ts";
import { type Fetch, headerValue } from "./fetch.ts";
import type { Answering } from "./questions.ts";

/**
 * Why an upstream server did not answer. `unavailable`: it is not running, and was sent nothing. `lost`: it ended, or its
 * connection did, after it was sent the request, so that it may have done something. `refused`: it answered with a
 * JSON-RPC error or an HTTP status. `broken`: this one answer cannot be used or never came whole, which says nothing about
 * the next. `session`: it no longer knows our session, and did nothing. `busy`: too many wait for it already.
 */
type UpstreamErrorKind =
  | "unavailable"
  | "lost"
  | "refused"
  | "broken"
  | "session"
  | "busy"
  | "unauthorized"
  | "timeout";

/** What is known of a refusal beside its text. */
export interface RefusalFacts {
  /** The code and data of a JSON-RPC error. */
  readonly code?: number | undefined;
  readonly data?: unknown;
  /** Of HTTP. */
  readonly status?: number | undefined;
  /** In seconds. */
  readonly retryAfter?: number | undefined;
  /** What the server wants to have been granted to us. Empty when it did not say. */
  readonly scope?: string | undefined;
}

export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly kind: UpstreamErrorKind;
  readonly facts: RefusalFacts;

  constructor(
    kind: UpstreamErrorKind,
    message: string,
    { cause, ...facts }: RefusalFacts & { readonly cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.facts = facts;
  }

  get code(): number | undefined {
    return this.facts.code;
  }

  get data(): unknown {
    return this.facts.data;
  }

  get scope(): string | undefined {
    return this.facts.scope;
  }
}

const LONGEST_TEXT = 300;

/** With this the SDK finds out what a server speaks, and goes by the status of the answer. */
const PROBE = "server/discover";
/** With this one a session begins. */
const BEGINNING = "initialize";

interface RefusalOptions {
  /** Every message belongs to a session, also without the header that names one. */
  readonly isSession: boolean;
  /** Where the request is noted that a message belongs to, when each has an answer of its own. */
  readonly scope?: AsyncLocalStorage<Answering>;
}

/**
 * A fetch that throws an `UpstreamError` with all that is known when a request is answered with an HTTP status that is an
 * error; the SDK would keep only the text. Notes for a request what kind of answer came: of one that has ended without a
 * result, the SDK says nothing unless it was a stream.
 */
export function fetchWithRefusals(fetch: Fetch, { isSession, scope }: RefusalOptions): Fetch {
  return async (input, init) => {
    const answering = scope?.getStore();
    if (answering?.request.routingName !== undefined) route(init?.headers, answering.request.routingName);
    const response = await fetch(input, init);
    if (answering !== undefined) note(response, answering);
    // A request that waits in the lane is told there that no answer comes; the SDK would wait for one.
    const isAccepted = response.status === 202 && scope !== undefined && answering === undefined;
    if ((response.status < 400 && !isAccepted) || init?.method !== "POST") return response;
    const { id, method } = requestIn(init.body);
    if (id === undefined || method === undefined) return response;
    if (isAccepted) throw onlyAccepted();
    if (method === PROBE && !asksToWait(response)) return response;
    const hasSession = method !== BEGINNING && (isSession || new Headers(init.headers).has("mcp-session-id"));
    throw await refusalIn(response, { id, hasSession });
  };
}

/** What is said of a request that was taken, and of whose answer nobody will ever hear. */
export function onlyAccepted(): UpstreamError {
  return new UpstreamError("broken", "It answered with 202 Accepted, after which no result comes any more.");
}

/** What is said of an HTTP status, with what the answer says about it where that is for reading. */
export function describeStatus(status: number, text: string): string {
  const name = [status, STATUS_CODES[status]].filter(Boolean).join(" ");
  if (/^\s*</.test(text)) return `It answered with ${name} and a page of HTML.`;
  const said = (wordsIn(parsed(text)) ?? text).trim().slice(0, LONGEST_TEXT);
  return said === "" ? `It answered with ${name}.` : sentence(`It answered with ${name}: ${said}`);
}

function note({ status, headers }: Response, answering: Answering): void {
  answering.status = status;
  // What is said to a question of the server meanwhile belongs to the same request, and is answered without a stream.
  if (/^\s*text\/event-stream/i.test(headers.get("content-type") ?? "")) answering.isStream = true;
}

/** The SDK names in a header what the requests are about that it knows, where the protocol wants that. */
function route(headers: unknown, name: string): void {
  if (headers instanceof Headers && headers.has("mcp-method")) headers.set("mcp-name", headerValue(name));
}

async function refusalIn(
  response: Response,
  { id, hasSession }: { readonly id: unknown; readonly hasSession: boolean },
): Promise<UpstreamError> {
  const { status, headers } = response;
  const text = await response.text();
  const body = parsed(text);
  const error = isRecord(body) && isRecord(body.error) ? body.error : undefined;
  const isAboutRequest = error !== undefined && isRecord(body) && body.id === id;
  const said = wordsIn(body) ?? text;
  const challenge = extractWWWAuthenticateParams(response);
  const isScope = status === 403 && challenge.error === "insufficient_scope";
  const facts: RefusalFacts = {
    status,
    ...(typeof error?.code === "number" ? { code: error.code } : {}),
    ...(error?.data === undefined ? {} : { data: error.data }),
    ...waitIn(headers),
    ...(isScope ? { scope: challenge.scope ?? "" } : {}),
  };
  if (status === 401) return new UpstreamError("unauthorized", describeStatus(status, text), facts);
  const isLost = hasSession && isLostSession(status, said, isAboutRequest ? error.code : undefined);
  // What the server says about the request itself needs no status to be understood.
  const message = isAboutRequest && !isLost ? said : describeStatus(status, text);
  const { retryAfter } = facts;
  const whole = retryAfter === undefined ? message : `${sentence(message)} It asks to wait ${retryAfter} s.`;
  return new UpstreamError(isLost ? "session" : "refused", whole, facts);
}

/** Whatever it speaks, it is not to be asked for anything now. */
function asksToWait({ status, headers }: Response): boolean {
  return status === 429 || (status >= 500 && headers.has("retry-after"));
}

/** With these, servers say of a request that it belongs to no session, or to none that they know. */
const sessionCodes: ReadonlySet<unknown> = new Set([-32_000, -32_001]);

/**
 * Servers that forgot a session should answer 404; several answer 400. `code` is that of an error about the request
 * itself, which may have a session of another kind in its words.
 */
function isLostSession(status: number, said: string, code: unknown): boolean {
  const isAboutSession = /session/i.test(said);
  if (status === 404) return code === undefined || isAboutSession;
  return status === 400 && isAboutSession && (code === undefined || sessionCodes.has(code));
}

/** The text for people in a body of JSON: of JSON-RPC, of OAuth, or of one of the usual forms. */
function wordsIn(body: unknown): string | undefined {
  if (!isRecord(body)) return undefined;
  const inside = isRecord(body.error) ? body.error.message : undefined;
  return [inside, body.error_description, body.message, body.detail, body.error].find(
    (text): text is string => typeof text === "string" && text !== "",
  );
}

/** Seconds, or a date. */
function waitIn(headers: Headers): Pick<RefusalFacts, "retryAfter"> {
  const given = headers.get("retry-after");
  if (given === null || given.trim() === "") return {};
  const seconds = /^\d+$/.test(given.trim()) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? { retryAfter: Math.max(0, Math.ceil(seconds)) } : {};
}

function requestIn(body: unknown): Readonly<Record<string, unknown>> {
  const message = typeof body === "string" ? parsed(body) : undefined;
  return isRecord(message) ? message : {};
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Codes of what goes wrong on a connection that was there: somebody listened when it was made. */
const afterwards: ReadonlySet<unknown> = new Set([
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);

/**
 * What is meant when fetch says that it failed; undefined for other errors. A connection that breaks is that of one
 * request, while one that cannot be made is nobody's.
 */
export function lostConnection(error: unknown): UpstreamError | undefined {
  const found = failureOfFetch(error);
  if (found === undefined) return undefined;
  const { message: said, code } = found;
  if (afterwards.has(code)) {
    const why = said === "" || said === code ? code : `${said}, ${code}`;
    const message = `The connection was closed before the answer came (${why}). What it had already done may stand: check before calling it again.`;
    return new UpstreamError("broken", message, { cause: error });
  }
  return new UpstreamError("unavailable", sentence(`It cannot be reached: ${said || code}`), {
    cause: error,
  });
}

/** What fetch says names no reason; what caused it does. Errors of the SDK may stand around it. */
function failureOfFetch(error: unknown): { readonly message: string; readonly code: string } | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (!(at instanceof TypeError) || at.message !== "fetch failed" || !(at.cause instanceof Error)) continue;
    const { code } = at.cause as NodeJS.ErrnoException;
    // Of several addresses that were tried, each has a reason of its own.
    const first = at.cause instanceof AggregateError ? (at.cause.errors[0] as Error | undefined) : undefined;
    return { message: at.cause.message || (first?.message ?? ""), code: String(code ?? at.cause.name) };
  }
  return undefined;
}

/** How long a server is thought to be at a request after it was told to stop. Many never answer such a request. */
const GRACE = 30_000;

/** The requests that were given up here and that the server has not answered yet. */
export class GivenUp {
  readonly #until = new Map<number, number>();

  get isEmpty(): boolean {
    if (this.#until.size === 0) return true;
    const now = performance.now();
    // Those that were given up first come first.
    for (const [id, until] of this.#until) {
      if (until > now) return false;
      this.#until.delete(id);
    }
    return true;
  }

  add(id: number): void {
    this.#until.set(id, performance.now() + GRACE);
  }

  delete(id: number): void {
    if (this.#until.size > 0) this.#until.delete(id);
  }

  clear(): void {
    this.#until.clear();
  }
}

/** The text with a full stop, so that another sentence can follow. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  return trimmed === "" || /[.!?…:]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
