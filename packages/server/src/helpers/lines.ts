import { isUtf8 } from "node:buffer";

export interface LineTaker {
  /** Without the end of the line. */
  onLine(line: string, bytes: number): void;
  /**
   * A line is no UTF-8: what can be read of it. Who has no use for it is given the same as a line like any other, with
   * marks in the place of what cannot be read.
   */
  onGarbled?(line: string): void;
  /** A line has ended that was too long to be kept: how it begins and how it ends. */
  onTooLong(start: string, end: string): void;
}

const NEWLINE = 10;
/** How much is kept of both ends of a line that is too long. */
const EDGE = 200;
const nothing = Buffer.alloc(0);
/** What stands for bytes that cannot be read. It may also have been sent as such. */
const MARK = "\uFFFD";

/** Puts pieces of a stream together to lines of UTF-8. Looks at every byte once, however long a line is. */
export class LineSplitter {
  /** That of a line, in bytes. */
  longest: number;
  readonly #taker: LineTaker;
  /** Of a line whose end has not come. */
  #pieces: Buffer[] = [];
  #length = 0;
  /** The ends of a line that is too long. */
  #skipped: { readonly start: Buffer; end: Buffer } | undefined;

  constructor(longest: number, taker: LineTaker) {
    this.longest = longest;
    this.#taker = taker;
  }

  /** Whether the line whose end has not come is too long already. */
  get isTooLong(): boolean {
    return this.#skipped !== undefined;
  }

  push(piece: Buffer): void {
    for (let at = 0; at < piece.length; ) at = this.next(piece, at);
  }

  /** Takes one line, or what there is of it, beginning at a place of the piece. Answers where the next one begins. */
  next(piece: Buffer, from: number): number {
    const end = piece.indexOf(NEWLINE, from);
    if (end === -1) {
      this.#keep(piece.subarray(from));
      return piece.length;
    }
    // Most lines come whole.
    if (this.#length === 0 && end - from <= this.longest) this.#give(piece, from, end);
    else this.#finish(piece.subarray(from, end));
    return end + 1;
  }

  /** Nothing more comes: the last line may have no end of its own. */
  end(): void {
    if (this.#length > 0) this.#finish(nothing);
  }

  #finish(last: Buffer): void {
    this.#keep(last);
    const [pieces, length, skipped] = [this.#pieces, this.#length, this.#skipped];
    this.#pieces = [];
    this.#length = 0;
    this.#skipped = undefined;
    if (skipped === undefined) this.#give(Buffer.concat(pieces, length), 0, length);
    else this.#taker.onTooLong(skipped.start.toString("utf8"), skipped.end.toString("utf8"));
  }

  #give(bytes: Buffer, from: number, end: number): void {
    const line = bytes.toString("utf8", from, end);
    const taker = this.#taker;
    // Only where there is a mark can anything have been lost.
    const isGarbled =
      taker.onGarbled !== undefined && line.includes(MARK) && !isUtf8(bytes.subarray(from, end));
    if (isGarbled) taker.onGarbled?.(line);
    else taker.onLine(line, end - from);
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

/** How a line ends that came in these pieces. None of them is empty, so that there are enough in as many as bytes are kept. */
function endOf(pieces: readonly Buffer[]): Buffer {
  return Buffer.concat(pieces.slice(-EDGE).map((piece) => piece.subarray(-EDGE))).subarray(-EDGE);
}
