/** What comes first: the end of the work, or the signal, whose reason is thrown. The work goes on by itself then. */
export async function unlessAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const refuse = () => reject(signal.reason);
  if (signal.aborted) refuse();
  signal.addEventListener("abort", refuse);
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", refuse);
  }
}
