import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isLinkToPrivate } from "../../../access/index.ts";
import { belongsToServer, type Confinement, locateExisting } from "../../paths.ts";
import { carefulRead, checkSameFile } from "./copy-and-remove.ts";

/**
 * `offset`: the number of the first line, from 1. `skipBytes`: bytes of that line to skip. `lines`, `bytes`:
 * the most that the page may have.
 */
interface PageRequest extends Readonly<Record<"offset" | "skipBytes" | "lines" | "bytes", number>> {
  readonly encoding: TextEncoding;
  readonly signal: AbortSignal;
}

/** Whole lines, or a piece of one line that is longer than a page. */
export interface Page {
  readonly bytes: Buffer;
  readonly lines: number;
  /** Where the next page begins; absent when the page ends with the file. */
  readonly next?: { readonly offset: number; readonly skipBytes: number };
  /** Lines of the whole file; absent when the rest of the file is too large to count. */
  readonly totalLines?: number;
}

// Must be even, so that no UTF-16 code unit is cut.
const CHUNK_BYTES = 256 * 1024;
/** When more than this many bytes follow the page, their lines are not counted: it would take too long. */
const MOST_COUNTED = 16 * 1024 * 1024;

/**
 * Reads a page of lines, holding at most a page and a chunk in memory. Skipped bytes are never decoded. When
 * the file ends before the page begins, `endsAt` is its number of lines.
 */
export async function readPage(
  handle: FileHandle,
  request: PageRequest,
): Promise<Page | { readonly endsAt: number }> {
  const { encoding, offset, skipBytes } = request;
  const before = await skipLines(handle, request, encoding.bom, { lines: offset - 1 });
  if (before.lines < offset - 1) return { endsAt: before.lines + (before.isLineOpen ? 1 : 0) };
  const start = before.position + skipBytes;
  const bytes = await readAt(handle, start, Buffer.allocUnsafe(request.bytes + 1));
  if (bytes.length === 0 && start > encoding.bom) return { endsAt: offset - 1 };

  const isWhole = bytes.length <= request.bytes;
  const { length, lines } = takeLines(bytes.subarray(0, request.bytes), request, isWhole);
  if (isWhole && length === bytes.length) return { bytes, lines, totalLines: offset - 1 + lines };
  // No line ends within the page: it is a piece of one long line.
  if (lines === 0) {
    const piece = wholeCharacters(bytes.subarray(0, request.bytes), encoding);
    return { bytes: piece, lines: 1, next: { offset, skipBytes: skipBytes + piece.length } };
  }
  const left = await skipLines(handle, request, start + length, { bytes: MOST_COUNTED });
  const next = { offset: offset + lines, skipBytes: 0 };
  const page = { bytes: bytes.subarray(0, length), lines, next };
  if (!left.isEnd) return page;
  return { ...page, totalLines: offset - 1 + lines + left.lines + (left.isLineOpen ? 1 : 0) };
}

/**
 * Counts the whole lines at the beginning of `bytes`, and the bytes that they take. A last line without a
 * newline counts when `isWhole`: `bytes` reaches the end of the file.
 */
function takeLines(bytes: Buffer, request: PageRequest, isWhole: boolean): { length: number; lines: number } {
  let length = 0;
  let lines = 0;
  while (lines < request.lines) {
    const end = request.encoding.lineEnd(bytes, length);
    if (end === -1) break;
    length = end;
    lines += 1;
  }
  if (isWhole && lines < request.lines && length < bytes.length)
    return { length: bytes.length, lines: lines + 1 };
  return { length, lines };
}

/**
 * Skips lines from a position on, up to a number of lines or about a number of bytes. In the result,
 * `position` is the place after the last skipped line, or the end of the file; when the number of bytes ended
 * the search, it is `from`. `isLineOpen`: the bytes that were read end with a line without a newline.
 */
async function skipLines(
  handle: FileHandle,
  { encoding, signal }: PageRequest,
  from: number,
  most: { readonly lines?: number; readonly bytes?: number },
) {
  let lines = 0;
  if (most.lines === 0) return { position: from, lines, isEnd: false, isLineOpen: false };
  let isLineOpen = false;
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  // UTF-16 is read in pairs of bytes from the start of the file.
  const aligned = from - (from % 2);
  for (let base = aligned; base - from < (most.bytes ?? Number.POSITIVE_INFINITY); ) {
    signal.throwIfAborted();
    const chunk = await readAt(handle, base, buffer);
    let at = base === aligned ? from - aligned : 0;
    if (chunk.length <= at) return { position: base + chunk.length, lines, isEnd: true, isLineOpen };
    for (let end = encoding.lineEnd(chunk, at); end !== -1; end = encoding.lineEnd(chunk, at)) {
      at = end;
      lines += 1;
      if (lines === most.lines) return { position: base + at, lines, isEnd: false, isLineOpen: false };
    }
    isLineOpen = at < chunk.length;
    base += chunk.length;
  }
  return { position: from, lines, isEnd: false, isLineOpen };
}

/** Fills the buffer unless the file ends; a single read may return less. */
async function readAt(handle: FileHandle, position: number, buffer: Buffer): Promise<Buffer> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(buffer, filled, buffer.length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

/** Drops an incomplete character at the end. */
function wholeCharacters(bytes: Buffer, encoding: TextEncoding): Buffer {
  for (let cut = 0; cut < 4; cut += 1) {
    const piece = bytes.subarray(0, bytes.length - cut);
    if (decodeText(piece, encoding) !== undefined) return piece;
  }
  return bytes;
}

/** A file that was checked after it was opened. The caller must close the handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
  readonly shown: string;
}

/**
 * Opens a file of the workspace for reading. Rejects for folders, pipes and devices, and when the file was exchanged
 * between the check and the opening.
 */
export async function openRegularFile(workspace: Confinement, path: string): Promise<OpenFile> {
  const { real, shown, stats: seen } = await locateExisting(workspace, path);
  checkKind(seen, shown);
  const handle = await open(real, carefulRead).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${shown} cannot be opened: ${error.message}.`, { cause: error });
  });
  try {
    const stats = await checkSameFile(handle, real, shown);
    checkKind(stats, shown);
    if (await isLinkToPrivate(workspace, stats)) throw belongsToServer(path);
    return { handle, stats, shown };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function checkKind(stats: Stats, shown: string): void {
  if (stats.isDirectory()) throw new Error(`${shown} is a folder. internal_file_list shows what is in it.`);
  if (stats.isFile()) return;
  throw new Error(`${shown} is neither a file nor a folder; it cannot be read.`);
}

/** Types by the first bytes of a file, in hexadecimal digits, and where those bytes begin. */
const signatures: readonly (readonly [type: string, bytes: string, at?: number])[] = [
  ["image/png", "89504e470d0a1a0a"],
  ["image/jpeg", "ffd8ff"],
  ["image/gif", "47494638"],
  ["image/webp", "57454250", 8],
  ["audio/wav", "57415645", 8],
  ["image/bmp", "424d"],
  ["application/pdf", "255044462d"],
  ["application/zip", "504b0304"],
  ["application/gzip", "1f8b"],
  ["application/zstd", "28b52ffd"],
  ["application/x-xz", "fd377a585a"],
  ["application/x-7z-compressed", "377abcaf271c"],
  ["application/vnd.sqlite3", "53514c69746520666f726d61742033"],
  ["application/wasm", "0061736d"],
  ["application/x-elf", "7f454c46"],
  ["video/mp4", "66747970", 4],
  ["audio/ogg", "4f676753"],
  ["audio/mpeg", "494433"],
  ["font/woff2", "774f4632"],
];

/** Image types that every provider accepts. */
const readableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The media type by the first bytes of a file. Text may match by chance. */
export function fileType(head: Buffer): string | undefined {
  const start = head.toString("hex", 0, 32);
  return signatures.find(([, bytes, at = 0]) => start.startsWith(bytes, at * 2))?.[0];
}

/** Whether a model can be shown this file as an image. */
export function isReadableImage(type: string | undefined, head: Uint8Array): type is string {
  const isNoText = head.includes(0) || (head[0] ?? 0) >= 0x80;
  return isNoText && type !== undefined && readableImages.has(type);
}

/** How the bytes of a file become lines of text. */
export interface TextEncoding {
  /** The name for `TextDecoder`. */
  readonly label: string;
  /** The length of the byte order mark in bytes. */
  readonly bom: number;
  /** The position after the newline of the line at `from`; -1 when `bytes` has no newline. */
  lineEnd(bytes: Buffer, from: number): number;
}

/** Files with this byte are not text, except in UTF-16, where half the bytes of English text are NUL. */
const NUL = 0;
const NEWLINE = 10;

/** Byte order marks, in hexadecimal digits. */
const marks = { "utf-8": "efbbbf", "utf-16le": "fffe", "utf-16be": "feff" };

/** The given encoding, or that of the byte order mark, or UTF-8. */
export function textEncoding(head: Buffer, asked: string | undefined): TextEncoding {
  const marked = Object.entries(marks).find(([, mark]) => head.toString("hex", 0, 3).startsWith(mark));
  const label = asked === undefined ? (marked?.[0] ?? "utf-8") : knownLabel(asked);
  const bom = marked?.[0] === label ? marked[1].length / 2 : 0;
  if (label === "utf-16le") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 0) };
  if (label === "utf-16be") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 1) };
  return { label, bom, lineEnd: (bytes, from) => bytes.indexOf(NEWLINE, from) + 1 || -1 };
}

/** Whether the bytes cannot be text in this encoding. */
export function looksBinary(bytes: Uint8Array, encoding: TextEncoding): boolean {
  return !encoding.label.startsWith("utf-16") && bytes.includes(NUL);
}

/** Decodes whole characters; `undefined` when the bytes do not fit the encoding. */
export function decodeText(bytes: Uint8Array, encoding: TextEncoding): string | undefined {
  try {
    return new TextDecoder(encoding.label, { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function knownLabel(asked: string): string {
  try {
    return new TextDecoder(asked).encoding;
  } catch {
    throw new Error(
      `"${asked}" is no encoding known here. Some that are: utf-8, utf-16le, latin1, gbk, gb18030, big5, shift_jis, euc-kr, windows-1252.`,
    );
  }
}

/** `bytes` must begin at an even position of the file. `low` is the position of the newline byte in its pair. */
function wideLineEnd(bytes: Buffer, from: number, low: 0 | 1): number {
  for (let at = bytes.indexOf(NEWLINE, from); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) {
    if (at % 2 === low && bytes[low === 0 ? at + 1 : at - 1] === NUL) return at - low + 2;
  }
  return -1;
}
