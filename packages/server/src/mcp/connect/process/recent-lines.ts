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
    // The line is masked before it is cut to its final length, because a secret that is cut in half would not be found.
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

// The line that says why a program failed, in what it printed. The last line is rarely that line: Node ends with its version,
// npm with the path of a log, Go with a stack, Docker with a hint at its help.

/** How much a line explains. Of several lines with the highest rank, the last one counts. */
type Rank = 0 | 1 | 2 | 3;

/** The longest explanation that is shown, in characters. */
const LONGEST_EXPLANATION = 400;
/** How many lines a message may go on for. */
const LONGEST_MESSAGE = 6;

// An escape sequence that colours text in a terminal.
// biome-ignore lint/suspicious/noControlCharactersInRegex: Escape sequences begin with a control character.
const colour = /\u001b\[[0-9;]*[A-Za-z]/g;
/** The frame around a nested error: bars of a Python exception group, arrows of uv, brackets of a Node cause. */
const frameStart = /^[\s|+│├╰─▶×✖✘❌]*(?:\[cause\]: |\[errors\]: \[?)?/u;

/** Lines that never say why: stacks, source excerpts, versions, warnings, hints at logs and help, separators. */
const noise = [
  /^\s*at (?:async )?[\w.<[(/]/, // JavaScript, Java and .NET
  /^\s*File ".*", line \d+/,
  /^\s*(?:Traceback \(most recent|Exception Group Traceback|During handling of the above|The above exception)/,
  /^(?:goroutine \d+ \[|\[signal SIG|created by |exit status \d+$|\t)/,
  /^\s*(?:stack backtrace:|note: run with `RUST_BACKTRACE|\d+: 0x[0-9a-f]+|-+ Native stack trace)/i,
  /^\s*(?:throw |raise |return |const |let |import |from \S+ import |await )/,
  /^\s*[\^~]+\s*$/,
  /^\s*[\p{P}\p{S}\s]*$/u,
  /^(?:node:|file:\/\/|\/|[A-Z]:\\)\S*:\d+(?::\d+)?$/, // The place of an error, on a line of its own.
  /^Node\.js v\d/,
  /^\s*(?:code|errno|syscall|path|requireStack|hostname|port|address|url): /,
  /^- \S*[\\/]/, // The require stack of Node.
  /^Require stack:/,
  /\b(?:deprecat|experimental)\w*warning\b|^\(node:\d+\)|^\(Use `\S+ --trace-/i,
  /^(?:npm|pnpm|yarn) (?:warn|notice)\b|^warning[: ]|\bWARN(?:ING)?\b/i,
  /A complete log of this run|(?:See|Run) '\S+.*--help'|for more (?:information|help)|For further information/i,
  /^\[notice\]|^(?:Installed|Resolved|Downloaded|Prepared|Downloading|Built) /,
] as const;

/** Lines that name a fault in a form that only faults have. */
const faults = [
  /(?:^|[\s:.(\]>])[\w$.]*(?:Error|Exception)(?: \[[\w-]+\])?(?: \([\w ]+\))?: \S/,
  /^[\w.]*(?:Error|Exception|Interrupt)$/,
  /\((?:[A-Z]\w*::)*[A-Z]\w*Error\)$/, // Ruby
  /^(?:panic|fatal|error|fatal error|FATAL ERROR|fatal: .*|\S+: (?:fatal )?error)(?:\[\w+\])?: \S/i,
  /^thread '.*' .*panicked at /,
  /^(?:Because |ERR_[A-Z0-9_]+\b|\[?Unhandled)/,
  /(?:Cannot connect to the Docker daemon|docker daemon|response from daemon|error during connect)/i,
  /(?:command not found|: not found|cannot execute|No such file or directory|Permission denied)$/i,
  /error while loading shared libraries|version `\S+' not found|No module named|can't open file/,
  /\blevel"?\s*[=:]\s*"?(?:error|fatal|panic|critical|dpanic)\b/i,
] as const;

/** Faults in a form that says little: what it was about stands on another line. */
const generic =
  /^(?:\S+: )?(?:Exception ?Group|BaseExceptionGroup|(?:Type)?Error: fetch failed$|AggregateError|Error: Command failed|.*Lifecycle script|.*command failed$|.*command sh -c|subprocess\.CalledProcessError|SystemExit|Caused by: (?:client error|Request failed))/;

const hints =
  /\b(?:errors?|fatal|critical|panic|fail(?:ed|ure|s)?|cannot|can't|could ?n[o']t|unable|denied|refused|not found|no such|missing|required?|must|not set|unset|undefined|invalid|unsupported|unauthorized|forbidden|expired|timed out|out of memory|in use|not exist|please (?:set|provide|specify|install)|not provided|not available|not running|is no[tn]?)\b/i;

/** What a program says when it gives up. The reason stands before it. */
const goodbye =
  /^(?:(?:the )?(?:mcp )?server (?:failed|crashed|error|exited|stopped|shut)|failed to (?:start|run|initiali[sz]e)(?: the)?(?: mcp)?(?: server)?\W*$|exiting|shutting down|aborted|process exited|fatal error\W*$|error\W*$)/i;

const npmLine = /^npm (?:error|ERR!) ?/;
/** Lines of npm that give no reason, without their `npm error`: the code, details, and the end of every error. */
const npmDetail =
  /^(?:\d{3}\s*$|(?:code|errno|syscall|path|dest|workspace|location|command|signal|enoent|gyp|cwd|stack|node|cmd)\b|.*(?:Note that you can also|tarball, folder, http url|complete log)|\s*at |\s*$)/i;

/**
 * The line of `lines` that says why the program failed, with what belongs to it on the following lines. Without such a
 * line, the last one that is not a stack or a version. Undefined when there is none.
 */
export function failureLine(lines: readonly string[]): string | undefined {
  const texts = lines.map((line) => line.replace(colour, "").trimEnd());
  const npm = npmReason(texts);
  let best: { rank: Rank; at: number } | undefined;
  texts.forEach((text, at) => {
    const rank = at === npm ? (generic.test(text) ? 2 : 3) : rankOf(text);
    if (rank > 0 && rank >= (best?.rank ?? 0)) best = { rank, at };
  });
  if (best === undefined) return undefined;
  const whole = withRest(texts, best.at).replace(/\s+/g, " ");
  const code = best.at === npm ? npmCode(texts, whole) : "";
  return shortened(code + whole, LONGEST_EXPLANATION);
}

/** Whether the line is part of a stack, a warning, a version or the like, which never say why. */
function isNoise(text: string, bare = text.replace(frameStart, "")): boolean {
  return noise.some((form) => form.test(text) || form.test(bare));
}

function rankOf(text: string): Rank {
  const bare = text.replace(frameStart, "");
  if (npmLine.test(text) || isNoise(text, bare)) return 0;
  if (faults.some((form) => form.test(bare)) && !goodbye.test(bare)) return generic.test(bare) ? 2 : 3;
  return hints.test(bare) && !goodbye.test(bare) ? 2 : 1;
}

/** The index of the first line of npm that says what went wrong. */
function npmReason(texts: readonly string[]): number {
  return texts.findIndex((text) => npmLine.test(text) && !npmDetail.test(text.replace(npmLine, "")));
}

/** The code that npm gave its error, where the reason does not name it. */
function npmCode(texts: readonly string[], reason: string): string {
  const [code] = texts.flatMap(
    (text) => /^npm (?:error|ERR!) code ([A-Z][A-Z0-9_]{2,})$/.exec(text)?.[1] ?? [],
  );
  return code === undefined || reason.includes(code.replace(/^E(?=\d)/, "")) ? "" : `${code}: `;
}

/**
 * The message that begins at a line. It goes on until a stack begins, behind a colon, at the place of a Rust panic, and
 * in the lines that a program has wrapped; of the causes below it, the last one is added.
 */
function withRest(texts: readonly string[], at: number): string {
  const first = texts[at] ?? "";
  const rest = texts.slice(at + 1, at + 1 + LONGEST_MESSAGE);
  const bare = first.replace(frameStart, "");
  if (npmLine.test(first)) return bare;
  const stack = rest.findIndex((text) => /^\s*at /.test(text));
  const end = rest.findIndex((text) => text === "" || /^Require stack:|^\s*at |^npm /.test(text));
  const block = end === -1 ? rest : rest.slice(0, end);
  // uv wraps what it says, and indents the rest of the sentence.
  if (/^[\s]*[╰├]/.test(first))
    return [bare, ...takeWhile(block, (text) => /^\s{4,}\w/.test(text))].join(" ");
  if (/panicked at .*:\d+:$/.test(bare)) return [bare, ...block.slice(0, 1)].join(" ");
  const causes = texts.slice(at + 1).filter((text) => /^\s*Caused by: \S/.test(text));
  // anyhow of Rust writes the cause on the next line.
  const heading = texts.indexOf("Caused by:", at);
  const cause = heading === -1 ? causes.at(-1) : `Caused by: ${texts[heading + 1]}`;
  if (cause !== undefined) return `${bare} ${cause.trim()}`;
  if (/[:[]$|validation errors? for \S+$/.test(bare)) return [bare, ...block].join(" ");
  if (stack > 0 && stack === end && /Error/.test(bare)) return [bare, ...block].join(" ");
  return bare;
}

function takeWhile(texts: readonly string[], isTaken: (text: string) => boolean): readonly string[] {
  const end = texts.findIndex((text) => !isTaken(text));
  return end === -1 ? texts : texts.slice(0, end);
}
