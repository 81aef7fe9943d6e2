import { sentence } from "./sentence.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Codes of what goes wrong on a connection that was there: somebody listened when it was made. */
const afterwards: ReadonlySet<unknown> = new Set([
  "ECONNRESET",
  "EPIPE",
  "UND_ERR_SOCKET",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
]);

/**
 * What is meant when fetch says that it failed; undefined for other errors. A connection that breaks is that of one
 * request, while one that cannot be made is nobody's.
 */
export function lostConnection(error: unknown): UpstreamError | undefined {
  const found = failureOfFetch(error);
  if (found === undefined) return undefined;
  const { message: said, code } = found;
  if (afterwards.has(code)) {
    const why = said === "" || said === code ? code : `${said}, ${code}`;
    const message = `The connection was closed before the answer came (${why}). What it had already done may stand: check before calling it again.`;
    return new UpstreamError("broken", message, { cause: error });
  }
  return new UpstreamError("unavailable", sentence(`It cannot be reached: ${said || code}`), {
    cause: error,
  });
}

/** What fetch says names no reason; what caused it does. Errors of the SDK may stand around it. */
function failureOfFetch(error: unknown): { readonly message: string; readonly code: string } | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (!(at instanceof TypeError) || at.message !== "fetch failed" || !(at.cause instanceof Error)) continue;
    const { code } = at.cause as NodeJS.ErrnoException;
    // Of several addresses that were tried, each has a reason of its own.
    const first = at.cause instanceof AggregateError ? (at.cause.errors[0] as Error | undefined) : undefined;
    return { message: at.cause.message || (first?.message ?? ""), code: String(code ?? at.cause.name) };
  }
  return undefined;
}
