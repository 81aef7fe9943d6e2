/** Cuts a stream into lines. Looks at every byte once, however large a line is. */
export class LineReader {
  readonly #onLine: (line: string, bytes: number) => void;
  readonly #onTooLong: () => void;
  #pieces: Buffer[] = [];
  #length = 0;
  #isStopped = false;

  /** `onTooLong` is called once; nothing is read after it. */
  constructor(onLine: (line: string, bytes: number) => void, onTooLong: () => void) {
    this.#onLine = onLine;
    this.#onTooLong = onTooLong;
  }

  push(chunk: Buffer, longest: number): void {
    let start = 0;
    while (!this.#isStopped) {
      const end = chunk.indexOf(10, start);
      if (end === -1) break;
      this.#take(chunk.subarray(start, end));
      start = end + 1;
    }
    if (this.#isStopped || start === chunk.length) return;
    this.#pieces.push(start === 0 ? chunk : chunk.subarray(start));
    this.#length += chunk.length - start;
    if (this.#length <= longest) return;
    this.#isStopped = true;
    this.#pieces = [];
    this.#onTooLong();
  }

  #take(last: Buffer): void {
    const line = this.#pieces.length === 0 ? last : Buffer.concat([...this.#pieces, last]);
    this.#pieces = [];
    this.#length = 0;
    this.#onLine(line.toString("utf8"), line.length);
  }
}
