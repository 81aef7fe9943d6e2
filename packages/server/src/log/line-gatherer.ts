import { flushAtEnd } from "./flush-at-end.ts";

/** How long a line waits for others to be written with it, in milliseconds. */
const GATHER = 10;

/**
 * Lines that are written together: each writing is a system call, and costs more than a small call of a tool. What still
 * waits when the process ends, for whatever reason but SIGKILL, is written then.
 */
export class LineGatherer {
  readonly #write: (lines: readonly string[]) => void;
  readonly #forget: () => void;
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** `write` must not throw. */
  constructor(write: (lines: readonly string[]) => void) {
    this.#write = write;
    this.#forget = flushAtEnd(this);
  }

  /** With its end. */
  add(line: string): void {
    this.#waiting.push(line);
    this.#timer ??= setTimeout(() => this.flush(), GATHER).unref();
  }

  /** Writes what is waiting, now. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lines = this.#waiting;
    if (lines.length === 0) return;
    this.#waiting = [];
    this.#write(lines);
  }

  close(): void {
    this.flush();
    this.#forget();
  }
}
