import type { Readable } from "node:stream";
import { type LineHandler, LineSplitter } from "../../helpers/index.ts";

interface PacedTaker extends LineHandler {
  /** Nothing more comes, and every line has been taken. */
  end(): void;
  /** It was broken off before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether no more is to be taken until `goOn` is called. */
  isFull(): boolean;
}

/** How many lines are taken before the event loop goes on: what comes of them shows only then. */
const SLICE = 64;

/**
 * The lines of a stream, taken no faster than what comes of them is taken away. What is not taken stays with whoever
 * writes it.
 */
export class PacedLines {
  readonly #input: Readable;
  readonly #taker: PacedTaker;
  readonly #lines: LineSplitter;
  /** What has come and is not taken yet. */
  #rest: Buffer | undefined;
  /** Lines since the event loop last went on. */
  #taken = 0;
  #isEnded = false;
  #isStopped = false;

  /** `longest` is that of a line, in bytes. */
  constructor(input: Readable, longest: number, taker: PacedTaker) {
    this.#input = input;
    this.#taker = taker;
    this.#lines = new LineSplitter(longest, taker);
  }

  start(): void {
    const { error, close } = this.#taker;
    this.#input.on("data", (chunk: Buffer) => this.#take(chunk));
    const ended = () => {
      this.#isEnded = true;
      this.#endIfTaken();
    };
    this.#input.on("end", ended);
    this.#input.on("close", () => {
      if (!this.#isEnded) close();
    });
    this.#input.on("error", error);
    // What came to its end before anybody listened does not say so again.
    if (this.#input.readableEnded) queueMicrotask(ended);
    else if (this.#input.closed) queueMicrotask(close);
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
    for (let at = 0; at < chunk.length && !this.#isStopped; this.#taken++) {
      const isFull = this.#taker.isFull();
      if (isFull || this.#taken === SLICE) {
        this.#hold(chunk.subarray(at), isFull);
        return;
      }
      at = this.#lines.next(chunk, at);
    }
  }

  #hold(rest: Buffer, isFull: boolean): void {
    this.#rest = rest;
    this.#input.pause();
    if (!isFull) setImmediate(() => this.goOn());
  }

  #endIfTaken(): void {
    if (!this.#isEnded || this.#rest !== undefined || this.#isStopped) return;
    this.#lines.end();
    this.#taker.end();
  }
}
