import { reasonOf } from "../helpers/index.ts";

/**
 * Data that other processes on the same store may change. A "look" asks the store once whether the data has
 * changed.
 */
export interface Followed {
  /**
   * Reads a value that is different after every change of the data. Without `version`, every look calls
   * `refresh`.
   */
  readonly version?: () => Promise<unknown>;
  /** Reads the changes. When it rejects, it is called again at the next look. */
  readonly refresh: () => Promise<void>;
  /** Called when a look fails, unless the look before failed for the same reason. Must not throw. */
  readonly failed: (error: unknown) => void;
  /** Seconds from one look to the next. Default 1. */
  readonly seconds?: number;
  /** While it returns false, the store is not asked. */
  readonly isNeeded?: () => boolean;
}

export interface Following {
  /**
   * Looks at once, even while another look is under way, because that one may have read the data before its
   * latest change. Never rejects.
   */
  look(): Promise<void>;
  /** Ends the looks. Resolves when the look under way has ended; never rejects. */
  stop(): Promise<void>;
}

type ReadVersion = (topic: string, read: () => Promise<unknown>) => Promise<unknown>;

interface Topic {
  readonly followed: Followed;
  underWay: Promise<void> | undefined;
  look(readVersion: ReadVersion): Promise<void>;
}

/**
 * Polls the store for changes of other processes, with one timer for all topics. Topics do not wait for each other, and
 * no topic has two looks at a time, so that a store that hangs gets no more queries. Does not keep the process alive.
 */
export class Follower {
  readonly #topics = new Set<Topic>();
  #timer: NodeJS.Timeout | undefined;
  #seconds = 0;
  #isClosed = false;

  /**
   * The first look comes after `seconds`. Followers that give the same `name` share one query for the
   * version.
   */
  follow(name: string, followed: Followed): Following {
    const topic = makeTopic(name, followed);
    if (!this.#isClosed) {
      this.#topics.add(topic);
      this.#timer ??= setInterval(() => this.#look(), 1_000).unref();
    }
    return {
      look: () => topic.look((_, read) => read()),
      stop: async () => {
        this.#topics.delete(topic);
        if (this.#topics.size === 0) this.#stopTimer();
        await topic.underWay;
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
    const readOnce: ReadVersion = (name, read) => {
      const known = versions.get(name) ?? read();
      versions.set(name, known);
      return known;
    };
    for (const topic of this.#topics) {
      const { seconds = 1, isNeeded } = topic.followed;
      if (this.#seconds % seconds !== 0 || isNeeded?.() === false) continue;
      topic.underWay ??= topic.look(readOnce).finally(() => {
        topic.underWay = undefined;
      });
    }
  }
}

function makeTopic(name: string, followed: Followed): Topic {
  const { version, refresh, failed } = followed;
  let seen: unknown;
  let lastFailure: string | undefined;
  const look = async (readVersion: ReadVersion) => {
    try {
      // The version is read before the refresh: a change during the refresh has a newer version, which the next look
      // sees.
      const now = version && (await readVersion(name, version));
      if (version === undefined || now !== seen) await refresh();
      seen = now;
      lastFailure = undefined;
    } catch (error) {
      const reason = reasonOf(error);
      if (reason !== lastFailure) failed(error);
      lastFailure = reason;
    }
  };
  return { followed, underWay: undefined, look };
}
