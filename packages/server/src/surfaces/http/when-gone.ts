import type { IncomingMessage, ServerResponse } from "node:http";

/**
 * Acts when the client closes the connection, or only its side of it, before it was answered: a program that was ended
 * does no more than that. Answers how to stop waiting for it.
 */
export function whenGone(incoming: IncomingMessage, outgoing: ServerResponse, act: () => void): () => void {
  const { socket } = incoming;
  const onClose = () => {
    if (!outgoing.writableFinished) act();
  };
  if (socket.readableEnded || socket.destroyed) act();
  // Requests that were sent without waiting for answers share the connection; each of them listens by itself.
  if (socket.getMaxListeners() > 0) socket.setMaxListeners(0);
  socket.on("end", act);
  outgoing.on("close", onClose);
  return () => {
    socket.off("end", act);
    outgoing.off("close", onClose);
  };
}
