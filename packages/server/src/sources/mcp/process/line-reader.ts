export interface LineListeners {
  /** Without the end of the line. */
  onLine(line: string): void;
  /** A line that was too long to be kept: how it begins and how it ends. */
  onTooLong(start: string, end: string): void;
}

const NEWLINE = 10;
/** How much is kept of both ends of a line that is too long. */
const EDGE = 200;

/** Puts pieces of a stream together to lines. */
export class LineReader {
  readonly #longest: number;
  readonly #listeners: LineListeners;
  #pieces: Buffer[] = [];
  #length = 0;
  /** The ends of a line that is being skipped. */
  #skipped: { readonly start: Buffer; end: Buffer } | undefined;

  constructor(longest: number, listeners: LineListeners) {
    this.#longest = longest;
    this.#listeners = listeners;
  }

  read(piece: Buffer): void {
    let from = 0;
    for (;;) {
      const end = piece.indexOf(NEWLINE, from);
      if (end === -1) break;
      // Most lines come whole, in a piece of their own.
      if (this.#length === 0 && this.#skipped === undefined)
        this.#listeners.onLine(piece.toString("utf8", from, end));
      else this.#end(piece.subarray(from, end));
      from = end + 1;
    }
    if (from < piece.length) this.#keep(piece.subarray(from));
  }

  #end(last: Buffer): void {
    if (this.#skipped !== undefined) {
      this.#keep(last);
      const { start, end } = this.#skipped;
      this.#skipped = undefined;
      this.#listeners.onTooLong(start.toString("utf8"), end.toString("utf8"));
      return;
    }
    const line = Buffer.concat([...this.#pieces, last]);
    this.#pieces = [];
    this.#length = 0;
    this.#listeners.onLine(line.toString("utf8"));
  }

  #keep(rest: Buffer): void {
    if (this.#skipped !== undefined) {
      this.#skipped.end = Buffer.concat([this.#skipped.end, rest.subarray(-EDGE)]).subarray(-EDGE);
      return;
    }
    this.#pieces.push(rest);
    this.#length += rest.length;
    if (this.#length <= this.#longest) return;
    const [first = rest] = this.#pieces;
    this.#skipped = {
      start: Buffer.from(first.subarray(0, EDGE)),
      end: Buffer.from(rest.subarray(-EDGE)),
    };
    this.#pieces = [];
    this.#length = 0;
  }
}
