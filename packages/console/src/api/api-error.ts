import { isRecord } from "../schema/is-record.ts";
/** What the server refused and why, or `unreachable` when it did not answer at all. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    code: string,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }

  static async from(response: Response): Promise<ApiError> {
    const text = await response.text().catch(() => "");
    return (
      ApiError.read(parse(text), response.status) ??
      new ApiError(response.status, "unreadable", text.slice(0, 500))
    );
  }

  /** Reads the envelope that every refusal has. */
  static read(envelope: unknown, status: number): ApiError | undefined {
    if (!isRecord(envelope) || !isRecord(envelope.error)) return undefined;
    const { code, message, details } = envelope.error;
    return new ApiError(status, String(code), String(message), isRecord(details) ? details : {});
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
