import { setTimeout as wait } from "node:timers/promises";

/** How many notices go out at once, and how long it then takes until more do, in milliseconds. */
const BURST = 32;
const WINDOW = 100;

/**
 * Slows down what a tool says, so that one that says something all the time fills neither the line nor the memory. The
 * exchange gathers meanwhile, and leaves out what nobody needs.
 */
export class Pace {
  #since = performance.now();
  #said = 0;

  /** Resolves when more may be said. */
  async said(notices: number): Promise<void> {
    this.#said += notices;
    const passed = performance.now() - this.#since;
    if (passed < WINDOW && this.#said < BURST) return;
    if (passed < WINDOW) await wait(WINDOW - passed);
    this.#since = performance.now();
    this.#said = 0;
  }
}
