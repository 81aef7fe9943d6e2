import type { Readable } from "node:stream";
import { type LineHandler, LineSplitter } from "../../helpers/index.ts";

interface PacedTaker extends LineHandler {
  /** Called when the input has ended and every line has been read. */
  end(): void;
  /** Called when the input was closed before its end. */
  close(): void;
  error(error: Error): void;
  /** Whether reading is to pause for now. */
  isFull(): boolean;
  /** Calls `act` once, when `isFull` may have become false. */
  whenFreed(act: () => void): void;
}

/**
 * How many lines are read before the event loop gets a turn. Only then does `isFull` reflect the work that
 * the lines caused.
 */
const SLICE = 64;

/**
 * Reads the lines of a stream and passes them to the taker, but pauses the stream while the taker is full.
 * The program that writes the stream then has to wait.
 */
export class PacedLines {
  readonly #input: Readable;
  readonly #taker: PacedTaker;
  readonly #lines: LineSplitter;
  /** Input that has arrived and was not passed to the taker yet. */
  #rest: Buffer | undefined;
  /** How many lines were read since the event loop last had a turn. */
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
