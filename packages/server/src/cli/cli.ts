import { styleText } from "node:util";
import type { ToolInfo } from "@toolrack/core";
import { shellQuote } from "../helpers/values.ts";
import { programWords } from "./program-words.ts";
import { StatusLine } from "./status-line.ts";

export interface GlobalOptions {
  /** As the user wrote it. */
  readonly dir?: string;
  readonly json?: boolean;
}

type Style = Parameters<typeof styleText>[0];

/** What a command is given: the two streams, and what was said on the command line for all commands. */
export class Cli {
  readonly directory: string | undefined;
  readonly json: boolean;
  readonly status = new StatusLine();
  /** How long tools may take to clean up, in milliseconds, before the program ends without waiting for them. */
  patience = 6_000;
  readonly #write: (text: string) => void;
  #interrupt: (() => void) | undefined;

  constructor({ dir, json = false }: GlobalOptions, write: (text: string) => void) {
    this.directory = dir;
    this.json = json;
    this.#write = write;
  }

  /** Data: standard output. */
  print(text: string): void {
    this.#write(text.endsWith("\n") ? text : `${text}\n`);
  }

  /** The same, exactly as it is. */
  write(text: string): void {
    this.#write(text);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value, bigIntAsText, 2));
  }

  /** One value on one line, for streams of them. */
  printJsonLine(value: unknown): void {
    this.print(JSON.stringify(value, bigIntAsText));
  }

  /** Talk: standard error. */
  talk(text: string): void {
    this.status.above(`${text}\n`);
  }

  /** For text that goes to standard output. Plain when that is no terminal, or colours are not wanted. */
  style(style: Style, text: string): string {
    return styleText(style, text, { stream: process.stdout });
  }

  /** For text that goes to standard error. */
  styleTalk(style: Style, text: string): string {
    return styleText(style, text, { stream: process.stderr });
  }

  /** Width of the terminal; unknown when the output goes elsewhere, and then nothing is clipped. */
  get columns(): number | undefined {
    // Some terminals do not know, and say 0.
    return process.stdout.isTTY ? process.stdout.columns || undefined : undefined;
  }

  /** Whether a person can be asked. */
  get interactive(): boolean {
    return process.stdin.isTTY === true && process.stderr.isTTY === true;
  }

  /** From now on Ctrl-C calls this instead of ending the process. */
  onInterrupt(handler: () => void): void {
    this.#interrupt = handler;
  }

  /** Says whether a command took care of it. */
  interrupt(): boolean {
    this.#interrupt?.();
    return this.#interrupt !== undefined;
  }

  /** A command of ours as the user would type it here. */
  commandLine(words: string): string {
    const dir = this.directory === undefined ? "" : ` --dir ${shellQuote(this.directory)}`;
    return `${programWords()} ${words}${dir}`;
  }
}

/** What people call the tool. */
export function labelOf({ name, displayName, title }: ToolInfo): string {
  return displayName ?? title ?? name;
}

function bigIntAsText(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
