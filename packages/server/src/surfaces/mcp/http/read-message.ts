import type { IncomingMessage } from "node:http";

export type ReadMessage =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly status: number; readonly code: number; readonly message: string };

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a request's body. Counts while it reads and never holds more than `limit` bytes. */
export function readMessage(incoming: IncomingMessage, limit: number): Promise<ReadMessage> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const finish = (outcome: ReadMessage) => {
      incoming.off("data", onData).off("end", onEnd).off("close", onBreak);
      resolve(outcome);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else finish(tooLarge(limit));
    };
    const onEnd = () => finish(decoded(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    const onBreak = () => finish(broken);
    // What is left of a body that nobody reads is let through, so that the answer reaches who still sends.
    incoming.on("error", () => {});
    if (Number(incoming.headers["content-length"] ?? 0) > limit) {
      incoming.resume();
      return finish(tooLarge(limit));
    }
    incoming.on("data", onData).on("end", onEnd).on("close", onBreak);
  });
}

function decoded(bytes: Buffer): ReadMessage {
  try {
    return { ok: true, text: decoder.decode(bytes) };
  } catch {
    return { ok: false, status: 400, code: -32700, message: "The body is not text in UTF-8." };
  }
}

const broken: ReadMessage = {
  ok: false,
  status: 400,
  code: -32700,
  message: "The connection broke before the whole body had come.",
};

function tooLarge(limit: number): ReadMessage {
  return {
    ok: false,
    status: 413,
    code: -32600,
    message: `The body is larger than ${limit} bytes, the most that this server takes.`,
  };
}
