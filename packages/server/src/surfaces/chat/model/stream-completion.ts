import { setTimeout as wait } from "node:timers/promises";
import type { CompletionChunk } from "./completion-chunk.ts";
import { addressBelow, headersOf, type ModelEndpoint } from "./endpoint.ts";
import { ProviderError } from "./provider-error.ts";
import { cutOff, refusal, TOO_LONG, unreachable } from "./provider-failure.ts";
import { readBeginning, readCompletion } from "./read-completion.ts";
import { readDelta, saysSomething } from "./read-delta.ts";
import { retryAfterOf } from "./retry-after-of.ts";

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** Sent beside those of the provider. */
  readonly headers?: Readonly<Record<string, string>>;
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
/** Characters of an error page that are read. */
const LONGEST_PAGE = 64_000;

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
  const { signal, headers, onRetry, retries = USUAL_RETRIES, backoff = USUAL_BACKOFF } = options;
  for (let attempt = 1; ; attempt++) {
    let hasBegun = false;
    try {
      for await (const chunk of request(endpoint, body, signal, headers)) {
        hasBegun ||= isBegun(chunk);
        yield chunk;
      }
      signal.throwIfAborted();
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
  headers: StreamOptions["headers"],
): AsyncGenerator<CompletionChunk> {
  const response = await fetch(addressBelow(endpoint, "/chat/completions"), {
    method: "POST",
    signal,
    // A redirect would turn the request into another one, or send the key elsewhere.
    redirect: "error",
    headers: { ...headers, ...headersOf(endpoint) },
    body: JSON.stringify(body),
  });
  if (!response.ok) {
    const text = await readBeginning(response, LONGEST_PAGE);
    throw refusal(endpoint, response.status, text, retryAfterOf(response.headers));
  }
  try {
    yield* readCompletion(endpoint, response);
  } catch (thrown) {
    throw thrown instanceof ProviderError ? thrown : cutOff(endpoint, thrown);
  }
}

function mayPass({ kind, code }: ProviderError): boolean {
  // Nothing that passes by waiting a moment.
  if (code === "insufficient_quota" || code === TOO_LONG) return false;
  return kind === "busy" || kind === "failed" || kind === "unreachable" || kind === "cut";
}

/** Never without a pause, whatever the provider asks for. */
function pauseBefore(attempt: number, { retryAfter = 0 }: ProviderError, backoff: number): number {
  // Spread out, so that callers who failed together do not come back together.
  const own = Math.min(backoff * 2 ** (attempt - 1), LONGEST_BACKOFF) * (0.5 + Math.random() / 2);
  return Math.max(retryAfter * 1000, own);
}

function isBegun({ choices = [] }: CompletionChunk): boolean {
  return choices.some(
    ({ delta, finish_reason }) => typeof finish_reason === "string" || saysSomething(readDelta(delta)),
  );
}
