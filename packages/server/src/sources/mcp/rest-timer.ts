/** Notices that a server was not used for a while. */
export class RestTimer {
  readonly #limit: number | undefined;
  readonly #onRest: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** Without a limit it never notices. */
  constructor(limit: number | undefined, onRest: () => void) {
    this.#limit = limit;
    this.#onRest = onRest;
  }

  /** From now on nobody uses it. */
  begin(): void {
    if (this.#limit === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onRest, this.#limit);
    this.#timer.unref();
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
