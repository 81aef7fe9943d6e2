import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * Aborts when the caller closes the connection, or its side of it, before it was answered: a program that was
 * ended does no more than that. Call `release` once the answer is on its way.
 */
export function callerGone(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const { socket } = incoming;
  const onGone = () => controller.abort("the caller closed the connection");
  const onClose = () => {
    if (!outgoing.writableFinished) onGone();
  };
  if (socket.readableEnded || socket.destroyed) onGone();
  socket.once("end", onGone);
  outgoing.once("close", onClose);
  return {
    signal: controller.signal,
    release() {
      socket.off("end", onGone);
      outgoing.off("close", onClose);
    },
  };
}
