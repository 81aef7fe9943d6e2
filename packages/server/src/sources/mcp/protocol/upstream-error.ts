/**
 * Why an upstream server did not answer. `unavailable`: it is not running or was lost. `refused`: it answered with a
 * JSON-RPC error. `broken`: this one answer cannot be used, which says nothing about the next. `session`: it no longer
 * knows our session, and did nothing. `busy`: too many wait for it already.
 */
export type UpstreamErrorKind =
  | "unavailable"
  | "refused"
  | "broken"
  | "session"
  | "busy"
  | "unauthorized"
  | "timeout";

export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly kind: UpstreamErrorKind;
  /** The code and data of a JSON-RPC error. */
  readonly code: number | undefined;
  readonly data: unknown;

  constructor(
    kind: UpstreamErrorKind,
    message: string,
    more: { readonly code?: number; readonly data?: unknown; readonly cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
    this.code = more.code;
    this.data = more.data;
  }
}
