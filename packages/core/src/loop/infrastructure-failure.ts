const connectionCodes = [
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EAI_AGAIN",
  "ENETDOWN",
  "ENETUNREACH",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_SOCKET",
];
const isConnectionCode: ReadonlySet<unknown> = new Set(connectionCodes);

const deepestCause = 8;

/**
 * Whether something thrown comes from the network or from a service in trouble (429, 5xx, connection), by the
 * status or code that it or one of its causes carries. Such a failure is no evidence of a loop. Never throws.
 */
export function isInfrastructureFailure(thrown: unknown): boolean {
  try {
    let current = thrown;
    for (let depth = 0; depth < deepestCause; depth++) {
      if (typeof current !== "object" || current === null) return false;
      // Anything may be thrown, so its properties are read as unknown and checked one by one.
      const error = current as Record<string, unknown>;
      if (isBusy(error.status) || isBusy(error.statusCode) || isBusy(error.code)) return true;
      if (isConnectionCode.has(error.code)) return true;
      current = error.cause;
    }
    return false;
  } catch {
    return false;
  }
}

/** The same of an error of which only the text was kept. */
export function tellsOfInfrastructure(text: string): boolean {
  return connectionCodes.some((code) => text.includes(code));
}

function isBusy(status: unknown): boolean {
  return typeof status === "number" && (status === 429 || (status >= 500 && status <= 599));
}
