export interface LookoutOptions {
  /** What is done each time. May reject. */
  readonly look: () => Promise<void>;
  /** Is told when a look rejects. Must not throw. The next look comes all the same. */
  readonly failed: (error: unknown) => void;
  /** Milliseconds from one look to the next. Default: a second. */
  readonly interval?: number;
}

/**
 * Looks again and again, from `start` to `stop`, for what other processes did. While one look is under way no other is
 * begun, so that a store that hangs is not asked over and over. Does not keep the process alive.
 */
export class Lookout {
  readonly #look: LookoutOptions["look"];
  readonly #failed: LookoutOptions["failed"];
  readonly #interval: number;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor({ look, failed, interval = 1_000 }: LookoutOptions) {
    this.#look = look;
    this.#failed = failed;
    this.#interval = interval;
  }

  /** The first look comes after the interval. Does nothing when it has been started. */
  start(): void {
    this.#timer ??= setInterval(() => this.#lookAgain(), this.#interval).unref();
  }

  /** Can be started again. Resolves when the look under way, which goes on, has ended; never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#looking;
  }

  /**
   * Looks at once, whether it has been started or not. A look under way is not waited for: it may have seen what was
   * before. Never rejects.
   */
  async look(): Promise<void> {
    try {
      await this.#look();
    } catch (error) {
      this.#failed(error);
    }
  }

  #lookAgain(): void {
    this.#looking ??= this.look().finally(() => {
      this.#looking = undefined;
    });
  }
}
