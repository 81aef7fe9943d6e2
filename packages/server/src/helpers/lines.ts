import { isUtf8 } from "node:buffer";

export interface LineHandler {
  /** `line` is without its line end. */
  onLine(line: string, bytes: number): void;
  /**
   * Called for a line that is not valid UTF-8. Without this method, `onLine` gets it, with replacement characters for
   * the invalid bytes. `bytes` are valid only during the call.
   */
  onGarbled?(line: string, bytes: Buffer): void;
  /** Called at the end of a line that was too long to be kept, with its first and last characters. */
  onTooLong(start: string, end: string): void;
}

const NEWLINE = 10;
/** Bytes that are kept of both ends of a line that is too long. */
const EDGE = 200;
const nothing = Buffer.alloc(0);
/** The character that replaces invalid bytes. A valid line may contain it too. */
const REPLACEMENT = "\uFFFD";

/** Splits a stream into lines of UTF-8. Looks at every byte once, however long a line is. */
export class LineSplitter {
  /** The most bytes of a line that is kept whole. */
  longest: number;
  readonly #handler: LineHandler;
  /** The pieces of a line that has not ended. */
  #pieces: Buffer[] = [];
  #length = 0;
  /** The first and last bytes of a line that is too long. */
  #skipped: { readonly start: Buffer; end: Buffer } | undefined;

  constructor(longest: number, handler: LineHandler) {
    this.longest = longest;
    this.#handler = handler;
  }

  /** Whether the line that has not ended is too long already. */
  get isTooLong(): boolean {
    return this.#skipped !== undefined;
  }

  push(piece: Buffer): void {
    for (let at = 0; at < piece.length; ) at = this.next(piece, at);
  }

  /** Reads one line, or a part of it, from this position of the piece. Returns where the next line begins. */
  next(piece: Buffer, from: number): number {
    const end = piece.indexOf(NEWLINE, from);
    if (end === -1) {
      this.#keep(piece.subarray(from));
      return piece.length;
    }
    // Most lines come whole.
    if (this.#length === 0 && end - from <= this.longest) this.#emit(piece, from, end);
    else this.#finish(piece.subarray(from, end));
    return end + 1;
  }

  /** To be called when the stream has ended. Hands over the last line if it lacks a line end. */
  end(): void {
    if (this.#length > 0) this.#finish(nothing);
  }

  #finish(last: Buffer): void {
    this.#keep(last);
    const [pieces, length, skipped] = [this.#pieces, this.#length, this.#skipped];
    this.#pieces = [];
    this.#length = 0;
    this.#skipped = undefined;
    if (skipped === undefined) this.#emit(Buffer.concat(pieces, length), 0, length);
    else this.#handler.onTooLong(skipped.start.toString("utf8"), skipped.end.toString("utf8"));
  }

  #emit(bytes: Buffer, from: number, end: number): void {
    const line = bytes.toString("utf8", from, end);
    const handler = this.#handler;
    // Only a line with a replacement character can have invalid bytes.
    const isGarbled =
      handler.onGarbled !== undefined && line.includes(REPLACEMENT) && !isUtf8(bytes.subarray(from, end));
    if (isGarbled) handler.onGarbled?.(line, bytes.subarray(from, end));
    else handler.onLine(line, end - from);
  }

  #keep(part: Buffer): void {
    this.#length += part.length;
    if (this.#skipped === undefined) {
      this.#pieces.push(part);
      if (this.#length <= this.longest) return;
      const start = Buffer.concat(this.#pieces, Math.min(this.#length, EDGE));
      this.#skipped = { start, end: endOf(this.#pieces) };
      this.#pieces = [];
    } else this.#skipped.end = endOf([this.#skipped.end, part]);
  }
}

/** The end of a line that came in these pieces. No piece is empty, so the last EDGE pieces hold enough bytes. */
function endOf(pieces: readonly Buffer[]): Buffer {
  return Buffer.concat(pieces.slice(-EDGE).map((piece) => piece.subarray(-EDGE))).subarray(-EDGE);
}
