/** Something that other processes on the same store may change. */
export interface Followed {
  /** Returns a value that changes with every change. Without it, every look refreshes. */
  readonly version?: () => Promise<unknown>;
  /** Reads the changes. When it rejects, it is called again at the next look. */
  readonly refresh: () => Promise<void>;
  /** Called when a look fails; not again for the same reason until a look has succeeded. Must not throw. */
  readonly failed: (error: unknown) => void;
  /** Seconds from one look to the next. Default 1. */
  readonly seconds?: number;
  /** While it returns false, the store is not asked. */
  readonly isNeeded?: () => boolean;
}

export interface Following {
  /**
   * Looks at once, also while another look is under way, which may have read the state before the change. Never
   * rejects.
   */
  look(): Promise<void>;
  /** Ends the looks. Resolves when the look under way has ended; never rejects. */
  stop(): Promise<void>;
}

type ReadVersion = (topic: string, read: () => Promise<unknown>) => Promise<unknown>;

const SECOND = 1_000;

/**
 * Polls the store for changes of other processes, with one timer for all topics. Topics do not wait for each other, and
 * no topic has two looks at a time, so that a store that hangs gets no more queries. Does not keep the process alive.
 */
export class Follower {
  readonly #topics = new Set<Topic>();
  #timer: NodeJS.Timeout | undefined;
  #seconds = 0;
  #isClosed = false;

  /** The first look comes after `seconds`. Followers of the same topic share one query for its version. */
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
  #lastFailure: string | undefined;

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
      // The version is read before the refresh: a change during the refresh has a newer version, which the next look
      // sees.
      const now = version && (await readVersion(this.#name, version));
      if (version === undefined || now !== this.#seen) await refresh();
      this.#seen = now;
      this.#lastFailure = undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== this.#lastFailure) failed(error);
      this.#lastFailure = reason;
    }
  }
}
