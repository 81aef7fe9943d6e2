import { isAscii } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { MIMEType } from "node:util";

export type ReadMessage =
  | { readonly ok: true; readonly text: string }
  | {
      readonly ok: false;
      readonly status: number;
      readonly code: number;
      readonly message: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a request's body. Counts while it reads and never holds more than `limit` bytes. */
export function readMessage(incoming: IncomingMessage, limit: number): Promise<ReadMessage> {
  return new Promise((resolve) => {
    // The first outcome counts, so that nobody has to stop listening: the request is gone with its answer.
    let chunks: Buffer[] = [];
    let size = 0;
    // Who has gone before anybody listened says nothing any more.
    if (incoming.destroyed) return resolve(broken);
    // A connection that breaks is an error of the request.
    incoming.on("error", () => resolve(broken));
    const refusal = refusalOf(incoming, limit);
    if (refusal !== undefined) {
      // What is left of a body that nobody reads is let through, so that the answer reaches who still sends.
      incoming.resume();
      return resolve(refusal);
    }
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      chunks = [];
      resolve(tooLarge(limit));
    });
    incoming.on("end", () => {
      if (size <= limit) resolve(decoded(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    });
  });
}

/** What is wrong with a body can often be told before it comes. */
function refusalOf({ headers }: IncomingMessage, limit: number): ReadMessage | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return encoded(encoding);
  const charset = charsetOf(headers["content-type"]);
  if (charset !== undefined && !UTF8.test(charset)) return otherCharset(charset);
  return exceeds(headers["content-length"], limit) ? tooLarge(limit) : undefined;
}

const UTF8 = /^utf-?8$/i;

/** Undefined where none is named: then JSON is UTF-8. */
function charsetOf(type: string | undefined): string | undefined {
  if (type === undefined || type === "application/json") return undefined;
  try {
    return new MIMEType(type).params.get("charset")?.trim();
  } catch {
    return undefined; // What is no media type at all is refused as such.
  }
}

/** Who may send anything may send a kilobyte: short numbers need not be read. What is sent is counted too. */
function exceeds(length: string | undefined, limit: number): boolean {
  return length !== undefined && length.length > 3 && Number(length) > limit;
}

function decoded(bytes: Buffer): ReadMessage {
  // Most messages are, and then the bytes are the characters.
  if (isAscii(bytes)) return { ok: true, text: bytes.toString("latin1") };
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

function encoded(encoding: string): ReadMessage {
  return {
    ok: false,
    status: 415,
    code: -32600,
    message: `The body came with Content-Encoding: ${encoding}, which this server does not read. Send it as it is, without that header.`,
    headers: { "Accept-Encoding": "identity" },
  };
}

function otherCharset(charset: string): ReadMessage {
  return {
    ok: false,
    status: 415,
    code: -32600,
    message: `The body came with charset=${charset.slice(0, LONGEST_SHOWN)}, and messages are read as UTF-8 alone. Send it in UTF-8.`,
  };
}

/** Of what a client has named. */
const LONGEST_SHOWN = 100;

function tooLarge(limit: number): ReadMessage {
  return {
    ok: false,
    status: 413,
    code: -32600,
    message: `The body is larger than ${limit} bytes, the most that this server takes.`,
  };
}
