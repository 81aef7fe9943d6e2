/**
 * Runs an exchange with `host` under a limit. A failure caused by the limit or by the caller's cancel is reported as
 * such, whatever shape it had where it surfaced.
 */
export async function withTimeLimit<T>(
  host: string,
  milliseconds: number,
  cancel: AbortSignal,
  exchange: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  cancel.throwIfAborted();
  const limit = AbortSignal.timeout(milliseconds);
  try {
    return await exchange(AbortSignal.any([cancel, limit]));
  } catch (error) {
    if (cancel.aborted) throw cancel.reason;
    if (limit.aborted) {
      throw new Error(
        `${host} did not finish answering within ${milliseconds} ms. Raise timeout if it is known to be slow.`,
      );
    }
    throw error instanceof Error ? explain(host, error) : error;
  }
}

function explain(host: string, error: NodeJS.ErrnoException): Error {
  if (error.code === "ECONNRESET")
    return new Error(`${host} closed the connection before the whole answer had come.`);
  if (
    error.code?.startsWith("Z_") ||
    error.code?.startsWith("ERR_BROTLI") ||
    error.code?.startsWith("ERR__ERROR")
  ) {
    return new Error(`The compressed body that ${host} sent is damaged (${error.message}).`);
  }
  if (error.code?.startsWith("HPE_"))
    return new Error(`${host} does not answer in valid HTTP (${error.message}).`);
  return error;
}
