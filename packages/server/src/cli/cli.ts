import { existsSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { type Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { styleText } from "node:util";
import { shellQuote } from "../helpers/values.ts";
import { exitCodes } from "./cli-error.ts";
import { clipDisplay, oneLine, renderTable } from "./text.ts";

export interface GlobalOptions {
  /** The value of `--dir` as the user wrote it. */
  readonly dir?: string;
  readonly json?: boolean;
}

export type InputStream = Readable & {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
};

export type OutputStream = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** The environment of a command: that of the process, or a test's. */
export interface Surroundings {
  readonly cwd: string;
  /** Makes a folder the working directory of the process. Tests, which share one process, have none. */
  readonly chdir?: (folder: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** The command that starts this program from any folder, without a shell. */
  readonly program: readonly string[];
}

type Style = Parameters<typeof styleText>[0];

/** Given to every command: its surroundings and the global options. */
export class Cli {
  readonly directory: string | undefined;
  readonly json: boolean;
  readonly surroundings: Surroundings;
  readonly status: StatusLine;
  /** Exit code after the command has ended without an error. */
  exitCode: number = exitCodes.ok;
  /** How long tools may take to clean up before the program ends without them, in milliseconds. */
  patience = 6_000;
  /** Called before every message: whoever gathers lines for standard error writes them first, which keeps the order. */
  beforeTalk: () => void = () => {};
  readonly #styles = new Map<OutputStream, Map<string, readonly [string, string]>>();
  #interrupt: (() => void) | undefined;

  constructor({ dir, json = false }: GlobalOptions, surroundings: Surroundings) {
    this.directory = dir;
    this.json = json;
    this.surroundings = surroundings;
    this.status = new StatusLine(surroundings.stderr);
  }

  get cwd(): string {
    return this.surroundings.cwd;
  }

  /** Prints data to standard output. */
  print(words: string): void {
    this.write(words.endsWith("\n") ? words : `${words}\n`);
  }

  /** Prints without adding a line end. */
  write(words: string): void {
    this.surroundings.stdout.write(words);
  }

  /** Prints the document with `--json`; otherwise calls `forPeople`. */
  answer(document: unknown, forPeople: () => void): void {
    if (this.json) this.print(JSON.stringify(document, bigIntAsText, 2));
    else forPeople();
  }

  /** Prints one value as one line. */
  printJsonLine(value: unknown): void {
    this.print(JSON.stringify(value, bigIntAsText));
  }

  /** Prints a table, every cell on one line. The flexible column is shortened on a narrow terminal. */
  table(
    head: readonly string[],
    rows: readonly (readonly string[])[],
    { flexible = head.length - 1, style = "bold" }: { flexible?: number; style?: Style } = {},
  ): void {
    const cells = rows.map((row) => row.map(oneLine));
    const styleHead = (words: string) => this.style(style, words);
    this.print(renderTable(cells, { head, columns: this.columns, flexible, styleHead }).join("\n"));
  }

  /** Answers with a list: the document for programs, and for people a table, or `none` where nothing is in it. */
  list(
    document: unknown,
    head: readonly string[],
    rows: readonly (readonly string[])[],
    none: string,
    options?: { flexible?: number },
  ): void {
    this.answer(document, () => (rows.length === 0 ? this.talk(none) : this.table(head, rows, options)));
  }

  /** Prints messages to standard error. */
  talk(words: string): void {
    this.beforeTalk();
    this.status.above(`${words}\n`);
  }

  /** Styles text for standard output. Unstyled when that is no terminal or colours are off. */
  style(style: Style, words: string): string {
    return this.#styled(style, words, this.surroundings.stdout);
  }

  /** Styles text for standard error. */
  styleTalk(style: Style, words: string): string {
    return this.#styled(style, words, this.surroundings.stderr);
  }

  /**
   * Adds the escape sequences of a style. They are looked up once for each style, because `styleText` takes longer
   * than a small tool call.
   */
  #styled(style: Style, words: string, stream: OutputStream): string {
    // Text that has colours already goes through Node's `styleText`, which restores the outer style after them.
    if (words.includes("\u001b")) return styleText(style, words, { stream });
    const known = this.#styles.get(stream) ?? new Map<string, readonly [string, string]>();
    this.#styles.set(stream, known);
    const key = String(style);
    const [before, after] = known.get(key) ?? aroundText(style, stream);
    known.set(key, [before, after]);
    return before + words + after;
  }

  /** Width of the terminal; undefined when the output is no terminal, and then nothing is clipped. */
  get columns(): number | undefined {
    const { isTTY, columns } = this.surroundings.stdout;
    // Some terminals report 0.
    return isTTY ? columns || undefined : undefined;
  }

  /** Whether a person at a terminal can be asked. */
  get interactive(): boolean {
    return this.surroundings.stdin.isTTY === true && this.surroundings.stderr.isTTY === true;
  }

  readInput(): Promise<string> {
    return text(this.surroundings.stdin);
  }

  get prompt(): { readonly input: InputStream; readonly output: Writable } {
    return { input: this.surroundings.stdin, output: this.screen() };
  }

  /** Standard error for code that draws on it, with a usable width even if the terminal reports 0. */
  screen(isShown: () => boolean = () => true): Writable {
    const { stderr } = this.surroundings;
    const write = (chunk: unknown, _encoding: unknown, done: () => void) => {
      if (isShown()) stderr.write(String(chunk));
      done();
    };
    return Object.defineProperties(new Writable({ write, decodeStrings: false }), {
      columns: { get: () => stderr.columns || 80 },
      rows: { get: () => stderr.rows || 24 },
    });
  }

  /** From now on Ctrl-C calls `handler` instead of ending the process. */
  onInterrupt(handler: () => void): void {
    this.#interrupt = handler;
  }

  /** Resolves at Ctrl-C, the normal end of a command that runs until stopped. */
  untilInterrupt(): Promise<void> {
    return new Promise((resolve) => this.onInterrupt(resolve));
  }

  /** Passes Ctrl-C to the command. Returns whether the command has a handler for it. */
  interrupt(): boolean {
    this.#interrupt?.();
    return this.#interrupt !== undefined;
  }

  /** A Toolrack command as the user would type it here. */
  commandLine(words: string): string {
    const dir = this.directory === undefined ? "" : ` --dir ${shellQuote(this.directory)}`;
    return `${this.programWords} ${words}${dir}`;
  }

  /** The words with which the user starts this program here. */
  get programWords(): string {
    return programWords(this.surroundings);
  }
}

const CLEAR = "\r\u001b[2K";

/** A line at the bottom of standard error that is overwritten; on a terminal only. */
class StatusLine {
  readonly #stderr: OutputStream;
  #shown = "";

  constructor(stderr: OutputStream) {
    this.#stderr = stderr;
  }

  set(words: string): void {
    if (!this.#stderr.isTTY) return;
    // A full line would wrap and could not be cleared.
    this.#shown = clipDisplay(oneLine(words), (this.#stderr.columns || 80) - 1);
    this.#stderr.write(CLEAR + this.#shown);
  }

  clear(): void {
    if (this.#shown === "") return;
    this.#shown = "";
    this.#stderr.write(CLEAR);
  }

  /** Writes permanent text above the line. */
  above(words: string): void {
    const line = this.#shown;
    this.#stderr.write(line === "" ? words : CLEAR + words + line);
  }
}

/** The codes before and after a text that is styled for this stream; empty where nothing is coloured. */
function aroundText(style: Style, stream: OutputStream): readonly [string, string] {
  const [before = "", after = ""] = styleText(style, "|", { stream }).split("|");
  return [before, after];
}

function bigIntAsText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/**
 * What a person types to start this program in the current folder. `npx toolrack` is offered only where npx finds an
 * installed package: elsewhere npx would fetch whatever package has that name. `own` is a folder of this program.
 */
export function programWords(
  { cwd, env, program }: Pick<Surroundings, "cwd" | "env" | "program">,
  own = import.meta.dirname,
): string {
  const isUnderNpm = env.npm_lifecycle_event !== undefined;
  // npm runs scripts in the package's folder, and the PATH that it sets for a script ends with the script.
  const directory = isUnderNpm ? (env.INIT_CWD ?? cwd) : cwd;
  const isOnPath = (env.PATH ?? env.Path ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "" && !(isUnderNpm && /node_modules[\\/]\.bin[\\/]?$/.test(folder)))
    .some(holdsProgram);
  if (isOnPath) return "toolrack";
  if (nearestInstall(directory) !== undefined) return "npx toolrack";
  const install = nearestInstall(own);
  return install === undefined
    ? program.map(shellQuote).join(" ")
    : `npx --prefix ${shellQuote(install)} toolrack`;
}

/**
 * The command that starts this program from any folder, without a shell: the same Node, its options, and the
 * file that it runs. Debugger options are left out, because two programs cannot share the debugger's port.
 */
export function ownProgram(): string[] {
  const options = process.execArgv.filter(
    (option) => !/^--(inspect|debug|watch|cpu-prof|heap-prof)/.test(option),
  );
  return [process.execPath, ...options, resolve(process.argv[1] ?? "")];
}

/** The nearest folder upwards in which the program is installed as a package. */
function nearestInstall(from: string): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    if (holdsProgram(join(folder, "node_modules", ".bin"))) return folder;
    if (folder === dirname(folder)) return undefined;
  }
}

function holdsProgram(folder: string): boolean {
  return ["toolrack", "toolrack.cmd"].some((name) => existsSync(join(folder, name)));
}
