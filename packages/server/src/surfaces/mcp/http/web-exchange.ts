import type { IncomingMessage, ServerResponse } from "node:http";
import { whenGone } from "../../http/when-gone.ts";

/** The request as the SDK takes it. Its body was read before; the signal aborts when the caller goes away. */
export function toWebRequest(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const gone = new AbortController();
  const stop = whenGone(incoming, outgoing, () => gone.abort("the client closed the connection"));
  outgoing.once("close", stop);
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const { method = "GET", url = "/" } = incoming;
  return new Request(new URL(url, "http://localhost"), { method, headers, signal: gone.signal });
}

/** Is given how to end a stream, and answers how to forget about it. */
export type StreamWatch = (end: () => void) => () => void;

export interface StreamOptions {
  readonly watch?: StreamWatch | undefined;
  /** Messages that come before those of the stream. */
  readonly first?: readonly object[] | undefined;
}

/** Sends what the SDK answered; a stream goes on until either side ends it, or who watches it. */
export async function sendWebResponse(
  response: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { watch, first = [] }: StreamOptions = {},
): Promise<void> {
  for (const [name, value] of response.headers) {
    // Node decides by itself how the connection goes on.
    if (name !== "connection") outgoing.setHeader(name, value);
  }
  outgoing.statusCode = response.status;
  const type = response.headers.get("content-type") ?? "";
  if (response.body === null || !type.includes("text/event-stream")) {
    const bytes = Buffer.from(await response.arrayBuffer());
    outgoing.setHeader("Content-Length", bytes.length);
    outgoing.end(bytes);
    return;
  }
  outgoing.flushHeaders();
  for (const message of first) outgoing.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  const reader = response.body.getReader();
  // A stream has nobody left to go to once its reader has closed its side.
  const end = () => void reader.cancel().catch(() => {});
  const release = whenGone(incoming, outgoing, end);
  const unwatch = watch?.(end);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (!outgoing.write(value) && !outgoing.destroyed) await drained(outgoing);
    }
  } finally {
    release();
    unwatch?.();
    outgoing.end();
  }
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });
}
