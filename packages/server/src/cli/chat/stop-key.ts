import type { TurnKeys } from "./turn-keys.ts";

/**
 * Hears Ctrl-C on the terminal while a turn runs. The terminal hands it over as a key, so that it stops the turn and
 * never the program.
 */
export class StopKey implements TurnKeys {
  readonly #onStop: () => void;
  #isListening = false;

  constructor(onStop: () => void) {
    this.#onStop = onStop;
  }

  listen(): void {
    if (this.#isListening || process.stdin.isTTY !== true) return;
    this.#isListening = true;
    process.stdin.setRawMode(true);
    process.stdin.on("data", this.#hear);
    process.stdin.resume();
  }

  release(): void {
    if (!this.#isListening) return;
    this.#isListening = false;
    process.stdin.off("data", this.#hear);
    process.stdin.setRawMode(false);
    process.stdin.pause();
  }

  readonly #hear = (keys: Buffer | string): void => {
    if (String(keys).includes("\u0003")) this.#onStop();
  };
}
