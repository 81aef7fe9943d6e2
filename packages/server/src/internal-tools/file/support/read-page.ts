import type { FileHandle } from "node:fs/promises";
import { decodeText, type TextEncoding } from "./text-encoding.ts";

export interface PageRequest {
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
  const { encoding, offset, signal } = request;
  const before = await passLines(
    handle,
    encoding,
    encoding.bom,
    offset - 1,
    Number.POSITIVE_INFINITY,
    signal,
  );
  if (before.lines < offset - 1) return { endsAt: before.lines + (before.isLineOpen ? 1 : 0) };
  const start = before.position + request.skipBytes;
  const bytes = await readAt(handle, start, Buffer.allocUnsafe(request.bytes + 1));
  if (bytes.length === 0 && start > encoding.bom) return { endsAt: offset - 1 };
  return cutPage(handle, request, start, bytes);
}

async function cutPage(
  handle: FileHandle,
  request: PageRequest,
  start: number,
  bytes: Buffer,
): Promise<Page> {
  const { encoding, offset, skipBytes, signal } = request;
  const isWhole = bytes.length <= request.bytes;
  const { length, lines } = takeLines(bytes.subarray(0, request.bytes), request, isWhole);
  if (isWhole && length === bytes.length) return { bytes, lines, totalLines: offset - 1 + lines };
  // No line ends in the page and the file goes on: a piece of one long line.
  if (lines === 0) {
    const piece = wholeCharacters(bytes.subarray(0, request.bytes), encoding);
    return { bytes: piece, lines: 1, next: { offset, skipBytes: skipBytes + piece.length } };
  }
  const left = await passLines(
    handle,
    encoding,
    start + length,
    Number.POSITIVE_INFINITY,
    MOST_COUNTED,
    signal,
  );
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

async function passLines(
  handle: FileHandle,
  encoding: TextEncoding,
  from: number,
  most: number,
  mostBytes: number,
  signal: AbortSignal,
): Promise<Passed> {
  let lines = 0;
  if (most === 0) return { position: from, lines, isEnd: false, isLineOpen: false };
  let isLineOpen = false;
  const buffer = Buffer.allocUnsafe(CHUNK);
  // UTF-16 is looked at in pairs, counted from the start of the file.
  const aligned = from - (from % 2);
  for (let base = aligned; base - from < mostBytes; ) {
    signal.throwIfAborted();
    const chunk = await readAt(handle, base, buffer);
    let at = base === aligned ? from - aligned : 0;
    if (chunk.length <= at) return { position: base + chunk.length, lines, isEnd: true, isLineOpen };
    for (let end = encoding.lineEnd(chunk, at); end !== -1; end = encoding.lineEnd(chunk, at)) {
      at = end;
      lines += 1;
      if (lines === most) return { position: base + at, lines, isEnd: false, isLineOpen: false };
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
