import { setTimeout as wait } from "node:timers/promises";
import { type CompletionChunk, toChunk } from "./completion-chunk.ts";
import type { ModelEndpoint } from "./endpoint.ts";
import { ProviderError, type ProviderErrorKind } from "./provider-error.ts";
import { readSse } from "./read-sse.ts";

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** Is told before each wait. */
  readonly onRetry?: (retry: {
    readonly attempt: number;
    readonly waitMs: number;
    readonly reason: string;
  }) => void;
  /** How often a request is made again. Default 4. */
  readonly retries?: number;
  /** The first wait, in milliseconds; each further one is twice as long. Default 500. */
  readonly backoff?: number;
}

const USUAL_RETRIES = 4;
const USUAL_BACKOFF = 500;
const LONGEST_BACKOFF = 16_000;
/** A provider that wants a longer pause is not waited for: whoever asked decides. */
const LONGEST_WAIT = 60_000;

/**
 * Asks the model, and gives the chunks of its answer as they come. Until the first one that says something, a failure
 * that may pass is met by asking again; from then on never, so that nothing is said or called twice. Throws
 * `ProviderError`, or the signal's reason.
 */
export async function* streamCompletion(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  options: StreamOptions,
): AsyncGenerator<CompletionChunk> {
  const { signal, onRetry, retries = USUAL_RETRIES, backoff = USUAL_BACKOFF } = options;
  for (let attempt = 1; ; attempt++) {
    let hasBegun = false;
    try {
      for await (const chunk of request(endpoint, body, signal)) {
        hasBegun ||= saysSomething(chunk);
        yield chunk;
      }
      return;
    } catch (thrown) {
      signal.throwIfAborted();
      const error = thrown instanceof ProviderError ? thrown : unreachable(endpoint, thrown);
      const pause = pauseBefore(attempt, error, backoff);
      if (hasBegun || attempt > retries || !mayPass(error) || pause > LONGEST_WAIT) throw error;
      onRetry?.({ attempt, waitMs: pause, reason: error.message });
      await wait(pause, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

async function* request(
  endpoint: ModelEndpoint,
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): AsyncGenerator<CompletionChunk> {
  const response = await fetch(`${endpoint.baseURL}/chat/completions`, {
    method: "POST",
    signal,
    // A redirect would turn the request into another one, or send the key elsewhere.
    redirect: "error",
    headers: headersOf(endpoint),
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(endpoint, response);
  if (!/\btext\/event-stream\b/i.test(response.headers.get("content-type") ?? "")) {
    yield checked(endpoint, toChunk(parsed(endpoint, await response.text())));
    return;
  }
  let isComplete = false;
  for await (const data of readSse(response.body!)) {
    if (data.trim() === "[DONE]") return;
    const chunk = checked(endpoint, parsed(endpoint, data));
    isComplete ||= chunk.choices?.some(({ finish_reason }) => typeof finish_reason === "string") === true;
    yield chunk;
  }
  // Not every server says [DONE]; one that gave no reason to end did not mean to.
  if (!isComplete) throw new ProviderError("cut", endpoint.provider, cutOff(endpoint));
}

export function headersOf({ apiKey, headers }: ModelEndpoint): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    ...headers,
  };
}

function parsed(endpoint: ModelEndpoint, text: string): CompletionChunk {
  try {
    // Everything in it is looked at before it is used.
    return Object(JSON.parse(text)) as CompletionChunk;
  } catch (cause) {
    throw new ProviderError(
      "failed",
      endpoint.provider,
      `${place(endpoint)} sent something that is not JSON: ${masked(endpoint, text.slice(0, 200))}`,
      { cause },
    );
  }
}

/** Some failures come in the middle of a stream that began well. */
function checked(endpoint: ModelEndpoint, chunk: CompletionChunk): CompletionChunk {
  if (chunk.error === undefined || chunk.error === null) return chunk;
  const { message, code, status } = detailsOf(chunk);
  throw errorOf(endpoint, status ?? 500, message, code);
}

async function refusal(endpoint: ModelEndpoint, response: Response): Promise<ProviderError> {
  const text = await response.text().catch(() => "");
  const { message, code } = detailsOf(jsonOr(text));
  return errorOf(
    endpoint,
    response.status,
    message ?? text.slice(0, 500),
    code,
    retryAfterOf(response.headers),
  );
}

function errorOf(
  endpoint: ModelEndpoint,
  status: number,
  said: string | undefined,
  code: string | undefined,
  retryAfter?: number,
): ProviderError {
  const words = said === undefined || said.trim() === "" ? "" : `: ${masked(endpoint, said.trim())}`;
  const message = `${place(endpoint)} answered ${status} for the model "${endpoint.model}"${words}`;
  return new ProviderError(kindOf(status), endpoint.provider, message, {
    status,
    ...(code === undefined ? {} : { code }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  });
}

function kindOf(status: number): ProviderErrorKind {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 429) return "busy";
  return status >= 400 && status < 500 && status !== 408 ? "refused" : "failed";
}

function mayPass({ kind, code }: ProviderError): boolean {
  // Nothing that passes by waiting a moment.
  if (code === "insufficient_quota") return false;
  return kind === "busy" || kind === "failed" || kind === "unreachable" || kind === "cut";
}

function pauseBefore(attempt: number, { retryAfter }: ProviderError, backoff: number): number {
  if (retryAfter !== undefined) return retryAfter * 1000;
  // Spread out, so that callers who failed together do not come back together.
  return Math.min(backoff * 2 ** (attempt - 1), LONGEST_BACKOFF) * (0.5 + Math.random() / 2);
}

/** In seconds: given so, in milliseconds, or as a date. */
function retryAfterOf(headers: Headers): number | undefined {
  const exact = Number(headers.get("retry-after-ms") ?? Number.NaN);
  if (Number.isFinite(exact)) return Math.max(0, exact / 1000);
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

function saysSomething({ choices }: CompletionChunk): boolean {
  return (
    choices?.some(({ delta, finish_reason }) => {
      if (typeof finish_reason === "string") return true;
      const {
        content,
        reasoning,
        reasoning_content,
        refusal: refused,
        tool_calls,
        function_call,
      } = delta ?? {};
      return Boolean(content || reasoning || reasoning_content || refused || tool_calls || function_call);
    }) === true
  );
}

function unreachable(endpoint: ModelEndpoint, thrown: unknown): ProviderError {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  const { code, message } = Object(cause) as { code?: unknown; message?: unknown };
  const reason = masked(endpoint, String(code ?? message ?? thrown));
  return new ProviderError(
    "unreachable",
    endpoint.provider,
    `${place(endpoint)} cannot be reached: ${reason}.`,
    {
      cause: thrown,
    },
  );
}

function cutOff(endpoint: ModelEndpoint): string {
  return `The answer of ${place(endpoint)} broke off before its end.`;
}

function place({ provider, baseURL }: ModelEndpoint): string {
  return `The model provider "${provider}" (${baseURL})`;
}

/** Providers repeat a key that they do not accept. */
function masked({ apiKey }: ModelEndpoint, text: string): string {
  return apiKey === undefined || apiKey.length < 4 ? text : text.replaceAll(apiKey, "[redacted]");
}

function detailsOf(answer: unknown): { message?: string; code?: string; status?: number } {
  const { error = answer } = Object(answer) as { error?: unknown };
  if (typeof error === "string") return { message: error };
  const { message, code, status } = Object(error) as Record<string, unknown>;
  const number = Number(status ?? code ?? Number.NaN);
  return {
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof code === "string" ? { code } : {}),
    ...(number >= 400 && number < 600 ? { status: number } : {}),
  };
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
