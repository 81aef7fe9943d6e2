import { redact } from "@toolrack/core/internal";
import type { ModelEndpoint } from "./model.ts";

/** A refusal that says what to do instead. Every surface translates it into its own form. */
export class ChatError extends Error {
  override readonly name = "ChatError";
  readonly code:
    | ("chat_session_not_found" | "chat_busy" | "chat_cancelled" | "chat_forbidden")
    | ("response_not_found" | "expert_not_found" | "model_not_found" | "provider_missing" | "stopping");

  /** The member of the request that is wrong. */
  readonly param: string | undefined;

  constructor(code: ChatError["code"], message: string, param?: string) {
    super(message);
    this.code = code;
    this.param = param;
  }
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
  /** Whether a part of the answer had arrived. Nobody else can then be asked without saying something twice. */
  hasAnswered = false;

  constructor(kind: ProviderErrorKind, provider: string, message: string, own?: object, retryAfter?: number) {
    super(message);
    this.kind = kind;
    this.details = { provider, ...own };
    this.retryAfter = retryAfter;
  }

  /** The provider's own error code, such as `context_length_exceeded`, or one of the codes below. */
  get code(): unknown {
    return this.details.code;
  }

  /** Whether the same request to the same provider may succeed a moment later. */
  get mayPass(): boolean {
    if (lastingCodes.has(this.code)) return false;
    return this.kind !== "refused" && this.kind !== "unauthorized";
  }

  /**
   * Whether another model may answer the request. A provider that does not have the model says 404; a request that is too
   * long for one model may fit another.
   */
  get isLocal(): boolean {
    return this.kind !== "refused" || this.details.status === 404 || this.code === "context_length_exceeded";
  }
}

/** At most this many characters of a provider's error message are shown. */
const LONGEST_WORDS = 1_000;
/** At most this many characters of each code in a provider's error are shown. */
const LONGEST_CODE = 100;
/** At most this many characters of an unreadable answer, or of a network error, are shown. */
const LONGEST_NONSENSE = 200;
/** Codes of errors after which no retry follows, because waiting does not help against them. */
const TOO_LONG = "response_too_long";
const REDIRECTED = "redirected";
const NO_API = "not_an_api";
const COMPRESSED = "compressed";
const SILENT = "silent";
const lastingCodes: ReadonlySet<unknown> = new Set([
  "insufficient_quota",
  TOO_LONG,
  REDIRECTED,
  NO_API,
  COMPRESSED,
  SILENT,
]);

interface FailedResponse {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: number | undefined;
}

/**
 * The error that a provider's answer reports. `response`: given for an answer with an HTTP error status. An
 * error inside a stream may name a status of its own.
 */
export function reportedError(
  endpoint: ModelEndpoint,
  answer: unknown,
  response?: FailedResponse,
): ProviderError {
  const { error = answer } = Object(answer);
  const { message, detail, status: ownStatus, code, type, param } = Object(error);
  const number = Number(ownStatus ?? code ?? Number.NaN);
  const status = response?.status ?? (number >= 400 && number < 600 ? number : undefined);
  const said = [error, message, detail, response?.text].find((text) => typeof text === "string");
  // An error in a form of its own is shown as it is.
  const words = shownWords(endpoint, withoutMarkup(said ?? JSON.stringify(error)), LONGEST_WORDS);
  const problem = status === undefined ? "reported an error" : `answered ${status}`;
  const asked = endpoint.model === "" ? "the list of its models" : `the model "${endpoint.model}"`;
  const told = `${place(endpoint)} ${problem} for ${asked}${words === "" ? "" : `: ${words}`}`;
  const codes = Object.entries({ code, type, param })
    .filter(([, text]) => typeof text === "string")
    .map(([key, text]) => [key, shownWords(endpoint, text, LONGEST_CODE)]);
  const own = { ...(status !== undefined && { status }), ...Object.fromEntries(codes) };
  return new ProviderError(kindOf(status), endpoint.provider, told, own, response?.retryAfter);
}

export function isPage(text: string): boolean {
  return /^\s*<(?:!doctype|html)\b/i.test(text);
}

/** A page of a server that stands before the provider says in its title what is wrong. */
function withoutMarkup(text: string): string {
  if (!isPage(text)) return text;
  const [, title = ""] = /<title>([^<]*)/i.exec(text) ?? [];
  return title.replaceAll(/\s+/g, " ").trim() || "a web page";
}

function kindOf(status = 500): ProviderErrorKind {
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
export function unreadable(endpoint: ModelEndpoint, what: string, text: string): ProviderError {
  return failed(endpoint, `sent something that is ${what}: ${shownWords(endpoint, text, LONGEST_NONSENSE)}`);
}

/** The answer ended in the middle. `thrown`: the error that ended it, if any. */
export function cutOff(endpoint: ModelEndpoint, thrown?: unknown): ProviderError {
  const reason = thrown === undefined ? "" : ` (${reasonOf(endpoint, thrown)})`;
  const message = `The answer of ${place(endpoint, "the")} broke off before its end${reason}.`;
  return new ProviderError("cut", endpoint.provider, message);
}

export function tooLong(endpoint: ModelEndpoint, longest: number): ProviderError {
  const problem =
    `sent more than ${longest} characters at once for the model "${endpoint.model}", which is the most ` +
    "that is taken in of one event or of one answer that is not streamed. Ask for less at a time, or use a server that streams in smaller pieces.";
  return failed(endpoint, problem, { code: TOO_LONG });
}

/** A redirect is not followed: it could change the request, or send the key to another host. */
export function redirected(endpoint: ModelEndpoint, status: number, location = ""): ProviderError {
  const where = location === "" ? "another address" : shownWords(endpoint, location, LONGEST_NONSENSE);
  const problem =
    `answered ${status} and points to ${where}. Redirects are not followed, because they could send the key ` +
    "elsewhere: set the provider's baseURL to the address that answers.";
  return failed(endpoint, problem, { status, code: REDIRECTED });
}

/** The address leads to a web page. */
export function noApi(endpoint: ModelEndpoint, contentType: string): ProviderError {
  const problem =
    `answered with a web page (${shownWords(endpoint, contentType, LONGEST_CODE)}) instead of an answer for programs. Look at the ` +
    "provider's baseURL: it usually ends with /v1.";
  return failed(endpoint, problem, { code: NO_API });
}

/** The provider answers in a form that it was not asked for. */
export function compressed(endpoint: ModelEndpoint, encoding: string): ProviderError {
  const shown = shownWords(endpoint, encoding, LONGEST_CODE);
  const problem = `sent something that is compressed, although only plain text was asked for: ${shown}`;
  return failed(endpoint, problem, { code: COMPRESSED });
}

/** The provider sent nothing for as long as it may. */
export function silent(endpoint: ModelEndpoint): ProviderError {
  const problem =
    `sent nothing for ${endpoint.idleSeconds} seconds, and was given up. If the model "${endpoint.model}" needs ` +
    "longer, raise idleSeconds of the provider or of the model.";
  return failed(endpoint, problem, { code: SILENT });
}

function failed(endpoint: ModelEndpoint, problem: string, own?: object): ProviderError {
  return new ProviderError("failed", endpoint.provider, `${place(endpoint)} ${problem}`, own);
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
function shownWords({ mask }: ModelEndpoint, text: string, longest: number): string {
  const masked = String(redact(text, { mask: mask() })).trim();
  return masked.length <= longest ? masked : `${masked.slice(0, longest).toWellFormed()}…`;
}
