import { createInterface, type Interface } from "node:readline";
import { screen } from "../screen.ts";
import type { TurnKeys } from "./turn-keys.ts";

/**
 * Reads lines from the terminal for as long as the program runs. What is pasted, or typed while an answer comes, waits
 * for its turn; it is shown then.
 */
export class LineReader implements TurnKeys {
  /** What Ctrl-C does while no line is waited for. At the prompt it ends the input. */
  onStop: (() => void) | undefined;
  readonly #lines: string[] = [];
  readonly #screen = screen(() => this.#waiting !== undefined);
  #terminal: Interface | undefined;
  #waiting: ((line: string | undefined) => void) | undefined;
  /** A line that was begun when the terminal was left to others. */
  #begun = "";
  #history: string[] = [];
  #isEnded = false;

  /** Undefined when there are no more. */
  async read(prompt: string): Promise<string | undefined> {
    const ahead = this.#lines.shift();
    if (ahead !== undefined) {
      process.stderr.write(`${prompt}${ahead}\n`);
      return ahead;
    }
    this.listen();
    const terminal = this.#terminal;
    if (terminal === undefined) return undefined;
    return new Promise((resolve) => {
      this.#waiting = resolve;
      terminal.setPrompt(prompt);
      terminal.prompt(true);
    });
  }

  listen(): void {
    if (this.#terminal !== undefined || this.#isEnded) return;
    const terminal = createInterface({
      input: process.stdin,
      output: this.#screen,
      terminal: true,
      history: [...this.#history],
    });
    this.#terminal = terminal;
    terminal.on("line", (line) => this.#hear(line));
    terminal.on("history", (history) => {
      this.#history = history;
    });
    terminal.on("SIGINT", () => {
      if (this.#waiting === undefined) this.onStop?.();
      else terminal.close();
    });
    terminal.on("close", () => {
      if (this.#terminal === terminal) this.#end();
    });
    terminal.write(this.#begun);
    this.#begun = "";
  }

  release(): void {
    const terminal = this.#terminal;
    this.#terminal = undefined;
    this.#begun = terminal?.line ?? "";
    terminal?.close();
  }

  close(): void {
    this.#isEnded = true;
    this.release();
  }

  #hear(line: string): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting === undefined) this.#lines.push(line);
    else waiting(line);
  }

  #end(): void {
    this.#isEnded = true;
    this.#terminal = undefined;
    this.#waiting?.(undefined);
    this.#waiting = undefined;
  }
}
