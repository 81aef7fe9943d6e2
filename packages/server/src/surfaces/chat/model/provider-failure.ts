import type { ModelEndpoint } from "./endpoint.ts";
import { ProviderError, type ProviderErrorKind } from "./provider-error.ts";
import { shownWords } from "./provider-secrets.ts";

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
