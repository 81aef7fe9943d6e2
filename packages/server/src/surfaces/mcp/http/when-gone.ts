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
  socket.on("end", act);
  outgoing.on("close", onClose);
  return () => {
    socket.off("end", act);
    outgoing.off("close", onClose);
  };
}
