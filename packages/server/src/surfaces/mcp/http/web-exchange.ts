import type { IncomingMessage, ServerResponse } from "node:http";
import { whenGone } from "../../http/when-gone.ts";
import { accepts } from "./accepts.ts";
import { UnreadFrames } from "./unread-frames.ts";

/** The request as the SDK takes it. Its body was read before; the signal aborts when the caller goes away. */
export function toWebRequest(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const gone = new AbortController();
  const stop = whenGone(incoming, outgoing, () => gone.abort("the client closed the connection"));
  outgoing.once("close", stop);
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const { accept } = incoming.headers;
  // The SDK looks for the two names alone, wherever in the header they stand.
  if (accept !== undefined) headers.set("accept", ANSWERS.filter((type) => accepts(accept, type)).join(", "));
  const { method = "GET", url = "/" } = incoming;
  return new Request(new URL(url, "http://localhost"), { method, headers, signal: gone.signal });
}

/** In which an answer comes, as one message or as a stream. */
const ANSWERS = ["application/json", "text/event-stream"];

/** Is given how to end a stream, and answers how to forget about it. */
export type StreamWatch = (end: () => void) => () => void;

export interface StreamOptions {
  readonly watch?: StreamWatch | undefined;
  /** Messages that come before those of the stream. */
  readonly first?: readonly object[] | undefined;
  /** Hears why a stream was cut off that its client does not read. */
  readonly cutOff?: ((reason: string) => void) | undefined;
  readonly limits?: UnreadLimits | undefined;
}

/** How much a client may leave unread before it is cut off. */
export interface UnreadLimits {
  /** In bytes, beside the last message. */
  readonly most: number;
  /** How long it may take nothing at all, in milliseconds. */
  readonly patience: number;
}

const usualUnreadLimits: UnreadLimits = { most: 16 * 1024 * 1024, patience: 5 * 60_000 };

/** Sends what the SDK answered; a stream goes on until either side ends it, or who watches it. */
export async function sendWebResponse(
  response: Response,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  options: StreamOptions = {},
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
  await sendStream(response.body, incoming, outgoing, options);
}

/**
 * The SDK puts into its stream whatever it is told, read or not. So all of it is taken out at once, and kept where it is
 * known how much of it there is.
 */
async function sendStream(
  body: ReadableStream<Uint8Array>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { watch, first = [], cutOff = () => {}, limits = usualUnreadLimits }: StreamOptions,
): Promise<void> {
  outgoing.flushHeaders();
  for (const message of first) outgoing.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  const reader = body.getReader();
  // A stream has nobody left to go to once its reader has closed its side.
  const end = () => void reader.cancel().catch(() => {});
  const release = whenGone(incoming, outgoing, end);
  const unwatch = watch?.(end);
  const unread = new UnreadFrames();
  const writeUnread = () => {
    for (const frame of unread.take()) outgoing.write(frame);
  };
  const giveUp = (reason: string) => {
    cutOff(reason);
    unread.take();
    end();
    outgoing.destroy();
  };
  outgoing.on("drain", writeUnread);
  // Not a limit of the stream: what its client takes in counts, and so does what it is told in time.
  outgoing.setTimeout(limits.patience, () => {
    if (outgoing.writableLength > 0) giveUp(`it took nothing for ${limits.patience / 1000} seconds`);
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const left = outgoing.writableLength + unread.size;
      if (left > limits.most) {
        giveUp(`it left ${left} bytes unread`);
        break;
      }
      if (outgoing.writableNeedDrain) unread.add(value);
      else outgoing.write(value);
    }
  } finally {
    release();
    unwatch?.();
    outgoing.off("drain", writeUnread);
    writeUnread();
    outgoing.end();
  }
}
