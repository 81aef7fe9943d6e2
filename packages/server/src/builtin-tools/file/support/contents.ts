import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isLinkToPrivate } from "../../../access/index.ts";
import { belongsToServer, type Confinement, locateExisting } from "../../paths.ts";
import { carefulRead, checkSameFile } from "./entries.ts";

interface PageRequest {
  /** The first line, from 1. */
  readonly offset: number;
  readonly skipBytes: number;
  readonly lines: number;
  readonly bytes: number;
  readonly encoding: TextEncoding;
  readonly signal: AbortSignal;
}

/** Whole lines, or a piece of one line that is longer than a page. */
export interface Page {
  readonly bytes: Buffer;
  readonly lines: number;
  /** Where the next page begins; absent when the page ends with the file. */
  readonly next?: { readonly offset: number; readonly skipBytes: number };
  /** Absent when the rest of the file is too large to count. */
  readonly totalLines?: number;
}

// Must be even, so that no UTF-16 code unit is cut.
const CHUNK_BYTES = 256 * 1024;
/** Lines of a larger rest are not counted: it would take too long. */
const MOST_COUNTED = 16 * 1024 * 1024;

/**
 * Reads a page of lines, holding at most a page and a chunk in memory. Skipped bytes are never decoded. Returns the
 * number of lines when the file ends before `offset`.
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

/** Counts whole lines of the page; a last line without a newline counts when the page holds the end of the file. */
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

interface SkippedLines {
  /** After the last newline that was passed, or where the search ended. */
  readonly position: number;
  readonly lines: number;
  readonly isEnd: boolean;
  /** The file ends with a line that has no newline. */
  readonly isLineOpen: boolean;
}

/** Skips lines from a position on, up to a number of lines or about a number of bytes. */
async function skipLines(
  handle: FileHandle,
  { encoding, signal }: PageRequest,
  from: number,
  most: { readonly lines?: number; readonly bytes?: number },
): Promise<SkippedLines> {
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

/** A file that was checked after it was opened. Close the handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stats: Stats;
  /** The path as people see it. */
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

interface Signature {
  readonly type: string;
  readonly bytes: readonly number[];
  readonly at?: number;
}

const ascii = (text: string): readonly number[] => [...text].map((letter) => letter.charCodeAt(0));

const signatures: readonly Signature[] = [
  { type: "image/png", bytes: [0x89, ...ascii("PNG\r\n"), 0x1a, 0x0a] },
  { type: "image/jpeg", bytes: [0xff, 0xd8, 0xff] },
  { type: "image/gif", bytes: ascii("GIF8") },
  { type: "image/webp", bytes: ascii("WEBP"), at: 8 },
  { type: "audio/wav", bytes: ascii("WAVE"), at: 8 },
  { type: "image/bmp", bytes: ascii("BM") },
  { type: "application/pdf", bytes: ascii("%PDF-") },
  { type: "application/zip", bytes: [0x50, 0x4b, 0x03, 0x04] },
  { type: "application/gzip", bytes: [0x1f, 0x8b] },
  { type: "application/zstd", bytes: [0x28, 0xb5, 0x2f, 0xfd] },
  { type: "application/x-xz", bytes: [0xfd, ...ascii("7zXZ")] },
  { type: "application/x-7z-compressed", bytes: [...ascii("7z"), 0xbc, 0xaf, 0x27, 0x1c] },
  { type: "application/vnd.sqlite3", bytes: ascii("SQLite format 3") },
  { type: "application/wasm", bytes: [0x00, ...ascii("asm")] },
  { type: "application/x-elf", bytes: [0x7f, ...ascii("ELF")] },
  { type: "video/mp4", bytes: ascii("ftyp"), at: 4 },
  { type: "audio/ogg", bytes: ascii("OggS") },
  { type: "audio/mpeg", bytes: ascii("ID3") },
  { type: "font/woff2", bytes: ascii("wOF2") },
];

/** Image types that every provider accepts. */
const readableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The media type by the first bytes of a file. Text may match by chance. */
export function fileType(head: Uint8Array): string | undefined {
  return signatures.find(({ bytes, at = 0 }) => bytes.every((byte, index) => head[at + index] === byte))
    ?.type;
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

/** The given encoding, or that of the byte order mark, or UTF-8. */
export function textEncoding(head: Uint8Array, asked: string | undefined): TextEncoding {
  const marked = fromMark(head);
  const label = asked === undefined ? (marked?.label ?? "utf-8") : knownLabel(asked);
  const bom = marked?.label === label ? marked.bom : 0;
  if (label === "utf-16le") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 0) };
  if (label === "utf-16be") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 1) };
  return { label, bom, lineEnd: narrowLineEnd };
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

function fromMark(head: Uint8Array): { label: string; bom: number } | undefined {
  if (head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf) return { label: "utf-8", bom: 3 };
  if (head[0] === 0xff && head[1] === 0xfe) return { label: "utf-16le", bom: 2 };
  if (head[0] === 0xfe && head[1] === 0xff) return { label: "utf-16be", bom: 2 };
  return undefined;
}

function narrowLineEnd(bytes: Buffer, from: number): number {
  return bytes.indexOf(NEWLINE, from) + 1 || -1;
}

/** `bytes` must begin at an even position of the file. `low` is the position of the newline byte in its pair. */
function wideLineEnd(bytes: Buffer, from: number, low: 0 | 1): number {
  for (let at = bytes.indexOf(NEWLINE, from); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) {
    if (at % 2 === low && bytes[low === 0 ? at + 1 : at - 1] === NUL) return at - low + 2;
  }
  return -1;
}
