import { CallRefused } from "../../calls/call-refused.ts";
import { type HttpErrorCode, httpErrorCodes } from "./http-error-codes.ts";

export interface HttpErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** What a model provider said, where OpenAI's clients look for it. */
  readonly type?: string;
  readonly param?: string;
}

/** The one form in which every error leaves the server. */
export interface ErrorEnvelope {
  readonly error: {
    readonly code: HttpErrorCode;
    readonly message: string;
    readonly details: Readonly<Record<string, unknown>>;
    readonly type?: string;
    readonly param?: string;
  };
}

/** A request that is refused. Thrown anywhere below a route; one place answers it. */
export class HttpError extends Error {
  readonly code: HttpErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly #own: Pick<HttpErrorOptions, "type" | "param">;

  constructor(code: HttpErrorCode, message: string, options: HttpErrorOptions = {}) {
    super(message);
    this.name = "HttpError";
    this.code = code;
    this.status = httpErrorCodes[code].status;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
    const { type, param } = options;
    this.#own = { ...(type === undefined ? {} : { type }), ...(param === undefined ? {} : { param }) };
  }

  /** What was thrown as this surface says it; undefined when it is no refusal but a failure. */
  static from(thrown: unknown): HttpError | undefined {
    if (thrown instanceof HttpError) return thrown;
    if (!(thrown instanceof CallRefused)) return undefined;
    const { code, message, details, retryAfter } = thrown;
    return new HttpError(code, message, {
      details,
      ...(retryAfter === undefined ? {} : { headers: { "Retry-After": String(retryAfter) } }),
    });
  }

  toEnvelope(): ErrorEnvelope {
    return { error: { code: this.code, message: this.message, details: this.details, ...this.#own } };
  }
}
