/**
 * Why an upstream server did not answer. `unavailable`: it is not running, and was sent nothing. `lost`: it ended, or its
 * connection did, after it was sent the request, so that it may have done something. `refused`: it answered with a
 * JSON-RPC error or an HTTP status. `broken`: this one answer cannot be used or never came whole, which says nothing about
 * the next. `session`: it no longer knows our session, and did nothing. `busy`: too many wait for it already.
 */
export type UpstreamErrorKind =
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
