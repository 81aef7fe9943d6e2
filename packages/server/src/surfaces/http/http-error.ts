import { type HttpErrorCode, httpErrorCodes } from "./http-error-codes.ts";

export interface HttpErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The one form in which every error leaves the server. */
export interface ErrorEnvelope {
  readonly error: {
    readonly code: HttpErrorCode;
    readonly message: string;
    readonly details: Readonly<Record<string, unknown>>;
  };
}

/** A request that is refused. Thrown anywhere below a route; one place answers it. */
export class HttpError extends Error {
  readonly code: HttpErrorCode;
  readonly status: number;
  readonly details: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: HttpErrorCode, message: string, options: HttpErrorOptions = {}) {
    super(message);
    this.name = "HttpError";
    this.code = code;
    this.status = httpErrorCodes[code].status;
    this.details = options.details ?? {};
    this.headers = options.headers ?? {};
  }

  toEnvelope(): ErrorEnvelope {
    return { error: { code: this.code, message: this.message, details: this.details } };
  }
}
