import { type ModelEndpoint, shownWords } from "./providers.ts";

/** Characters of a provider's words that are shown, and of its codes. */
const LONGEST_WORDS = 1_000;
const LONGEST_CODE = 100;
/** Of what makes no sense anyway. */
const LONGEST_NONSENSE = 200;

/** The code of an answer that is too long. Asking again would bring the same. */
export const TOO_LONG = "response_too_long";

/** What a provider answered instead of a completion. `text`: the body. */
export function refusal(
  endpoint: ModelEndpoint,
  status: number,
  text: string,
  retryAfter: number | undefined,
): ProviderError {
  const { message = text, ...own } = detailsOf(jsonOr(text));
  return errorOf(endpoint, status, message, own, retryAfter);
}

/** An error in the middle of a stream that began well. */
export function errorInStream(endpoint: ModelEndpoint, chunk: unknown): ProviderError {
  const { message = "", status = 500, ...own } = detailsOf(chunk);
  return errorOf(endpoint, status, message, own);
}

/** No connection came about. */
export function unreachable(endpoint: ModelEndpoint, thrown: unknown): ProviderError {
  const message = `${place(endpoint)} cannot be reached: ${reasonOf(endpoint, thrown)}.`;
  return new ProviderError("unreachable", endpoint.provider, message);
}

/** The answer ended in the middle. `thrown`: what broke it off, if anything did. */
export function cutOff(endpoint: ModelEndpoint, thrown?: unknown): ProviderError {
  const reason = thrown === undefined ? "" : ` (${reasonOf(endpoint, thrown)})`;
  const message = `The answer of ${place(endpoint, "the")} broke off before its end${reason}.`;
  return new ProviderError("cut", endpoint.provider, message);
}

export function notJson(endpoint: ModelEndpoint, text: string): ProviderError {
  const shown = shownWords(endpoint, text, LONGEST_NONSENSE);
  const message = `${place(endpoint)} sent something that is not JSON: ${shown}`;
  return new ProviderError("failed", endpoint.provider, message);
}

export function noCompletion(endpoint: ModelEndpoint, text: string): ProviderError {
  const shown = shownWords(endpoint, text, LONGEST_NONSENSE);
  const message = `${place(endpoint)} sent something that is no completion, because it has no choices: ${shown}`;
  return new ProviderError("failed", endpoint.provider, message);
}

/** More characters at once than are taken in. */
export function tooLong(endpoint: ModelEndpoint, limit: number): ProviderError {
  const message =
    `${place(endpoint)} sent more than ${limit} characters at once for the model "${endpoint.model}", which is the most ` +
    "that is taken in of one event or of one answer that is not streamed. Ask for less at a time, or use a server that streams in smaller pieces.";
  return new ProviderError("failed", endpoint.provider, message, { code: TOO_LONG });
}

/** The list of a provider's models could not be had. */
export function notListed(endpoint: ModelEndpoint, thrown: unknown): ProviderError {
  const message = `${place(endpoint)} does not list its models: ${reasonOf(endpoint, thrown)}.`;
  return new ProviderError("unreachable", endpoint.provider, message);
}

interface OwnDetails {
  readonly code?: string;
  readonly type?: string;
  readonly param?: string;
}

function errorOf(
  endpoint: ModelEndpoint,
  status: number,
  said: string,
  own: OwnDetails,
  retryAfter?: number,
): ProviderError {
  const words = shownWords(endpoint, said, LONGEST_WORDS);
  const message = `${place(endpoint)} answered ${status} for the model "${endpoint.model}"${words === "" ? "" : `: ${words}`}`;
  const codes = Object.entries(own).map(([key, text]) => [key, shownWords(endpoint, text, LONGEST_CODE)]);
  return new ProviderError(kindOf(status), endpoint.provider, message, {
    status,
    ...Object.fromEntries(codes),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  });
}

function kindOf(status: number): ProviderErrorKind {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 429) return "busy";
  return status >= 400 && status < 500 && status !== 408 ? "refused" : "failed";
}

function detailsOf(answer: unknown): OwnDetails & { message?: string; status?: number } {
  const { error = answer } = Object(answer) as { error?: unknown };
  if (typeof error === "string") return { message: error };
  const { message, code, type, param, status } = Object(error) as Record<string, unknown>;
  const number = Number(status ?? code ?? Number.NaN);
  return {
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof type === "string" ? { type } : {}),
    ...(typeof param === "string" ? { param } : {}),
    ...(number >= 400 && number < 600 ? { status: number } : {}),
  };
}

/** In a word where there is one: messages of the network name addresses. */
function reasonOf(endpoint: ModelEndpoint, thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  const { code, message } = Object(cause) as { code?: unknown; message?: unknown };
  const said = typeof code === "string" ? code : (message ?? thrown);
  return shownWords(endpoint, String(said), LONGEST_NONSENSE);
}

function place({ provider, address }: ModelEndpoint, article = "The"): string {
  return `${article} model provider "${provider}" (${address})`;
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * `unreachable`: no connection, or one that broke. `cut`: the answer ended in the middle. `busy`: 429. `refused`: the
 * request itself is not accepted. `unauthorized`: the key is not. `failed`: everything else.
 */
type ProviderErrorKind = "unreachable" | "cut" | "busy" | "refused" | "unauthorized" | "failed";

interface ProviderErrorOptions {
  readonly status?: number;
  /** The provider's own code, such as `context_length_exceeded`. */
  readonly code?: string;
  /** The provider's own, as OpenAI's clients know it: `invalid_request_error`. */
  readonly type?: string;
  /** Which member of the request was wrong. */
  readonly param?: string;
  /** Seconds. */
  readonly retryAfter?: number;
}

/**
 * The model did not answer. The message is for the person who asked. It has no cause: what was thrown may hold the
 * provider's key.
 */
export class ProviderError extends Error {
  readonly kind: ProviderErrorKind;
  readonly provider: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  readonly type: string | undefined;
  readonly param: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(
    kind: ProviderErrorKind,
    provider: string,
    message: string,
    options: ProviderErrorOptions = {},
  ) {
    super(message);
    this.name = "ProviderError";
    this.kind = kind;
    this.provider = provider;
    this.status = options.status;
    this.code = options.code;
    this.type = options.type;
    this.param = options.param;
    this.retryAfter = options.retryAfter;
  }

  /** What the provider said of it in its own terms, for programs. */
  get details(): Record<string, unknown> {
    const { status, code, type, param } = this;
    const own = Object.entries({ status, code, type, param }).filter(([, value]) => value !== undefined);
    return { provider: this.provider, ...Object.fromEntries(own) };
  }
}

/** In seconds: given so, in milliseconds, or as a date. Undefined when nothing of the kind is said. */
export function retryAfterOf(headers: Headers): number | undefined {
  const exact = numberIn(headers.get("retry-after-ms"));
  if (exact !== undefined) return Math.max(0, exact / 1000);
  const text = headers.get("retry-after");
  const seconds = numberIn(text);
  if (seconds !== undefined) return Math.max(0, seconds);
  const date = Date.parse(text ?? "");
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

function numberIn(text: string | null): number | undefined {
  if (text === null || text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** What carries a trace on from one service to the next. */
const names = ["traceparent", "tracestate", "baggage"];

/** The headers of a request that carry its trace on, and no others. */
export function traceHeaders(headers: RequestHeaders | undefined): Record<string, string> {
  const carried = names.flatMap((name) => {
    const value = headers?.[name];
    return typeof value === "string" && value !== "" ? [[name, value] as const] : [];
  });
  return Object.fromEntries(carried);
}

/** There is nobody to ask, or no such model. The message says what to do about it. */
export class ModelMissing extends Error {
  readonly code: "provider_missing" | "model_not_found";

  constructor(code: ModelMissing["code"], message: string) {
    super(message);
    this.name = "ModelMissing";
    this.code = code;
  }
}
