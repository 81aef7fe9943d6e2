import { isUtf8 } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { type FileHandle, link, mkdir, open, rename, rm, rmdir } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { basename, dirname, join } from "node:path";
import { pipeline, type Readable, type Transform } from "node:stream";
import zlib from "node:zlib";
import { reasonOf } from "../../helpers/index.ts";

interface ContentType {
  /** In lower case, without parameters; empty when the server gave none. */
  readonly mime: string;
  readonly charset: string | undefined;
}

export function parseContentType(header: string | undefined): ContentType {
  const [mime = "", ...parameters] = (header ?? "").split(";");
  const charset = parameters.map((text) => /^\s*charset\s*=\s*"?([^"\s]+)/i.exec(text)?.[1]).find(Boolean);
  return { mime: mime.trim().toLowerCase(), charset };
}

export function isJson(mime: string): boolean {
  return mime === "application/json" || mime === "text/json" || mime.endsWith("+json");
}

/** The body as text, or nothing when it is not text. `isTruncated`: the last character may be cut. */
export function bodyText(bytes: Buffer, type: ContentType, isTruncated: boolean): string | undefined {
  if (!isTextual(bytes, type, isTruncated)) return undefined;
  const label = byteOrderMark(bytes) ?? type.charset ?? declaredCharset(bytes, type.mime) ?? "utf-8";
  return decoderFor(label).decode(bytes, { stream: isTruncated });
}

/**
 * Formats JSON on indented lines; undefined when the text is not JSON. Integers keep their digits, even those
 * that JavaScript would round.
 */
export function prettyJson(text: string): string | undefined {
  return JSON.stringify(
    parseJson(text, (source) => sourceAwareJson.rawJSON(source)),
    null,
    2,
  );
}

/**
 * Parses JSON; undefined when the text is not JSON. An integer that JavaScript would round is passed to
 * `exact` as text, and the result takes its place.
 */
export function parseJson(text: string, exact: (source: string) => unknown = String): unknown {
  try {
    return sourceAwareJson.parse(text, (_key, value, { source }) =>
      isRounded(value, source) ? exact(source) : value,
    );
  } catch {
    return undefined;
  }
}

/** Every supported Node has these functions; TypeScript's library does not know them yet. */
interface SourceAwareJson {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
}

const sourceAwareJson = JSON as unknown as SourceAwareJson; // Node has more than the type says.

function isRounded(value: unknown, source = ""): source is string {
  return typeof value === "number" && /^-?\d+$/.test(source) && !Number.isSafeInteger(value);
}

const textTypes =
  /^text\/|[/+](json|xml|yaml|toml)$|^application\/(x-)?(javascript|ecmascript|ndjson|jsonlines|jsonl|json5|yaml|sh|www-form-urlencoded|graphql|graphql-response|sql|csv|tex|latex|httpd-php)$/;

function isTextual(bytes: Buffer, { mime, charset }: ContentType, isTruncated: boolean): boolean {
  if (textTypes.test(mime) || charset !== undefined) return true;
  if (mime !== "" && mime !== "application/octet-stream" && mime !== "binary/octet-stream") return false;
  // The server gave no type. A cut may have split the last character, so that character is left out of the check.
  const judged = isTruncated ? bytes.subarray(0, lastBoundary(bytes)) : bytes;
  return isUtf8(judged) && !judged.includes(0);
}

function lastBoundary(bytes: Buffer): number {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1]! & 0b1100_0000) === 0b1000_0000) end--;
  return Math.max(0, end - 1);
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return undefined;
}

/** Pages and XML may name their charset inside, within the first kilobyte. */
function declaredCharset(bytes: Buffer, mime: string): string | undefined {
  if (!/html|xml/.test(mime)) return undefined;
  const start = bytes.subarray(0, 1_024).toString("latin1");
  return /<meta[^>]+charset\s*=\s*["']?([\w-]+)|<\?xml[^>]+encoding\s*=\s*["']([\w-]+)/i
    .exec(start)
    ?.slice(1)
    .find(Boolean);
}

function decoderFor(label: string): TextDecoder {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}

/** The encodings that `decodedBody` can undo, for the request's `accept-encoding`. */
export const acceptedEncodings = "gzip, deflate, br";

export interface BodyPart {
  readonly bytes: Buffer;
  /** There was more than the limit; the rest was not read. */
  readonly isTruncated: boolean;
}

/**
 * The body with its content encodings undone. It is decompressed only as fast as it is read, so a small body that
 * unpacks to an enormous one cannot hurt a reader that stops at its limit. Destroying the stream ends the connection.
 */
export async function decodedBody(body: Readable, encoding = ""): Promise<Readable> {
  const encodings = encoding
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
  if (encodings.length === 0) return body;
  try {
    if (encodings.length > 2) throw new Error("it is encoded more than twice");
    const first = await firstByte(body);
    // An empty body is legal under every encoding, but no decoder accepts it.
    if (first === undefined) return body;
    // Servers say "deflate" for two formats; only the standard one begins with this header.
    const isRaw = (first & 0x0f) !== 8;
    const decoders = encodings.reverse().map((name) => decoderOf(name, isRaw));
    const decoded = decoders.at(-1)!;
    pipeline([body, ...decoders], (error) => {
      if (error) decoded.destroy(error);
    });
    return decoded;
  } catch (error) {
    body.destroy();
    throw new Error(`The body (content-encoding: ${encoding}) cannot be read: ${reasonOf(error)}.`);
  }
}

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
  // A body of unknown length ends when the connection closes. When the signal closes the connection, the body
  // looks complete but is not.
  signal.throwIfAborted();
  return { bytes: Buffer.concat(chunks, size), isTruncated: false };
}

function decoderOf(encoding: string, isRaw: boolean): Transform {
  if (encoding === "gzip" || encoding === "x-gzip") return zlib.createGunzip();
  if (encoding === "br") return zlib.createBrotliDecompress();
  if (encoding === "deflate") return isRaw ? zlib.createInflateRaw() : zlib.createInflate();
  throw new Error(`"${encoding}" was not asked for and cannot be undone`);
}

/** Reads the first byte of a body and puts it back. */
async function firstByte(body: Readable): Promise<number | undefined> {
  await once(body, "readable");
  const first: Buffer | null = body.read(1);
  if (first === null) return undefined;
  body.unshift(first);
  return first[0];
}

/**
 * Reads a response's decoded body up to `limit` bytes. A response that has no body by its method or status is
 * read as empty.
 */
export async function readResponse(
  response: { readonly message: IncomingMessage; readonly method: string; readonly status: number },
  limit: number,
  signal: AbortSignal,
): Promise<BodyPart> {
  const { message, method, status } = response;
  if (method === "HEAD" || status === 204 || status === 304) {
    message.destroy();
    return { bytes: Buffer.alloc(0), isTruncated: false };
  }
  return readBody(await decodedBody(message, message.headers["content-encoding"]), limit, signal);
}

interface SaveOptions {
  readonly target: string;
  readonly overwrite: boolean;
  readonly maxBytes: number;
  readonly onProgress: (bytes: number) => void;
  /** The signal of the request that the stream comes from. */
  readonly signal: AbortSignal;
}

interface SavedFile {
  readonly bytes: number;
  /** In hex. */
  readonly sha256: string;
}

/**
 * Writes a stream to a file, all of it or nothing: the content goes to a temporary file beside the target, which
 * becomes the target only when it is complete and on disk. A failure leaves nothing behind, not even new directories.
 */
export async function saveStream(source: Readable, options: SaveOptions): Promise<SavedFile> {
  const { target } = options;
  const directory = dirname(target);
  const firstMade = await mkdir(directory, { recursive: true });
  const temporary = join(directory, `.download-${randomBytes(8).toString("hex")}.part`);
  try {
    const saved = await write(source, temporary, options);
    // A body of unknown length ends when the connection closes. When the signal closes the connection, the
    // body looks complete but is not.
    options.signal.throwIfAborted();
    await publish(temporary, target, options.overwrite);
    return saved;
  } catch (error) {
    source.destroy();
    await rm(temporary, { force: true });
    if (firstMade !== undefined) await removeEmpty(directory, firstMade);
    throw error;
  }
}

async function write(
  source: Readable,
  path: string,
  { maxBytes, onProgress }: SaveOptions,
): Promise<SavedFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  const file: FileHandle = await open(path, "wx");
  try {
    // The stream has no text encoding, so its chunks are buffers.
    for await (const chunk of source as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      hash.update(chunk);
      await file.writeFile(chunk);
      onProgress(bytes);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { bytes, sha256: hash.digest("hex") };
}

export function tooLarge(maxBytes: number): Error {
  return new Error(
    `The content is larger than ${maxBytes.toLocaleString("en-US")} bytes, so nothing was saved. Raise maxBytes if it is wanted.`,
  );
}

export function alreadyThere(target: string): Error {
  return new Error(
    `"${basename(target)}" is already there, so nothing was saved. Set overwrite to true, or give another path.`,
  );
}

async function publish(temporary: string, target: string, overwrite: boolean): Promise<void> {
  if (overwrite || !(await linkUnlessThere(temporary, target))) await rename(temporary, target);
  else await rm(temporary);
  const directory = await open(dirname(target), "r");
  // Not every file system can flush a directory; the file itself is safe already.
  await directory.sync().catch(() => {});
  await directory.close();
}

/**
 * Unlike a rename, a link never replaces a file that has appeared in the meantime. Returns `false` where the file
 * system has no links; there only the check before the download protects such a file.
 */
async function linkUnlessThere(temporary: string, target: string): Promise<boolean> {
  try {
    await link(temporary, target);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // The file system throws such errors.
    if (code === "EEXIST") throw alreadyThere(target);
    if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP") return false;
    throw error;
  }
}

/** Removes the directories that were made for this file, unless someone else has used them since. */
async function removeEmpty(from: string, upTo: string): Promise<void> {
  for (let directory = from; directory.length >= upTo.length; directory = dirname(directory)) {
    const isKept = await rmdir(directory).catch(() => true);
    if (isKept) return;
  }
}
