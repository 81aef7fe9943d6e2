/** The attempts to start a server, of which there is one at a time. */
export class Attempts {
  readonly #connect: (signal: AbortSignal) => Promise<void>;
  #underWay: Promise<void> | undefined;
  #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;
  /** When the last one began, the one before it, and when the next one will. Milliseconds since the epoch. */
  lastAt = 0;
  formerAt = 0;
  nextAt: number | undefined;
  /** The server was ready a moment ago, and only a session is made anew. Holds until the attempt has ended. */
  isReopening = false;

  /** `connect` must not reject, and must come to its end soon once the signal has aborted. */
  constructor(connect: (signal: AbortSignal) => Promise<void>) {
    this.#connect = connect;
  }

  /** Resolves when the attempt under way has ended, however; undefined when there is none. */
  get underWay(): Promise<void> | undefined {
    return this.#underWay;
  }

  /** There will be no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Joins the one that is under way, or begins one. Resolves when it has ended, however. */
  begin(): Promise<void> {
    this.#forgetNext();
    this.#underWay ??= this.#run().finally(() => {
      this.#underWay = undefined;
      this.isReopening = false;
    });
    return this.#underWay;
  }

  /** In milliseconds. */
  beginAfter(pause: number): void {
    this.#forgetNext();
    this.nextAt = Date.now() + pause;
    this.#timer = setTimeout(() => void this.begin(), pause);
    this.#timer.unref();
  }

  /** None begins by itself any more. */
  #forgetNext(): void {
    clearTimeout(this.#timer);
    this.nextAt = undefined;
  }

  /** Gives up the one that is under way, and the next one. Resolves when nothing is under way. */
  async giveUp(): Promise<void> {
    this.#forgetNext();
    this.#abort.abort();
    await this.#underWay;
  }

  /** The same, for good. */
  end(): Promise<void> {
    this.#isOver = true;
    return this.giveUp();
  }

  async #run(): Promise<void> {
    if (this.#isOver) return;
    this.#abort = new AbortController();
    this.formerAt = this.lastAt;
    this.lastAt = Date.now();
    await this.#connect(this.#abort.signal);
  }
}
