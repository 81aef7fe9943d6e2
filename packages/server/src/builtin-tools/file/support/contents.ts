import type { Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isLinkToPrivate } from "../../../access/index.ts";
import { belongsToServer, type Confinement, locateExisting } from "../../paths.ts";
import { carefulRead, checkSameFile } from "./entries.ts";

interface PageRequest {
  /** The first line wanted, from 1. */
  readonly offset: number;
  /** Bytes of that line to leave out. */
  readonly skipBytes: number;
  readonly lines: number;
  readonly bytes: number;
  readonly encoding: TextEncoding;
  readonly signal: AbortSignal;
}

/** A run of whole lines, or a piece of one line that is longer than a page. */
export interface Page {
  readonly bytes: Buffer;
  readonly lines: number;
  /** Where reading on begins; absent when the page ends with the file. */
  readonly next?: { readonly offset: number; readonly skipBytes: number };
  /** Absent when the rest of the file is too large to count. */
  readonly totalLines?: number;
}

// Even, so that no character of UTF-16 is cut in two.
const CHUNK = 256 * 1024;
/** Counting the lines of a larger rest would make the reader wait for a number that nobody asked for. */
const MOST_COUNTED = 16 * 1024 * 1024;

/**
 * Reads a page of lines without ever holding more than a page and a chunk. Works on bytes: what is skipped is
 * never decoded. Answers with the number of lines when the file ends before `offset`.
 */
export async function readPage(
  handle: FileHandle,
  request: PageRequest,
): Promise<Page | { readonly endsAt: number }> {
  const { encoding, offset, skipBytes } = request;
  const before = await passLines(handle, request, encoding.bom, { lines: offset - 1 });
  if (before.lines < offset - 1) return { endsAt: before.lines + (before.isLineOpen ? 1 : 0) };
  const start = before.position + skipBytes;
  const bytes = await readAt(handle, start, Buffer.allocUnsafe(request.bytes + 1));
  if (bytes.length === 0 && start > encoding.bom) return { endsAt: offset - 1 };

  const isWhole = bytes.length <= request.bytes;
  const { length, lines } = takeLines(bytes.subarray(0, request.bytes), request, isWhole);
  if (isWhole && length === bytes.length) return { bytes, lines, totalLines: offset - 1 + lines };
  // No line ends in the page and the file goes on: a piece of one long line.
  if (lines === 0) {
    const piece = wholeCharacters(bytes.subarray(0, request.bytes), encoding);
    return { bytes: piece, lines: 1, next: { offset, skipBytes: skipBytes + piece.length } };
  }
  const left = await passLines(handle, request, start + length, { bytes: MOST_COUNTED });
  const next = { offset: offset + lines, skipBytes: 0 };
  const page = { bytes: bytes.subarray(0, length), lines, next };
  if (!left.isEnd) return page;
  return { ...page, totalLines: offset - 1 + lines + left.lines + (left.isLineOpen ? 1 : 0) };
}

/** Whole lines of the page; a last line without newline counts when the page holds the end of the file. */
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

interface Passed {
  /** Behind the last newline that was passed, or where the search ended. */
  readonly position: number;
  readonly lines: number;
  readonly isEnd: boolean;
  /** The file ends with a line that has no newline. */
  readonly isLineOpen: boolean;
}

/** Goes over lines from a position on, at most so many of them, or about so many bytes. */
async function passLines(
  handle: FileHandle,
  { encoding, signal }: PageRequest,
  from: number,
  most: { readonly lines?: number; readonly bytes?: number },
): Promise<Passed> {
  let lines = 0;
  if (most.lines === 0) return { position: from, lines, isEnd: false, isLineOpen: false };
  let isLineOpen = false;
  const buffer = Buffer.allocUnsafe(CHUNK);
  // UTF-16 is looked at in pairs, counted from the start of the file.
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

/** Fills the buffer unless the file ends; a single read may give less. */
async function readAt(handle: FileHandle, position: number, buffer: Buffer): Promise<Buffer> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await handle.read(buffer, filled, buffer.length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

/** Without the beginning of a character whose end is not there. */
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
  /** The path for people. */
  readonly shown: string;
}

/**
 * Opens a file inside the workspace for reading. Rejects for folders, pipes and devices, and when the path was
 * exchanged for another file between the check and the opening.
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

/** Images that every model's provider takes. */
const readableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** The media type that the first bytes of a file give away. Text may look like one of them by chance. */
export function fileType(head: Uint8Array): string | undefined {
  return signatures.find(({ bytes, at = 0 }) => bytes.every((byte, index) => head[at + index] === byte))
    ?.type;
}

/** Whether the file is an image that a model can be shown. */
export function isReadableImage(type: string | undefined, head: Uint8Array): type is string {
  const isNoText = head.includes(0) || (head[0] ?? 0) >= 0x80;
  return isNoText && type !== undefined && readableImages.has(type);
}

/** How the bytes of a file become lines of text. */
export interface TextEncoding {
  /** As `TextDecoder` names it. */
  readonly label: string;
  /** Bytes of the byte order mark, which is no text. */
  readonly bom: number;
  /** Where the line that goes on at `from` ends: behind its newline; -1 when the newline is not in `bytes`. */
  lineEnd(bytes: Buffer, from: number): number;
}

/** Files that hold this byte are not text, but for UTF-16, where every other byte of English is one. */
const NUL = 0;
const NEWLINE = 10;

/** The encoding asked for, or the one that the byte order mark tells; UTF-8 without either. */
export function textEncoding(head: Uint8Array, asked: string | undefined): TextEncoding {
  const marked = fromMark(head);
  const label = asked === undefined ? (marked?.label ?? "utf-8") : knownLabel(asked);
  const bom = marked?.label === label ? marked.bom : 0;
  if (label === "utf-16le") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 0) };
  if (label === "utf-16be") return { label, bom, lineEnd: (bytes, from) => wideLineEnd(bytes, from, 1) };
  return { label, bom, lineEnd: narrowLineEnd };
}

/** Whether bytes read in this encoding can be text at all. */
export function looksBinary(bytes: Uint8Array, encoding: TextEncoding): boolean {
  return !encoding.label.startsWith("utf-16") && bytes.includes(NUL);
}

/** The text of whole characters; `undefined` when the bytes are not of this encoding. */
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

/** `bytes` must begin at an even position of the file. `low` is where the newline stands in its pair. */
function wideLineEnd(bytes: Buffer, from: number, low: 0 | 1): number {
  for (let at = bytes.indexOf(NEWLINE, from); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) {
    if (at % 2 === low && bytes[low === 0 ? at + 1 : at - 1] === NUL) return at - low + 2;
  }
  return -1;
}
