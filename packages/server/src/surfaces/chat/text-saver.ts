/** How soon text that came is kept, in milliseconds. */
const EVERY = 1_000;
/** Of the time, saving takes no more than one part in so many. */
const SHARE = 20;

/**
 * Keeps an answer while it comes: about once a second, and less often where saving takes long. Saves never overtake each
 * other.
 */
export class TextSaver {
  readonly #write: () => Promise<void>;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #pause = EVERY;
  #underWay = 0;
  #isTouched = false;

  constructor(write: () => Promise<void>) {
    this.#write = write;
  }

  /** More has come, which is to be kept before long. A save of its own accord may fail: the next one has it too. */
  touch(): void {
    this.#isTouched = this.#underWay > 0;
    if (this.#isTouched) return;
    this.#timer ??= setTimeout(() => void this.save().catch(() => {}), this.#pause).unref();
  }

  /** Resolves when all that has come is kept. */
  save(): Promise<void> {
    this.#cancel();
    this.#underWay++;
    const saved = this.#saving.then(() => this.#measured());
    this.#saving = saved.catch(() => {});
    return saved;
  }

  /** Saves no more of its own accord. Resolves when nothing is under way. */
  async end(): Promise<void> {
    this.#cancel();
    await this.#saving;
    this.#cancel();
  }

  async #measured(): Promise<void> {
    const begin = performance.now();
    this.#isTouched = false;
    try {
      await this.#write();
    } finally {
      this.#underWay--;
      this.#pause = Math.max(EVERY, (performance.now() - begin) * SHARE);
      if (this.#isTouched) this.touch();
    }
  }

  #cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
