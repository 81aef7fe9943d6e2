import type { IncomingMessage, ServerResponse } from "node:http";
import { whenGone } from "./when-gone.ts";

/** Aborts when the caller is gone before it was answered. Call `release` once the answer is on its way. */
export function callerGone(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const release = whenGone(incoming, outgoing, () => controller.abort("the caller closed the connection"));
  return { signal: controller.signal, release };
}
