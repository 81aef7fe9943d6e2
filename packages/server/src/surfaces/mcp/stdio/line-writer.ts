import type { Writable } from "node:stream";
import { Outlet } from "../outlet.ts";

export interface WriteWatcher {
  /** The client has taken in what was written. */
  freed(): void;
  /** The client has left so much unread that nothing more is kept for it. Called once. */
  overflowed(unread: number): void;
}

/** How much is gathered in one turn of the loop before what can wait does, in characters. */
const SOME = 64 * 1024;
/** How much a client may leave unread, in characters, beside what is written next. */
const MOST_UNREAD = 64 * 1024 * 1024;

/** Writes lines. Those that come in one turn of the loop are written in one go. */
export class LineWriter {
  /** What can wait is to wait for this. */
  readonly outlet = new Outlet(() => this.#output.writableNeedDrain || this.#unwritten.length > SOME);
  readonly #output: Writable;
  readonly #watcher: WriteWatcher;
  readonly #flush = () => this.flush();
  #unwritten = "";
  /** News that wait for a client that does not read just now. */
  readonly #news = new Set<string>();
  #isOverflowed = false;

  constructor(output: Writable, watcher: WriteWatcher) {
    this.#output = output;
    this.#watcher = watcher;
    output.on("drain", () => this.#freed());
  }

  /** In characters. */
  get unread(): number {
    return this.#output.writableLength + this.#unwritten.length;
  }

  write(line: string): void {
    if (this.#isOverflowed) return;
    if (this.#unwritten === "") setImmediate(this.#flush);
    this.#unwritten += `${line}\n`;
  }

  /** Writes what says no more when it is said twice: a client that does not read just now is told it once. */
  writeNews(line: string): void {
    if (!this.outlet.isFull) {
      this.write(line);
      return;
    }
    // In the place of the last: what was answered in between may be older.
    this.#news.delete(line);
    this.#news.add(line);
  }

  /** Hands on what was gathered. */
  flush(): void {
    if (this.#unwritten === "") return;
    const text = this.#unwritten;
    const { writableLength } = this.#output;
    this.#unwritten = "";
    if (writableLength > MOST_UNREAD) {
      this.#isOverflowed = true;
      this.#news.clear();
      this.#watcher.overflowed(writableLength);
    } else if (this.#output.write(text)) this.#freed();
  }

  #freed(): void {
    for (const line of this.#news) this.write(line);
    this.#news.clear();
    this.outlet.freed();
    this.#watcher.freed();
  }
}
