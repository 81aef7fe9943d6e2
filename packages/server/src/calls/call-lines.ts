import type { CallLine } from "../store/calls/call-line.ts";

/** Lines and bytes of each half. */
const MOST_LINES = 100;
const MOST_BYTES = 16 * 1024;

/** The lines of one call. Of more than may be kept, the first and the last are: what began it, and how it ended. */
export class CallLines {
  readonly #first = new Half();
  readonly #last = new Half();
  #isFull = false;
  #leftOut = 0;

  add(line: CallLine): void {
    this.#isFull ||= !this.#first.takes(line);
    if (!this.#isFull) {
      this.#first.add(line);
      return;
    }
    while (!this.#last.takes(line)) {
      this.#last.dropOldest();
      this.#leftOut++;
    }
    this.#last.add(line);
  }

  /** In order. A note stands where lines were left out. */
  all(): CallLine[] {
    const [next] = this.#last.lines;
    if (this.#leftOut === 0 || next === undefined) return [...this.#first.lines, ...this.#last.lines];
    const text = `${this.#leftOut} ${this.#leftOut === 1 ? "line was" : "lines were"} left out here.`;
    return [...this.#first.lines, { at: next.at, level: "note", text }, ...this.#last.lines];
  }
}

class Half {
  readonly lines: CallLine[] = [];
  #bytes = 0;

  /** Always true of the first line, so that one line is never too long. */
  takes({ text }: CallLine): boolean {
    if (this.lines.length === 0) return true;
    return this.lines.length < MOST_LINES && this.#bytes + Buffer.byteLength(text) <= MOST_BYTES;
  }

  add(line: CallLine): void {
    this.lines.push(line);
    this.#bytes += Buffer.byteLength(line.text);
  }

  dropOldest(): void {
    this.#bytes -= Buffer.byteLength(this.lines.shift()?.text ?? "");
  }
}
