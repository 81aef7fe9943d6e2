/** One line that a server wrote, or that was noted about it. */
export interface LogLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** `stderr`: the server's own words. `log`: an MCP log message of it. `rack`: what was done with the server. */
  readonly from: "stderr" | "log" | "rack";
  readonly text: string;
}

const MOST_LINES = 500;
const LONGEST_LINE = 2_000;
/** In a message, which has several lines and may stand in one answer several times. */
const LONGEST_WORDS = 300;

/** What a program prints of its own inside when it is out of memory: it hides the line before it that says so. */
const nativeFrame = /^\s*(?:\d+: 0x[0-9a-f]+ |-+ Native stack trace -+$)/i;

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
    // A flood on standard error must not be kept whole. Masked before it is cut: half a secret would not be found.
    const line = this.#mask(text.slice(0, 2 * LONGEST_LINE));
    this.#lines.push({ at: Date.now(), from, text: shortened(line, LONGEST_LINE) });
    if (this.#lines.length > this.#size) this.#lines.shift();
  }

  /** A piece of standard error, which need not end where a line ends. */
  addPiece(piece: string): void {
    const lines = (this.#rest + piece).split(/\r?\n/);
    const rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim() !== "") this.add("stderr", line);
    this.#rest = rest.slice(0, 2 * LONGEST_LINE);
  }

  /** A last line without an end is a line too once nothing follows. */
  flush(): void {
    if (this.#rest.trim() !== "") this.add("stderr", this.#rest);
    this.#rest = "";
  }

  all(): readonly LogLine[] {
    return [...this.#lines];
  }

  /** The last words of the server itself since a moment and before another, short enough for messages. */
  tail(count: number, since = 0, before = Number.POSITIVE_INFINITY): string[] {
    const said = this.#lines.filter(
      ({ from, at, text }) => from === "stderr" && at >= since && at < before && !nativeFrame.test(text),
    );
    return said.slice(-count).map(({ text }) => shortened(text, LONGEST_WORDS));
  }
}

function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
