import { setImmediate as nextTurn, setTimeout as wait } from "node:timers/promises";
import type { Exchange } from "../exchange.ts";

/** How long the first question of a call is waited for, in milliseconds. One that comes later is asked in the task. */
const FIRST_QUESTION = 1_000;

/**
 * Whether the call asks something before it does anything else. Until its client has been told of the task, the call ends
 * with the request, whose signal this is.
 */
export async function asksAtFirst(exchange: Exchange<unknown>, signal: AbortSignal): Promise<boolean> {
  const cancel = () => exchange.cancel("the client closed the connection");
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  const settled = new AbortController();
  try {
    const late = wait(FIRST_QUESTION, undefined, { signal: settled.signal }).catch(() => {});
    await Promise.race([exchange.stirred(), late]);
    // What is asked in one go is told in one go. No step is taken here: who goes on with the call takes them.
    await nextTurn();
    return exchange.open.length > 0;
  } finally {
    settled.abort();
    signal.removeEventListener("abort", cancel);
  }
}
