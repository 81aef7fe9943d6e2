import type { Logger } from "@toolrack/core";

/** What is being written while nobody waits for it. */
export class PendingWrites {
  readonly #logger: Logger;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** One that fails is told to the log. */
  add(writing: Promise<unknown>): void {
    const settled = writing.catch((error) => {
      this.#logger.error(
        `An approval could not be written: ${error instanceof Error ? error.message : error}`,
      );
    });
    this.#underWay.add(settled);
    void settled.then(() => this.#underWay.delete(settled));
  }

  /** Resolves when nothing is under way, also of what is begun meanwhile. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }
}
