/**
 * `unreachable`: no connection, or one that broke. `cut`: the answer ended in the middle. `busy`: 429. `refused`: the
 * request itself is not accepted. `unauthorized`: the key is not. `failed`: everything else.
 */
export type ProviderErrorKind = "unreachable" | "cut" | "busy" | "refused" | "unauthorized" | "failed";

export interface ProviderErrorOptions {
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
