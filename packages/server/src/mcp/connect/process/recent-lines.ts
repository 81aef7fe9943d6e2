import { failureLine, isNoise } from "./failure-line.ts";

/** A line that a server wrote, or that the rack wrote about the server. */
export interface LogLine {
  /** When the line was added, in milliseconds since the epoch. */
  readonly at: number;
  /**
   * `stderr`: what the server's process printed, on standard error or as a line of standard output that is no
   * message. `log`: an MCP log message of the server. `rack`: a line that the rack wrote.
   */
  readonly from: "stderr" | "log" | "rack";
  readonly text: string;
}

const MOST_LINES = 500;
const LONGEST_LINE = 2_000;
/** An error message shows several lines, each cut to this many characters. */
const LONGEST_SHOWN_LINE = 300;

/** Lines that were printed longer than this before the last one, in milliseconds, do not say why a server ended. */
const LONGEST_ENDING = 10_000;

/** The last lines about a server, with secrets masked before they are kept. */
export class RecentLines {
  readonly #lines: LogLine[] = [];
  readonly #size: number;
  readonly #mask: (text: string) => string;
  #rest = "";

  constructor(mask: (text: string) => string, size = MOST_LINES) {
    this.#mask = mask;
    this.#size = size;
  }

  add(from: LogLine["from"], text: string): void {
    // The line is masked before it is cut to its final length, because a secret that is cut in half would not
    // be found.
    const line = this.#mask(text.slice(0, 2 * LONGEST_LINE));
    this.#lines.push({ at: Date.now(), from, text: shortened(line, LONGEST_LINE) });
    if (this.#lines.length > this.#size) this.#lines.shift();
  }

  /** Adds a piece of standard error. The piece may end in the middle of a line. */
  addPiece(piece: string): void {
    const lines = (this.#rest + piece).split(/\r?\n/);
    const rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") this.add("stderr", line);
    this.#rest = rest.slice(0, 2 * LONGEST_LINE);
  }

  /** Adds a last line that has no line break. */
  flush(): void {
    if (this.#rest.trim() !== "") this.add("stderr", this.#rest);
    this.#rest = "";
  }

  all(): readonly LogLine[] {
    return [...this.#lines];
  }

  /**
   * The last `count` lines that the server printed from the time `since`, shortened for error messages. Stacks are left
   * out: they would push the line that names the reason out.
   */
  tail(count: number, since = 0): string[] {
    const lines = this.#printedSince(since).filter(({ text }) => !isNoise(text));
    return lines.slice(-count).map(({ text }) => shortened(text, LONGEST_SHOWN_LINE));
  }

  /** What the server printed from the time `since` that says why it failed. Undefined when it printed nothing. */
  explanation(since: number): string | undefined {
    const printed = this.#printedSince(since);
    const end = printed.at(-1)?.at ?? 0;
    return failureLine(printed.filter(({ at }) => at >= end - LONGEST_ENDING).map(({ text }) => text));
  }

  #printedSince(since: number): LogLine[] {
    return this.#lines.filter(({ from, at }) => from === "stderr" && at >= since);
  }
}

function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
