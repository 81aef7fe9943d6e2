/** Something that other processes on the same store may change. */
export interface Followed {
  /** A value that is another one after every change. Without it every look refreshes. */
  readonly version?: () => Promise<unknown>;
  /** Takes over what was changed. When it rejects, it is called again at the next look. */
  readonly refresh: () => Promise<void>;
  /** Is told why looking failed: once, and again for another reason or after a look that succeeded. Must not throw. */
  readonly failed: (error: unknown) => void;
  /** Seconds from one look to the next. Default 1. */
  readonly seconds?: number;
  /** False while nobody waits for a change: then the store is not asked. */
  readonly isNeeded?: () => boolean;
}

export interface Following {
  /** Looks at once. A look under way is not waited for: it may have read what was before. Never rejects. */
  look(): Promise<void>;
  /** Looks no more. Resolves when the look under way has ended; never rejects. */
  stop(): Promise<void>;
}

type ReadVersion = (topic: string, read: () => Promise<unknown>) => Promise<unknown>;

const SECOND = 1_000;

/**
 * Follows what other processes change, with one timer for all who want to know. No topic waits for another, and none is
 * looked at twice at a time, so that a store that hangs is not asked over and over. Does not keep the process alive.
 */
export class Follower {
  readonly #topics = new Set<Topic>();
  #timer: NodeJS.Timeout | undefined;
  #seconds = 0;
  #isClosed = false;

  /** The first look comes after `seconds`. Those who follow one topic share a query for its version. */
  follow(topic: string, followed: Followed): Following {
    const own = new Topic(topic, followed);
    if (!this.#isClosed) {
      this.#topics.add(own);
      this.#timer ??= setInterval(() => this.#look(), SECOND).unref();
    }
    return {
      look: () => own.look((_, read) => read()),
      stop: async () => {
        this.#topics.delete(own);
        if (this.#topics.size === 0) this.#stopTimer();
        await own.underWay;
      },
    };
  }

  /** Resolves when no look is under way any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer();
    await Promise.all([...this.#topics].map(({ underWay }) => underWay));
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    this.#seconds++;
    const versions = new Map<string, Promise<unknown>>();
    const readOnce: ReadVersion = (topic, read) => {
      const known = versions.get(topic) ?? read();
      versions.set(topic, known);
      return known;
    };
    for (const topic of this.#topics) {
      if (this.#seconds % (topic.followed.seconds ?? 1) === 0) topic.lookAgain(readOnce);
    }
  }
}

class Topic {
  readonly #name: string;
  readonly followed: Followed;
  underWay: Promise<void> | undefined;
  #seen: unknown;
  #complaint: string | undefined;

  constructor(name: string, followed: Followed) {
    this.#name = name;
    this.followed = followed;
  }

  lookAgain(readVersion: ReadVersion): void {
    if (this.followed.isNeeded?.() === false) return;
    this.underWay ??= this.look(readVersion).finally(() => {
      this.underWay = undefined;
    });
  }

  async look(readVersion: ReadVersion): Promise<void> {
    const { version, refresh, failed } = this.followed;
    try {
      // Before it refreshes: what is written meanwhile counts a version that is yet to be seen.
      const now = version && (await readVersion(this.#name, version));
      if (version === undefined || now !== this.#seen) await refresh();
      this.#seen = now;
      this.#complaint = undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== this.#complaint) failed(error);
      this.#complaint = reason;
    }
  }
}
