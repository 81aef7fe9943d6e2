import { type Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { styleText } from "node:util";
import { shellQuote } from "../helpers/values.ts";
import { exitCodes } from "./cli-error.ts";
import { programWords } from "./program-words.ts";
import { clipDisplay, oneLine, renderTable } from "./text.ts";

export interface GlobalOptions {
  /** As the user wrote it. */
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

/** Where a command runs: what the process has, or what a test gives it instead. */
export interface Surroundings {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** The words that start this program again, from any folder and without a shell. */
  readonly program: readonly string[];
}

type Style = Parameters<typeof styleText>[0];

/** What a command is given: its surroundings, and what was said on the command line for all commands. */
export class Cli {
  readonly directory: string | undefined;
  readonly json: boolean;
  readonly surroundings: Surroundings;
  readonly status: StatusLine;
  /** What the program ends with when the command has done its work. */
  exitCode: number = exitCodes.ok;
  /** How long tools may take to clean up, in milliseconds, before the program ends without waiting for them. */
  patience = 6_000;
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

  /** Data: standard output. */
  print(words: string): void {
    this.write(words.endsWith("\n") ? words : `${words}\n`);
  }

  /** The same, exactly as it is. */
  write(words: string): void {
    this.surroundings.stdout.write(words);
  }

  /** The answer of a command: a document for programs with `--json`, and otherwise whatever people are told. */
  answer(document: unknown, forPeople: () => void): void {
    if (this.json) this.print(JSON.stringify(document, bigIntAsText, 2));
    else forPeople();
  }

  /** One value on one line, for streams of them. */
  printJsonLine(value: unknown): void {
    this.print(JSON.stringify(value, bigIntAsText));
  }

  /** Prints a table, every cell on one line. The flexible column gives way on a narrow terminal. */
  table(
    head: readonly string[],
    rows: readonly (readonly string[])[],
    { flexible = head.length - 1, style = "bold" }: { flexible?: number; style?: Style } = {},
  ): void {
    const cells = rows.map((row) => row.map(oneLine));
    const styleHead = (words: string) => this.style(style, words);
    this.print(renderTable(cells, { head, columns: this.columns, flexible, styleHead }).join("\n"));
  }

  /** Talk: standard error. */
  talk(words: string): void {
    this.status.above(`${words}\n`);
  }

  /** For text that goes to standard output. Plain when that is no terminal, or colours are not wanted. */
  style(style: Style, words: string): string {
    return styleText(style, words, { stream: this.surroundings.stdout });
  }

  /** For text that goes to standard error. */
  styleTalk(style: Style, words: string): string {
    return styleText(style, words, { stream: this.surroundings.stderr });
  }

  /** Width of the terminal; unknown when the output goes elsewhere, and then nothing is clipped. */
  get columns(): number | undefined {
    const { isTTY, columns } = this.surroundings.stdout;
    // Some terminals do not know, and say 0.
    return isTTY ? columns || undefined : undefined;
  }

  /** Whether a person can be asked. */
  get interactive(): boolean {
    return this.surroundings.stdin.isTTY === true && this.surroundings.stderr.isTTY === true;
  }

  /** All of standard input. */
  readInput(): Promise<string> {
    return text(this.surroundings.stdin);
  }

  /** The streams for a question to the person at the terminal. */
  get prompt(): { readonly input: InputStream; readonly output: Writable } {
    return { input: this.surroundings.stdin, output: this.screen() };
  }

  /** Standard error for what draws on it: of a known width, also on terminals that say 0. */
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

  /** From now on Ctrl-C calls this instead of ending the process. */
  onInterrupt(handler: () => void): void {
    this.#interrupt = handler;
  }

  /** Resolves at Ctrl-C, which is how a command that goes on for ever ends, and no failure. */
  untilInterrupt(): Promise<void> {
    return new Promise((resolve) => this.onInterrupt(resolve));
  }

  /** Returns whether a command took care of it. */
  interrupt(): boolean {
    this.#interrupt?.();
    return this.#interrupt !== undefined;
  }

  /** A command of ours as the user would type it here. */
  commandLine(words: string): string {
    const dir = this.directory === undefined ? "" : ` --dir ${shellQuote(this.directory)}`;
    return `${this.programWords} ${words}${dir}`;
  }

  /** What the user types to start this program here. */
  get programWords(): string {
    return programWords(this.surroundings);
  }
}

const CLEAR = "\r\u001b[2K";

/** One line at the bottom of standard error that is written over and over, on a terminal only. */
class StatusLine {
  readonly #stderr: OutputStream;
  #shown = "";

  constructor(stderr: OutputStream) {
    this.#stderr = stderr;
  }

  set(words: string): void {
    if (!this.#stderr.isTTY) return;
    // A full line would wrap, and what wrapped could not be cleared.
    this.#shown = clipDisplay(oneLine(words), (this.#stderr.columns || 80) - 1);
    this.#stderr.write(CLEAR + this.#shown);
  }

  clear(): void {
    if (this.#shown === "") return;
    this.#shown = "";
    this.#stderr.write(CLEAR);
  }

  /** Writes something for good, and the line again below it. */
  above(words: string): void {
    const line = this.#shown;
    this.#stderr.write(line === "" ? words : CLEAR + words + line);
  }
}

function bigIntAsText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
