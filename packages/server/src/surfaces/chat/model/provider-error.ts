/**
 * `unreachable`: no connection, or one that broke. `cut`: the answer ended in the middle. `busy`: 429. `refused`: the
 * request itself is not accepted. `unauthorized`: the key is not. `failed`: everything else.
 */
export type ProviderErrorKind = "unreachable" | "cut" | "busy" | "refused" | "unauthorized" | "failed";

export interface ProviderErrorOptions {
  readonly status?: number;
  /** The provider's own code, such as `context_length_exceeded`. */
  readonly code?: string;
  /** Seconds. */
  readonly retryAfter?: number;
  readonly cause?: unknown;
}

/** The model did not answer. The message is for the person who asked. */
export class ProviderError extends Error {
  readonly kind: ProviderErrorKind;
  readonly provider: string;
  readonly status: number | undefined;
  readonly code: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(
    kind: ProviderErrorKind,
    provider: string,
    message: string,
    options: ProviderErrorOptions = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "ProviderError";
    this.kind = kind;
    this.provider = provider;
    this.status = options.status;
    this.code = options.code;
    this.retryAfter = options.retryAfter;
  }
}
