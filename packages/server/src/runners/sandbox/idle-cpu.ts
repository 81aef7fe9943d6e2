/** For what a tool has to tidy up after a call. */
const mostSeconds = 1;

/** Adds up the processor time that a worker uses between two calls. */
export class IdleCpu {
  #seconds = 0;
  #lastLook = 0;

  /**
   * Whether it is more than a worker may use. `used` are the seconds since the last look, which count only when it was
   * idle all the while; `idleSince` is nothing when it is not.
   */
  isTooMuch(used: number, idleSince: number | undefined): boolean {
    const wasIdle = idleSince !== undefined && idleSince < this.#lastLook;
    this.#lastLook = performance.now();
    this.#seconds = wasIdle ? this.#seconds + used : 0;
    return this.#seconds > mostSeconds;
  }
}
