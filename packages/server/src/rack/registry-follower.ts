import type { Logger } from "@toolrack/core";
import { Lookout } from "../helpers/index.ts";
import type { RegistryVersion } from "../store/index.ts";

/** Can take over what another process wrote into the store. May reject; then it is asked again. */
export interface Refreshable {
  refresh(): Promise<void>;
}

/** How far a part is. */
interface Progress {
  /** The version that it has read. */
  read?: number;
  /** It is being asked. */
  isAsked: boolean;
  complaint: string;
}

/**
 * Keeps parts of the rack in step with what other processes on the same store change: each of them is asked to read again
 * whenever the version of the registry has become another, and none waits for another. One small query a second.
 */
export class RegistryFollower {
  readonly #version: Pick<RegistryVersion, "read">;
  readonly #logger: Logger;
  readonly #lookout: Lookout;
  readonly #parts = new Map<Refreshable, Progress>();
  readonly #asking = new Set<Promise<void>>();
  /** Of the query itself. */
  readonly #looking = { complaint: "" };

  constructor(version: Pick<RegistryVersion, "read">, logger: Logger) {
    this.#version = version;
    this.#logger = logger;
    this.#lookout = new Lookout({
      look: () => this.#look(),
      failed: (error) => this.#complain(this.#looking, error),
    });
    this.#lookout.start();
  }

  /** What it read before need not be what there is now, so it is asked at the next look. Answers how to end it. */
  follow(part: Refreshable): () => void {
    this.#parts.set(part, { isAsked: false, complaint: "" });
    return () => this.#parts.delete(part);
  }

  /** Resolves when nobody is being asked any more. */
  async close(): Promise<void> {
    await this.#lookout.stop();
    await Promise.all(this.#asking);
  }

  async #look(): Promise<void> {
    // Before they read: what is written meanwhile counts a version that is yet to be seen.
    const version = await this.#version.read();
    this.#looking.complaint = "";
    for (const [part, progress] of this.#parts) {
      if (progress.read === version || progress.isAsked) continue;
      const asking = this.#ask(part, progress, version).finally(() => this.#asking.delete(asking));
      this.#asking.add(asking);
    }
  }

  /** Never rejects. */
  async #ask(part: Refreshable, progress: Progress, version: number): Promise<void> {
    progress.isAsked = true;
    try {
      await part.refresh();
      progress.read = version;
      progress.complaint = "";
    } catch (error) {
      this.#complain(progress, error);
    } finally {
      progress.isAsked = false;
    }
  }

  #complain(about: { complaint: string }, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    // Once, and not every second while the database is away.
    if (about.complaint !== reason)
      this.#logger.warn(`What other processes changed could not be read: ${reason}`);
    about.complaint = reason;
  }
}
