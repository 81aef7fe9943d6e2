import type { ProgressUpdate, RackEvent } from "@toolrack/core";
import type { Cli } from "../cli.ts";
import { formatDuration } from "../text/duration.ts";

/** Calls that end sooner show nothing. */
const QUIET = 300;
const EVERY = 100;

/** Shows on a terminal what a call is at: which tool, for how long, and what it says of its progress. */
export class ProgressLine {
  readonly #cli: Cli;
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #tool: string;
  #update: ProgressUpdate | undefined;
  #isPaused = false;

  constructor(cli: Cli, tool: string) {
    this.#cli = cli;
    this.#tool = tool;
    this.#timer = setInterval(() => this.#draw(), EVERY);
  }

  readonly listen = (event: RackEvent): void => {
    if (event.type === "progress") {
      this.#tool = event.toolName;
      this.#update = event.update;
    } else if (event.type === "approval") {
      // The question has the screen for itself until it is answered.
      this.#isPaused = event.decision === undefined;
    }
  };

  end(): void {
    clearInterval(this.#timer);
    this.#cli.status.clear();
  }

  #draw(): void {
    const elapsed = performance.now() - this.#startedAt;
    if (this.#isPaused || elapsed < QUIET) return;
    this.#cli.status.set([this.#tool, formatDuration(elapsed), progressText(this.#update)].join("  "));
  }
}

function progressText(update: ProgressUpdate | undefined): string {
  if (update === undefined) return "";
  const { progress, total, message = "" } = update;
  return `${total === undefined ? progress : `${progress}/${total}`}  ${message}`;
}
