import { UpstreamError } from "./upstream-error.ts";

/** A message that is longer is no message. */
export const LONGEST_MESSAGE = 64 * 1024 * 1024;

export type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * A fetch whose answers end with an error once they are larger than `limit` bytes. Of a stream of events, which may go
 * on for ever, each event is measured for itself. `onTooLarge` is for who shares one stream between all answers: then it
 * cannot be told which of them it was.
 */
export function boundedFetch(limit: number, onTooLarge: (error: UpstreamError) => void = () => {}): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { body, headers, status, statusText } = response;
    // A redirect that is not followed has no status at all, and nothing to read.
    if (body === null || status < 200) return response;
    if (isKnownSmall(headers, limit)) return response;
    const isStream = headers.get("content-type")?.startsWith("text/event-stream") === true;
    const measure = isStream ? eventMeter() : meter();
    const measured = body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          if (measure(piece) <= limit) {
            controller.enqueue(piece);
            return;
          }
          const error = tooLarge(limit);
          controller.error(error);
          onTooLarge(error);
        },
      }),
    );
    const bounded = new Response(measured, { status, statusText, headers });
    // What is made by hand has no address, and redirects are judged by it.
    Object.defineProperty(bounded, "url", { value: response.url });
    return bounded;
  };
}

/** What is said of an answer that was too large, when that is what the error is about. */
export function tooLargeIn(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : String(error);
  return /The server's answer is larger than .*$/.exec(message)?.[0];
}

/** The length of what was packed says nothing about what it becomes. */
function isKnownSmall(headers: Headers, limit: number): boolean {
  const length = headers.get("content-length");
  return length !== null && !headers.has("content-encoding") && Number(length) <= limit;
}

/** Says how large the message is so far. */
type Meter = (piece: Uint8Array) => number;

function meter(): Meter {
  let size = 0;
  return (piece) => {
    size += piece.byteLength;
    return size;
  };
}

/** Events end with an empty line. */
function eventMeter(): Meter {
  let size = 0;
  return (piece) => {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    const end = Math.max(bytes.lastIndexOf("\n\n"), bytes.lastIndexOf("\n\r\n"), bytes.lastIndexOf("\r\r"));
    // An empty line that is cut in two pieces is missed; the next one is not.
    size = end === -1 ? size + bytes.length : bytes.length - end;
    return size;
  };
}

function tooLarge(limit: number): UpstreamError {
  const size = limit >= 1024 * 1024 ? `${Math.floor(limit / 1024 / 1024)} MB` : `${limit} bytes`;
  return new UpstreamError(
    "broken",
    `The server's answer is larger than ${size} and was not read to its end. Ask for less at one time.`,
  );
}
