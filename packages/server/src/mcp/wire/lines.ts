import type { Readable } from "node:stream";
import { LineSplitter, type LineTaker } from "../../helpers/index.ts";

interface PacedTaker extends LineTaker {
  /** The input has ended, and every line has been read. */
  end(): void;
  /** The input was closed before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether no more lines are to be read until `resume` is called. */
  isFull(): boolean;
}

/** How many lines are read before the event loop gets a turn: only then does `isFull` reflect the work they caused. */
const SLICE = 64;

/**
 * Reads the lines of a stream, but pauses the stream while the taker is full. Unread input then stays with the program
 * that writes it.
 */
export class PacedLines {
  readonly #input: Readable;
  readonly #taker: PacedTaker;
  readonly #lines: LineSplitter;
  /** Input that has arrived and is not read yet. */
  #rest: Buffer | undefined;
  /** Lines read since the event loop last had a turn. */
  #taken = 0;
  #isEnded = false;
  #isStopped = false;

  /** `longest`: the longest line that is accepted, in bytes. */
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
    // A stream that ended before we listened emits no event again.
    if (this.#input.readableEnded) queueMicrotask(ended);
    else if (this.#input.closed) queueMicrotask(close);
  }

  /** To be called when the taker is no longer full. */
  resume(): void {
    const rest = this.#rest;
    if (rest === undefined || this.#isStopped) return;
    this.#rest = undefined;
    this.#taken = 0;
    this.#take(rest);
    if (this.#rest !== undefined) return;
    this.#endIfTaken();
    if (!this.#isStopped) this.#input.resume();
  }

  stop(): void {
    this.#isStopped = true;
    this.#rest = undefined;
    this.#input.pause();
  }

  #take(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#isStopped; this.#taken++) {
      const isFull = this.#taker.isFull();
      if (isFull || this.#taken === SLICE) {
        this.#pause(chunk.subarray(at), isFull);
        return;
      }
      at = this.#lines.next(chunk, at);
    }
  }

  #pause(rest: Buffer, isFull: boolean): void {
    this.#rest = rest;
    this.#input.pause();
    if (!isFull) setImmediate(() => this.resume());
  }

  #endIfTaken(): void {
    if (!this.#isEnded || this.#rest !== undefined || this.#isStopped) return;
    this.#lines.end();
    this.#taker.end();
  }
}
