import type { Readable } from "node:stream";
import { type LineHandler, LineSplitter } from "../../helpers/index.ts";

interface PacedTaker extends LineHandler {
  /** The input has ended, and every line has been read. */
  end(): void;
  /** The input was closed before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether no more lines are to be read for now. */
  isFull(): boolean;
  /** Calls `act` once, when it may no longer be full. */
  whenFreed(act: () => void): void;
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
    const ended = () => {
      this.#isEnded = true;
      this.#endIfTaken();
    };
    this.#input.on("data", this.#take).on("end", ended).on("error", error);
    this.#input.on("close", () => {
      if (!this.#isEnded) close();
    });
    // A stream that ended before we listened emits no event again.
    if (this.#input.readableEnded) queueMicrotask(ended);
    else if (this.#input.closed) queueMicrotask(close);
  }

  stop(): void {
    this.#isStopped = true;
    this.#rest = undefined;
    this.#input.pause();
  }

  readonly #take = (chunk: Buffer): void => {
    for (let at = 0; at < chunk.length && !this.#isStopped; this.#taken++) {
      const isFull = this.#taker.isFull();
      if (isFull || this.#taken === SLICE) {
        this.#rest = chunk.subarray(at);
        this.#input.pause();
        if (isFull) this.#taker.whenFreed(this.#resume);
        else setImmediate(this.#resume);
        return;
      }
      at = this.#lines.next(chunk, at);
    }
  };

  readonly #resume = (): void => {
    const rest = this.#rest;
    if (rest === undefined || this.#isStopped) return;
    this.#rest = undefined;
    this.#taken = 0;
    this.#take(rest);
    if (this.#rest !== undefined) return;
    this.#endIfTaken();
    if (!this.#isStopped) this.#input.resume();
  };

  #endIfTaken(): void {
    if (!this.#isEnded || this.#rest !== undefined || this.#isStopped) return;
    this.#lines.end();
    this.#taker.end();
  }
}
