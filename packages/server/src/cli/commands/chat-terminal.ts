import { createInterface, type Interface } from "node:readline";
import type { ToolState } from "@toolrack/core";
import type { TurnEnd, TurnEvent } from "../../chat/index.ts";
import type { Cli } from "../cli.ts";
import { formatDuration, oneLine, printable, shorten } from "../text.ts";

/** Reads the keys while a turn runs. */
export interface TurnKeys {
  /** Starts or resumes reading. */
  listen(): void;
  /** Frees the terminal, for example for a question. */
  release(): void;
}

/**
 * Reads Ctrl-C while a turn runs. The terminal is in raw mode, so Ctrl-C is a key that stops the turn and not the
 * program.
 */
export class StopKey implements TurnKeys {
  readonly #cli: Cli;
  readonly #onStop: () => void;
  #isListening = false;

  constructor(cli: Cli, onStop: () => void) {
    this.#cli = cli;
    this.#onStop = onStop;
  }

  listen(): void {
    const { stdin } = this.#cli.surroundings;
    if (this.#isListening || stdin.isTTY !== true) return;
    this.#isListening = true;
    stdin.setRawMode?.(true);
    stdin.on("data", this.#read);
    stdin.resume();
  }

  release(): void {
    if (!this.#isListening) return;
    const { stdin } = this.#cli.surroundings;
    this.#isListening = false;
    stdin.off("data", this.#read);
    stdin.setRawMode?.(false);
    stdin.pause();
  }

  readonly #read = (keys: Buffer | string): void => {
    if (String(keys).includes("\u0003")) this.#onStop();
  };
}

/**
 * Reads lines from the terminal as long as the program runs. Lines that are pasted or typed during an answer wait, and
 * are shown at the next prompt.
 */
export class LineReader implements TurnKeys {
  /** Called for Ctrl-C while no line is awaited. At the prompt, Ctrl-C ends the input. */
  onStop: (() => void) | undefined;
  readonly #cli: Cli;
  readonly #lines: string[] = [];
  #terminal: Interface | undefined;
  #waiting: ((line: string | undefined) => void) | undefined;
  /** An unfinished line from before the terminal was freed. */
  #begun = "";
  #history: string[] = [];
  #isEnded = false;

  constructor(cli: Cli) {
    this.#cli = cli;
  }

  /** Undefined at the end of the input. */
  async read(prompt: string): Promise<string | undefined> {
    const ahead = this.#lines.shift();
    if (ahead !== undefined) {
      this.#cli.surroundings.stderr.write(`${prompt}${ahead}\n`);
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
      input: this.#cli.surroundings.stdin,
      output: this.#cli.screen(() => this.#waiting !== undefined),
      terminal: true,
      history: [...this.#history],
    });
    this.#terminal = terminal;
    terminal.on("line", (line) => this.#addLine(line));
    terminal.on("history", (history) => {
      this.#history = history;
    });
    terminal.on("SIGINT", () => {
      if (this.#waiting === undefined) this.onStop?.();
      else terminal.close();
    });
    terminal.on("close", () => {
      if (this.#terminal !== terminal) return;
      this.#isEnded = true;
      this.#terminal = undefined;
      this.#addLine(undefined);
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

  /** `line` is undefined at the end of the input. */
  #addLine(line: string | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) waiting(line);
    else if (line !== undefined) this.#lines.push(line);
  }
}

const LONGEST = 120;

/** Prints a turn: the answer on standard output, one line per call on standard error. */
export class TurnPrinter {
  readonly #cli: Cli;
  readonly #labels = new Map<string, string>();
  #isInLine = false;
  #hasSpoken = false;
  #isNewRound = false;

  constructor(cli: Cli) {
    this.#cli = cli;
  }

  print(event: TurnEvent): void {
    if (event.type === "text" || event.type === "refusal") this.#text(event.text);
    else if (event.type === "call") {
      const { callId, displayName, arguments: written } = event;
      this.#labels.set(callId, shorten(`${displayName} ${written === "{}" ? "" : written}`, LONGEST));
      this.#isNewRound = true;
    } else if (event.type === "state") {
      this.#state(this.#labels.get(event.callId) ?? event.name, event.state);
    } else if (event.type === "loop" && event.verdict.action !== "none") {
      const { action, evidence = "" } = event.verdict;
      this.talk(this.#cli.styleTalk("yellow", `loop ${action}: ${oneLine(evidence)}`));
    } else if (event.type === "model" && event.instead !== undefined) {
      this.talk(`asking ${event.provider}/${event.model} instead: ${oneLine(event.instead)}`);
    } else if (event.type === "retry") {
      this.talk(`asking again in ${formatDuration(event.waitMs)}: ${oneLine(event.reason)}`);
    } else if (event.type === "progress") {
      this.#cli.status.set(`… ${event.update.message ?? event.update.progress}`);
    }
  }

  end({ reason, message }: TurnEnd): void {
    this.#cli.status.clear();
    if (reason === "stopped") this.talk("Stopped.");
    // The answer itself already says when a limit or the loop guard ended the turn.
    if (reason === "error") this.talk(`error: ${printable(message ?? "The model did not answer.")}`);
    this.#finishLine();
  }

  /** Prints a line of its own. */
  talk(text: string): void {
    this.#finishLine();
    this.#cli.talk(text);
  }

  #text(text: string): void {
    this.#cli.status.clear();
    const between = this.#isNewRound && this.#hasSpoken ? "\n" : "";
    this.#isNewRound = false;
    this.#hasSpoken = true;
    this.#cli.write(between + (this.#cli.surroundings.stdout.isTTY ? printable(text) : text));
    this.#isInLine = !text.endsWith("\n");
  }

  #state(label: string, state: ToolState): void {
    if (state.status === "running") {
      this.#finishLine();
      this.#cli.status.set(`▸ ${label}`);
    }
    if (state.status !== "completed" && state.status !== "error") return;
    this.#cli.status.clear();
    const took = formatDuration(state.time.end - state.time.start);
    if (state.status === "completed") this.talk(this.#cli.styleTalk("dim", `✓ ${label}  ${took}`));
    else {
      const [reason = ""] = state.error.split("\n");
      this.talk(`${this.#cli.styleTalk("red", `✗ ${label}`)}  ${shorten(reason, LONGEST)}`);
    }
  }

  #finishLine(): void {
    if (this.#isInLine) this.#cli.write("\n");
    this.#isInLine = false;
  }
}
