import type { Writable } from "node:stream";
import { isNews } from "./json-rpc.ts";

/**
 * How fast a client takes in what is written to it. Whatever can wait, or be left out, looks here first: for a client
 * that does not read, all of it would have to be kept.
 */
export class WriteFlow {
  readonly #isFull: () => boolean;
  readonly #waiting = new Set<() => void>();
  #turn: Promise<void> | undefined;

  constructor(isFull: () => boolean) {
    this.#isFull = isFull;
  }

  /** More has been written than the client has taken in. */
  get isFull(): boolean {
    return this.#isFull();
  }

  /** Acts once, when there may be room again or nobody is left. Returns a function that stops waiting. */
  whenFreed(act: () => void): () => void {
    this.#waiting.add(act);
    return () => this.#waiting.delete(act);
  }

  /** To be called when the client has taken in what was written, or has gone. */
  freed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const act of waiting) act();
  }

  /** Resolves when there is room, for one after the other in the order in which they asked. Undefined: there is room now. */
  turn(): Promise<void> | undefined {
    if (this.#turn === undefined && !this.isFull) return undefined;
    const turn = (this.#turn ?? Promise.resolve()).then(async () => {
      while (this.isFull) await new Promise<void>((resolve) => void this.whenFreed(resolve));
      if (this.#turn === turn) this.#turn = undefined;
    });
    this.#turn = turn;
    return turn;
  }
}

export interface WriterOptions {
  /** What stands before and after each message. */
  readonly frame: readonly [before: string, after: string];
  /** How much a client may leave unread, in what the stream counts, beside what is written next. */
  readonly most: number;
  /** The client has taken in what was written. */
  freed?(): void;
  /** The client has left so much unread that nothing more is kept for it. Called once. */
  overflowed(unread: number): void;
}

/** How much is gathered in one turn of the loop before what can wait does, in characters. */
const SOME = 64 * 1024;

/** Writes messages. Those that come in one turn of the loop are written in one go. */
export class MessageWriter {
  readonly flow = new WriteFlow(() => this.#output.writableNeedDrain || this.#unwritten.length > SOME);
  readonly #output: Writable;
  readonly #options: WriterOptions;
  #unwritten = "";
  /** News that wait for a client that does not read just now. */
  readonly #news = new Set<string>();
  #isOverflowed = false;

  constructor(output: Writable, options: WriterOptions) {
    this.#output = output;
    this.#options = options;
    output.on("drain", () => this.#freed());
    output.on("close", () => this.flow.freed());
  }

  get unread(): number {
    return this.#output.writableLength + this.#unwritten.length;
  }

  /** News say no more when they are said twice: a client that does not read just now is told them once. */
  send(message: object): void {
    const text = JSON.stringify(message);
    if (!isNews(message) || !this.flow.isFull) {
      this.write(text);
      return;
    }
    // In the place of the last: what was answered in between may be older.
    this.#news.delete(text);
    this.#news.add(text);
  }

  /** The same for a message that is JSON already, and no news. */
  write(text: string): void {
    if (this.#isOverflowed) return;
    if (this.#unwritten === "") setImmediate(this.flush);
    const [before, after] = this.#options.frame;
    this.#unwritten += before + text + after;
  }

  /** Hands on what was gathered. */
  readonly flush = (): void => {
    if (this.#unwritten === "") return;
    const text = this.#unwritten;
    const { writableLength, writableEnded, destroyed } = this.#output;
    this.#unwritten = "";
    if (writableLength > this.#options.most) {
      this.#isOverflowed = true;
      this.#news.clear();
      this.#options.overflowed(writableLength);
    } else if (!writableEnded && !destroyed && this.#output.write(text)) this.#freed();
  };

  #freed(): void {
    for (const text of this.#news) this.write(text);
    this.#news.clear();
    this.flow.freed();
    this.#options.freed?.();
  }
}
