import { isRecord, jsonIn } from "../text/index.ts";

/** HTTP statuses that mean "the server is away": a proxy cannot reach it, or it is starting or stopping. */
const AWAY = [502, 503, 504];

/** A refusal by the server, or `unreachable` when it did not answer at all. */
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

  /** Whether the server was away, so that the same request may succeed later. */
  get isAway(): boolean {
    return this.code === "unreachable" || AWAY.includes(this.status);
  }

  /** Turns anything thrown into an `ApiError`. Errors that are no refusals are failures of the console itself. */
  static of(thrown: unknown): ApiError {
    return thrown instanceof ApiError ? thrown : new ApiError(0, "unexpected", String(thrown));
  }

  static async from(response: Response): Promise<ApiError> {
    const text = await response.text().catch(() => "");
    return (
      ApiError.read(jsonIn(text), response.status) ??
      new ApiError(response.status, "unreadable", text.slice(0, 500))
    );
  }

  static read(envelope: unknown, status: number): ApiError | undefined {
    if (!isRecord(envelope) || !isRecord(envelope.error)) return undefined;
    const { code, message, details } = envelope.error;
    return new ApiError(status, String(code), String(message), isRecord(details) ? details : {});
  }
}

/** Reads the JSON body of an answer. Rejects with an `ApiError` when the connection breaks or the body is not JSON. */
export async function readJson<Answer>(response: Response, signal?: AbortSignal): Promise<Answer> {
  try {
    // The shape of each answer is declared in types.ts and checked by the server's tests.
    return (await response.json()) as Answer;
  } catch (thrown) {
    if (signal?.aborted) throw thrown;
    if (thrown instanceof SyntaxError) throw new ApiError(response.status, "unreadable", "");
    throw new ApiError(0, "unreachable", "");
  }
}
