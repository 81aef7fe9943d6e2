import type { Logger } from "@toolrack/core";
import { Lookout } from "./async/lookout.ts";
import type { RegistryVersion } from "./store/registry-version/registry-version.ts";

/** Can take over what another process wrote into the store. May reject; then it is asked again. */
export interface Refreshable {
  refresh(): Promise<void>;
}

/**
 * Keeps parts of the rack in step with what other processes on the same store change: each of them is asked to read again
 * whenever the version of the registry has become another. One small query a second.
 */
export class RegistryFollower {
  readonly #version: Pick<RegistryVersion, "read">;
  readonly #logger: Logger;
  readonly #lookout: Lookout;
  /** With the version that each has read. */
  readonly #parts = new Map<Refreshable, number | undefined>();
  #complaint = "";

  constructor(version: Pick<RegistryVersion, "read">, logger: Logger) {
    this.#version = version;
    this.#logger = logger;
    this.#lookout = new Lookout({
      look: () => this.#look(),
      failed: (error) => this.#complain(error),
    });
    this.#lookout.start();
  }

  /** What it read before need not be what there is now, so it is asked at the next look. Answers how to end it. */
  follow(part: Refreshable): () => void {
    this.#parts.set(part, undefined);
    return () => this.#parts.delete(part);
  }

  /** Resolves when nobody is being asked any more. */
  close(): Promise<void> {
    return this.#lookout.stop();
  }

  async #look(): Promise<void> {
    // Before they read: what is written meanwhile counts a version that is yet to be seen.
    const version = await this.#version.read();
    const behind = [...this.#parts].filter(([, read]) => read !== version);
    const outcomes = await Promise.allSettled(
      behind.map(async ([part]) => {
        await part.refresh();
        if (this.#parts.has(part)) this.#parts.set(part, version);
      }),
    );
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    this.#complaint = "";
  }

  #complain(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    // Once, and not every second while the database is away.
    if (this.#complaint !== reason)
      this.#logger.warn(`What other processes changed could not be read: ${reason}`);
    this.#complaint = reason;
  }
}
