export type RefusalCode = "tool_not_found" | "call_exists" | "too_many_calls";

/** A call that was never made: every surface says so in its own form. */
export class CallRefused extends Error {
  readonly code: RefusalCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** Seconds after which asking again makes sense. */
  readonly retryAfter: number | undefined;

  constructor(
    code: RefusalCode,
    message: string,
    details: Readonly<Record<string, unknown>>,
    retryAfter?: number,
  ) {
    super(message);
    this.name = "CallRefused";
    this.code = code;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}
