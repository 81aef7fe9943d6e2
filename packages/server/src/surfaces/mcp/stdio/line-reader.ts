import type { Readable } from "node:stream";

export interface LineTaker {
  line(text: string): void;
  tooLong(): void;
  /** Nothing more comes, and every line has been taken. */
  end(): void;
  /** It was broken off before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether no more is to be taken until `goOn` is called. */
  isFull(): boolean;
}

const NEWLINE = 0x0a;
/** How many lines are taken before the event loop goes on: what comes of them shows only then. */
const SLICE = 64;

/**
 * The lines of a stream, taken no faster than what comes of them is taken away. What is not taken stays with whoever
 * writes it.
 */
export class LineReader {
  readonly #input: Readable;
  readonly #taker: LineTaker;
  readonly #longest: number;
  /** Of a line whose end has not come. */
  #pending: Buffer[] = [];
  #size = 0;
  /** What has come and is not taken yet. */
  #rest: Buffer | undefined;
  /** Lines since the event loop last went on. */
  #taken = 0;
  #isEnded = false;
  #isStopped = false;

  /** `longest` is that of a line, in bytes. */
  constructor(input: Readable, longest: number, taker: LineTaker) {
    this.#input = input;
    this.#longest = longest;
    this.#taker = taker;
  }

  start(): void {
    const { error, close } = this.#taker;
    this.#input.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#input.on("end", () => {
      this.#isEnded = true;
      this.#endIfTaken();
    });
    this.#input.on("close", () => {
      if (!this.#isEnded) close();
    });
    this.#input.on("error", error);
  }

  /** To be called when it is not full any more. */
  goOn(): void {
    const rest = this.#rest;
    if (rest === undefined || this.#isStopped) return;
    this.#rest = undefined;
    this.#taken = 0;
    this.#take(rest);
    if (this.#rest !== undefined) return;
    this.#endIfTaken();
    if (!this.#isStopped) this.#input.resume();
  }

  /** Takes nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#rest = undefined;
    this.#input.pause();
  }

  #take(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      const isFull = this.#taker.isFull();
      if (isFull || this.#taken === SLICE) {
        this.#hold(chunk.subarray(from), isFull);
        return;
      }
      const part = chunk.subarray(from, end);
      from = end + 1;
      this.#taken++;
      this.#finish(part);
      if (this.#isStopped) return;
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
  }

  #hold(rest: Buffer, isFull: boolean): void {
    this.#rest = rest;
    this.#input.pause();
    if (!isFull) setImmediate(() => this.goOn());
  }

  #keep(part: Buffer): void {
    this.#size += part.length;
    if (this.#size <= this.#longest) this.#pending.push(part);
    else this.#pending = [];
  }

  #finish(part: Buffer): void {
    const size = this.#size + part.length;
    const line = size === part.length ? part : Buffer.concat([...this.#pending, part]);
    this.#pending = [];
    this.#size = 0;
    if (size > this.#longest) this.#taker.tooLong();
    else this.#taker.line(line.toString("utf8"));
  }

  #endIfTaken(): void {
    if (!this.#isEnded || this.#rest !== undefined || this.#isStopped) return;
    // The last line may have no end of its own.
    if (this.#size > 0) this.#finish(Buffer.alloc(0));
    this.#taker.end();
  }
}
