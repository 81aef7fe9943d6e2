import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { pipeline, type Readable, type Transform } from "node:stream";
import zlib from "node:zlib";

/** What `decodedBody` can undo, for the request to say so. */
export const acceptedEncodings = "gzip, deflate, br";

export interface BodyPart {
  readonly bytes: Buffer;
  /** There was more than the limit; the rest was not read. */
  readonly isTruncated: boolean;
}

/**
 * The body with its content encodings undone. Inflates only as fast as it is read, so a reader that stops at its limit
 * is safe from a small body that unpacks to an enormous one. Destroying the stream ends the connection.
 */
export async function decodedBody(message: IncomingMessage): Promise<Readable> {
  const encodings = (message.headers["content-encoding"] ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
  if (encodings.length === 0) return message;
  try {
    if (encodings.length > 2) throw new Error("it is encoded more than twice");
    const first = await firstByte(message);
    // Nothing is a legal form of nothing, although no decoder takes it.
    if (first === undefined) return message;
    // Servers say "deflate" for two formats; only the one that the standard means begins with this header.
    const isRaw = (first & 0x0f) !== 8;
    const decoders = encodings.reverse().map((name) => decoderFor(name, isRaw));
    const decoded = decoders.at(-1)!;
    pipeline([message, ...decoders], (error) => {
      if (error) decoded.destroy(error);
    });
    return decoded;
  } catch (error) {
    message.destroy();
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(
      `The body (content-encoding: ${message.headers["content-encoding"]}) cannot be read: ${reason}.`,
    );
  }
}

/** Reads up to `limit` bytes and then stops. */
export async function readBody(body: Readable, limit: number, signal: AbortSignal): Promise<BodyPart> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop destroys the stream, and with it the connection.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    const room = limit - size;
    chunks.push(chunk.subarray(0, room));
    size += Math.min(chunk.length, room);
    if (chunk.length > room) return { bytes: Buffer.concat(chunks, size), isTruncated: true };
  }
  // A body that goes on until the connection closes ends like a whole one when the signal closes it.
  signal.throwIfAborted();
  return { bytes: Buffer.concat(chunks, size), isTruncated: false };
}

function decoderFor(encoding: string, isRaw: boolean): Transform {
  if (encoding === "gzip" || encoding === "x-gzip") return zlib.createGunzip();
  if (encoding === "br") return zlib.createBrotliDecompress();
  if (encoding === "deflate") return isRaw ? zlib.createInflateRaw() : zlib.createInflate();
  throw new Error(`"${encoding}" was not asked for and cannot be undone`);
}

/** Looks at the first byte of a body and leaves it there. */
async function firstByte(message: IncomingMessage): Promise<number | undefined> {
  await once(message, "readable");
  const first: Buffer | null = message.read(1);
  if (first === null) return undefined;
  message.unshift(first);
  return first[0];
}
