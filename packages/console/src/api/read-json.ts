import { ApiError } from "./api-error.ts";

/** The body of an answer. Rejects with an `ApiError` when the connection broke before its end, or when it is no JSON. */
export async function readJson<Answer>(response: Response, signal?: AbortSignal): Promise<Answer> {
  try {
    // Which shape a path answers with is written down in types.ts, and checked by the server's own tests.
    return (await response.json()) as Answer;
  } catch (thrown) {
    if (signal?.aborted) throw thrown;
    if (thrown instanceof SyntaxError) throw new ApiError(response.status, "unreadable", "");
    throw new ApiError(0, "unreachable", "");
  }
}
